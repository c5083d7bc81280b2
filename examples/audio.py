"""Waveforms in more or less noise, with a 1-D convolution as the block: python examples/audio.py"""

import math

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset, random_split

import frost


def waveforms(count: int) -> tuple[Tensor, Tensor]:
    """Steady, rising, falling and wavering tones of 256 samples, and which of them each is."""
    kinds, time = torch.randint(4, (count,)), torch.linspace(0, 1, 256)
    pitch, bend, phase = torch.rand(3, count, 1)
    bends = torch.stack([0 * time, time, -time, torch.sin(4 * math.pi * time)])[kinds]
    frequency = 16 + 16 * pitch + (8 + 8 * bend) * bends                               # in cycles
    tones = torch.sin(2 * math.pi * (frequency.cumsum(dim=1) / 256 + phase))
    return (tones + 1.5 * torch.rand(count, 1) * torch.randn(count, 256))[:, None], kinds


torch.manual_seed(0)
training, held_out, test = random_split(TensorDataset(*waveforms(4000)), [2000, 1000, 1000])

block = nn.Sequential(nn.GroupNorm(4, 32), nn.Conv1d(32, 32, 5, padding=2), nn.GELU(), nn.Conv1d(32, 32, 1))
stem = nn.Conv1d(1, 32, 16, stride=8, padding=4)    # to 32 channels at 32 places: layout= says which axis is which
model = frost.Frost(stem, block, head=frost.Classifier(32, 4), depth=8, layout="maps")
frost.fit(model, DataLoader(training, batch_size=64, shuffle=True), epochs=15)
calibration = frost.calibrate(model, DataLoader(held_out, batch_size=100), signal="margin")
print(frost.evaluate(model, DataLoader(test, batch_size=100), calibration))

model.save("runs/audio")
run = frost.load("runs/audio", model=model)
engine = frost.Engine(run.model, calibration.at_mean_depth(4))
for result in engine.run((int(kind), wave) for wave, kind in list(test)[:5]):
    print(f"kind {result.key} is heard as {int(result.output.argmax())} after {result.depth} steps")
