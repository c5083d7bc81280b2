"""A block of your own with a skip connection becomes a network of adaptive depth: python examples/wrap_your_block.py"""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

import frost


class MyBlock(nn.Module):
    """Any block that keeps its input's shape; this one adds its own input."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(4, channels)
        self.depthwise = nn.Conv2d(channels, channels, 3, padding=1, groups=channels)
        self.mix = nn.Conv2d(channels, channels, 1)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """The input plus a mixed neighbourhood."""
        return hidden + self.mix(nn.functional.gelu(self.depthwise(self.norm(hidden))))


torch.manual_seed(0)
images, labels = (torch.from_numpy(part) for part in (load_digits().images / 16, load_digits().target))
parts = random_split(TensorDataset(images[:, None].float(), labels), [897, 400, 500])
train, held_out, test = (DataLoader(part, batch_size=64, shuffle=part is parts[0]) for part in parts)

model = frost.Frost(nn.Conv2d(1, 32, 3, padding=1), frost.branch(MyBlock(32)), head=frost.Classifier(32, 10), depth=8)
frost.fit(model, train, epochs=12)
calibration = frost.calibrate(model, held_out, signal="confidence")
print(frost.evaluate(model, test, calibration))

model.save("runs/wrap_your_block")
run = frost.load("runs/wrap_your_block", model=model)
engine = frost.Engine(run.model, run.calibration.at_mean_depth(4))
for result in engine.run(image for image, _ in list(parts[2])[:5]):
    print(f"a {int(result.output.argmax())} after {result.depth} steps")
