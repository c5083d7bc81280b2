"""A head, a loss and a quality of your own: how long is the word at the cursor? python examples/own_head_and_loss.py"""

import torch
from torch import Tensor, nn

import frost


class Counter(nn.Conv1d):
    """A head of your own: counts the places that belong to the word."""

    def forward(self, hidden: Tensor) -> Tensor:
        """The normalised state (b, c, n) → (b, 1)."""
        return super().forward(hidden).sigmoid().sum(dim=2)


def loss(lengths: Tensor, targets: Tensor) -> Tensor:
    """One number a sample, which training makes small."""
    return nn.functional.smooth_l1_loss(lengths, targets, reduction="none").mean(dim=1)


torch.manual_seed(0)
letters = (torch.rand(4000, 1, 40) < 0.7).float()    # the others are spaces
cursor = (letters * torch.rand(4000, 1, 40)).argmax(dim=2, keepdim=True)
spaces = (1 - letters).cumsum(dim=2)                 # the same number all along a word
lengths = (letters * (spaces == spaces.gather(2, cursor))).sum(dim=2)
texts = torch.cat([letters, (cursor == torch.arange(40)).float()], dim=1)
batches = list(zip(texts.split(16), lengths.split(16), strict=True))

block = nn.Sequential(nn.GroupNorm(4, 32), nn.Conv1d(32, 32, 5, padding=2), nn.GELU(), nn.Conv1d(32, 32, 1))
head = frost.OwnHead(Counter(32, 1, 1), channels=32, loss=loss,
                     quality=lambda lengths, targets: (lengths.round() == targets).all(dim=1))    # from 0 to 1
model = frost.Frost(nn.Conv1d(2, 32, 3, padding=1), block, head=head, depth=8)
frost.fit(model, batches[:125], epochs=8)
calibration = frost.calibrate(model, batches[125:185])
print(frost.evaluate(model, batches[185:], calibration))
model.save("runs/own_head_and_loss")
engine = frost.Engine(frost.load("runs/own_head_and_loss", model=model).model, calibration.at_mean_depth(4))
for result in engine.run(zip(lengths[-8:, 0].tolist(), texts[-8:], strict=True)):
    print(f"a word of {result.key:.0f} letters: {result.output.item():.1f} after {result.depth} steps")
