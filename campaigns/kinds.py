"""One small model for each kind of input, head and state: what tests and the batch-invariance campaign run.

    KINDS["tokens-dense"].model()   a model whose block gets a padding mask, with an answer at each position
    KINDS["tokens-dense"].batch(8)  inputs and targets for it
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

import frost
from frost.core.trajectory import IterativeModel

CHANNELS, DEPTH, LENGTH, WORDS = 16, 5, 11, 20


class Kind(NamedTuple):
    """A kind of input and head."""

    build: Callable[[], IterativeModel]
    inputs: Callable[[int, torch.Generator], Any]
    targets: Callable[[int, torch.Generator], Tensor]

    def model(self, seed: int = 0) -> IterativeModel:
        """A model with weights of its own, in evaluation mode."""
        torch.manual_seed(seed)
        return self.build().eval()

    def batch(self, count: int, seed: int = 0) -> tuple[Any, Tensor]:
        """Inputs and targets."""
        generator = torch.Generator().manual_seed(seed)
        return self.inputs(count, generator), self.targets(count, generator)


class Words(nn.Module):
    """Token ids, 0 for padding → states, and where they are."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(WORDS, CHANNELS)

    def forward(self, ids: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """(b, n) → (b, n, c), and a mask (b, n)."""
        return self.table(ids), {"mask": ids > 0}


class Named(nn.Module):
    """The same from a dict of ids and a mask."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(WORDS, CHANNELS)

    def forward(self, inputs: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """ids and mask (b, n) → (b, n, c), and the mask."""
        return self.table(inputs["ids"]), {"mask": inputs["mask"]}


class Attending(nn.Module):
    """Self-attention that leaves padding out."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(CHANNELS)
        self.attention = nn.MultiheadAttention(CHANNELS, 2, batch_first=True)
        self.mix = nn.Linear(CHANNELS, CHANNELS)

    def forward(self, hidden: Tensor, mask: Tensor) -> Tensor:
        """(b, n, c) → (b, n, c)."""
        normal = self.norm(hidden)
        mixed, _ = self.attention(normal, normal, normal, key_padding_mask=~mask, need_weights=False)
        return self.mix(torch.tanh(mixed))


class Pair(nn.Module):
    """Two vectors → one."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, CHANNELS), nn.Linear(4, CHANNELS)

    def forward(self, inputs: tuple[Tensor, Tensor]) -> Tensor:
        """(b, 6), (b, 4) → (b, c)."""
        return self.first(inputs[0]) + self.second(inputs[1])


class OwnHead(nn.Module):
    """The largest value of each channel, then two numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(CHANNELS, 2)

    def forward(self, hidden: Tensor) -> Tensor:
        """(b, c, h, w) → (b, 2)."""
        return self.out(hidden.flatten(2).amax(dim=2))


class Cell(nn.Module):
    """A recurrence of a user's: a state of two parts, read by a linear map."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.out = nn.LSTMCell(6, CHANNELS), nn.Linear(CHANNELS, 3)

    def begin(self, x: Tensor) -> dict[str, Tensor]:
        """Zeros, and the input itself."""
        zeros = x.new_zeros(len(x), CHANNELS)
        return {"a_hidden": zeros, "cell": zeros, "x": x}

    def step(self, state: dict[str, Tensor]) -> dict[str, Tensor]:
        """One look at the input."""
        hidden, cell = self.cell(state["x"], (state["a_hidden"], state["cell"]))
        return {"a_hidden": hidden, "cell": cell, "x": state["x"]}

    def read(self, state: dict[str, Tensor]) -> Tensor:
        """Logits."""
        return self.out(state["a_hidden"])


def _frost(stem: nn.Module, block: nn.Module, head: nn.Module, **options: Any) -> IterativeModel:
    return frost.Frost(stem, block, head, depth=DEPTH, **options)


def _mlp() -> nn.Module:
    return nn.Sequential(nn.LayerNorm(CHANNELS), nn.Linear(CHANNELS, 2 * CHANNELS), nn.GELU(),
                         nn.Linear(2 * CHANNELS, CHANNELS))


def _convolution(dimensions: int) -> nn.Module:
    kind = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[dimensions - 1]
    return nn.Sequential(nn.GroupNorm(2, CHANNELS), nn.ReLU(), kind(CHANNELS, CHANNELS, 3, padding=1))


def _random(*shape: int) -> Callable[[int, torch.Generator], Tensor]:
    return lambda count, generator: torch.randn(count, *shape, generator=generator)


def _classes(classes: int, *shape: int) -> Callable[[int, torch.Generator], Tensor]:
    return lambda count, generator: torch.randint(classes, (count, *shape), generator=generator)


def _ids(count: int, generator: torch.Generator) -> Tensor:
    ids = torch.randint(1, WORDS, (count, LENGTH), generator=generator)
    lengths = torch.randint(1, LENGTH + 1, (count, 1), generator=generator)
    return ids.masked_fill(torch.arange(LENGTH) >= lengths, 0)


def _named(count: int, generator: torch.Generator) -> dict[str, Tensor]:
    ids = _ids(count, generator)
    return {"ids": ids, "mask": ids > 0}


def _cell() -> IterativeModel:
    cell = Cell()
    return frost.iterate(cell.begin, cell.step, cell.read, DEPTH, channels=CHANNELS)


def absolute(outputs: Tensor, targets: Tensor) -> Tensor:
    """A loss of a user's."""
    return (outputs - targets).abs().mean(dim=1)


def near(outputs: Tensor, targets: Tensor) -> Tensor:
    """A quality of a user's, between 0 and 1."""
    return (1 - absolute(outputs, targets)).clamp(0, 1)


KINDS = {
    "vectors": Kind(lambda: _frost(nn.Linear(6, CHANNELS), _mlp(), frost.Classifier(CHANNELS, 3)), _random(6),
                    _classes(3)),
    "numbers": Kind(lambda: _frost(nn.Linear(6, CHANNELS), _mlp(), frost.Regressor(CHANNELS, 2, tolerance=0.8)),
                    _random(6), _random(2)),
    "pairs": Kind(lambda: _frost(Pair(), _mlp(), frost.Classifier(CHANNELS, 3)),
                  lambda count, generator: (_random(6)(count, generator), _random(4)(count, generator)), _classes(3)),
    "tokens": Kind(lambda: _frost(Words(), Attending(), frost.Classifier(CHANNELS, 3)), _ids, _classes(3)),
    "tokens-dense": Kind(lambda: _frost(Words(), Attending(), frost.Dense(CHANNELS, 3)), _ids, _classes(3, LENGTH)),
    "named": Kind(lambda: _frost(Named(), Attending(), frost.Dense(CHANNELS, 3)), _named, _classes(3, LENGTH)),
    "audio": Kind(lambda: _frost(nn.Conv1d(1, CHANNELS, 5, padding=2), _convolution(1),
                                 frost.Classifier(CHANNELS, 3)), _random(1, 40), _classes(3)),
    "maps-dense": Kind(lambda: _frost(nn.Conv2d(2, CHANNELS, 3, padding=1), _convolution(2), frost.Dense(CHANNELS, 4)),
                       _random(2, 6, 7), _classes(4, 6, 7)),
    "volumes": Kind(lambda: _frost(nn.Conv3d(1, CHANNELS, 3, padding=1), _convolution(3),
                                   frost.Classifier(CHANNELS, 3)), _random(1, 4, 5, 6), _classes(3)),
    "own-head": Kind(lambda: _frost(nn.Conv2d(2, CHANNELS, 3, padding=1), _convolution(2), frost.OwnHead(
        OwnHead(), CHANNELS, loss=absolute, quality=near)), _random(2, 6, 7), _random(2)),
    "recurrence": Kind(_cell, _random(6), _classes(3)),
}
