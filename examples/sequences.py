"""Token ids with padding: how many closing brackets close nothing? python examples/sequences.py"""

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset, random_split

import frost


class Stem(nn.Embedding):
    """Embeds each id at its place, and says which positions count."""

    def forward(self, ids: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """(b, n) → (b, n, c), and a context: the block is called with it, and the head leaves padding out."""
        return super().forward(ids + 3 * torch.arange(16)), {"mask": ids > 0}


class Block(nn.TransformerEncoderLayer):
    """A transformer layer that takes mask=…, true where a position counts."""

    def forward(self, hidden: Tensor, mask: Tensor) -> Tensor:
        """Attend to the positions that count."""
        return super().forward(hidden, src_key_padding_mask=~mask)


torch.manual_seed(0)
signs = torch.where(torch.rand(5500, 16) < 0.5, 1, -1)                               # 1 opens, −1 closes
steps = torch.where(torch.arange(16) < torch.randint(4, 17, (5500, 1)), signs, 0)    # 4 to 16 of them, then padding
strings = TensorDataset(steps % 3, (-steps.cumsum(dim=1)).amax(dim=1).clamp(0, 5))    # 5 is five or more
training, held_out, test = random_split(strings, [3500, 1000, 1000])

block = frost.branch(Block(32, 4, 64, dropout=0.0, batch_first=True, norm_first=True))
model = frost.Frost(Stem(48, 32), block, head=frost.Classifier(32, 6), depth=8)
frost.fit(model, DataLoader(training, batch_size=64, shuffle=True), epochs=6)
calibration = frost.calibrate(model, DataLoader(held_out, batch_size=100), signal="confidence")
print(frost.evaluate(model, DataLoader(test, batch_size=100), calibration))
model.save("runs/sequences")
run = frost.load("runs/sequences", model=model)
for result in frost.Engine(run.model, calibration.at_mean_depth(3)).run((int(n), ids) for ids, n in list(test)[:5]):
    print(f"{result.key} are seen as {int(result.output.argmax())} after {result.depth} steps")
