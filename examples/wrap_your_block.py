"""A block of your own becomes a FROST model and takes a training step: python examples/wrap_your_block.py"""

import torch
from torch import nn

import frost
from frost.halting.ranking import HaltingConfig
from frost.training.objective import objective


class MyBlock(nn.Module):
    """Any block that keeps its input's shape; this one adds its own input."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(8, channels)
        self.depthwise = nn.Conv2d(channels, channels, 5, padding=2, groups=channels)
        self.mix = nn.Conv2d(channels, channels, 1)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        """The input plus a mixed neighbourhood."""
        return hidden + self.mix(nn.functional.gelu(self.depthwise(self.norm(hidden))))


torch.manual_seed(0)
model = frost.Frost(
    stem=nn.Conv2d(3, 64, 4, stride=4),
    transition=frost.branch(MyBlock(64)),     # A is the update, so the skip connection is taken off
    channels=64, classes=10, config=frost.FrostConfig(depth=8))

images, labels = torch.rand(16, 3, 32, 32), torch.randint(10, (16,))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
before = objective(model(images), labels, HaltingConfig())
before.total.backward()
optimizer.step()
after = objective(model(images), labels, HaltingConfig())
print(f"λ = {model.scale.value.item():.4f}, loss {before.total.item():.4f} → {after.total.item():.4f}")
