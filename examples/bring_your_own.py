"""A recurrence of your own: a solver that finds sparse codes, and learns to: python examples/bring_your_own.py"""

import torch
from torch import Tensor, nn

import frost


class Solver(nn.Module):
    """Which few columns of a matrix add up to y? Each step goes against the error, then shrinks (ISTA, LISTA)."""

    def __init__(self, matrix: Tensor) -> None:
        super().__init__()
        self.matrix, self.back = nn.Parameter(matrix.clone()), nn.Parameter(matrix.T / 5)
        self.shrink = nn.Parameter(torch.full((matrix.shape[1],), 0.05))

    def begin(self, y: Tensor) -> tuple[Tensor, Tensor]:
        """The first state: a code of zeros, and y, which every step looks at."""
        return y.new_zeros(len(y), len(self.shrink)), y

    def step(self, state: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """The next state."""
        moved = state[0] + (state[1] - state[0] @ self.matrix.T) @ self.back.T
        return moved.sign() * (moved.abs() - self.shrink).relu(), state[1]


torch.manual_seed(0)
matrix, codes = nn.functional.normalize(torch.randn(30, 40), dim=0), 2 * torch.rand(4000, 40) - 1
codes = (codes + 0.5 * codes.sign()) * (torch.rand(4000, 40) < 0.15 * torch.rand(4000, 1))    # 0 to 6 or so of 40
batches = list(zip((codes @ matrix.T).split(50), codes.split(50), strict=True))
solver = Solver(matrix)
model = frost.iterate(solver.begin, solver.step, lambda state: state[0], depth=16, gives="numbers",
                      loss=lambda found, true: (found - true).square().sum(dim=1), quality=frost.within(0.2))
frost.fit(model, batches[:40], epochs=20)
frost.calibrate(model, batches[40:60], signal="change")
print(frost.evaluate(model, batches[60:]))
model.save("runs/bring_your_own")
run = frost.load("runs/bring_your_own", model=model)
for result in frost.Engine(run.model, frost.stop_when(change=0.01)).run(batches[60][0][:6]):
    print(f"{int((result.output != 0).sum())} columns after {result.depth} steps")
