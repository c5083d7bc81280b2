"""A block of your own with a skip connection becomes a network of adaptive depth: python examples/wrap_your_block.py"""

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset, random_split

import frost


class MyBlock(nn.Module):
    """Any block that keeps its input's shape; this one adds its own input."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(8, channels)
        self.depthwise = nn.Conv2d(channels, channels, 3, padding=1, groups=channels)
        self.mix = nn.Conv2d(channels, channels, 1)

    def forward(self, hidden: Tensor) -> Tensor:
        """The input plus a mixed neighbourhood."""
        return hidden + self.mix(nn.functional.gelu(self.depthwise(self.norm(hidden))))


torch.manual_seed(0)
images, labels = load_digits(return_X_y=True)
digits = TensorDataset(torch.tensor(images / 16).float().view(-1, 1, 8, 8), torch.tensor(labels))
training, held_out, test = random_split(digits, [897, 400, 500])

block = frost.branch(MyBlock(64))    # frost adds the state itself, so the block's own skip connection is taken off
model = frost.Frost(nn.Conv2d(1, 64, 2, stride=2), block, head=frost.Classifier(64, 10), depth=8)
frost.fit(model, DataLoader(training, batch_size=32, shuffle=True), epochs=15)
frost.calibrate(model, DataLoader(held_out, batch_size=100), signal="confidence")
print(frost.evaluate(model, DataLoader(test, batch_size=100)))

model.save("runs/wrap_your_block")
run = frost.load("runs/wrap_your_block", model=model)
engine = frost.Engine(run.model, run.calibration.at_mean_depth(3))
for result in engine.run((int(label), image) for image, label in list(test)[:8]):
    print(f"a {result.key} is seen as {int(result.output.argmax())} after {result.depth} steps")
