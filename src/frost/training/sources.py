"""Where training batches come from: a data set in our order, read ahead by threads, or any loader of the user's.

A source gives the batches of an epoch from any place on, so that a training can go on in the middle of one. For a data
set the order is a function of (seed, epoch). For a loader it is whatever the loader makes of PyTorch's random numbers,
which are set by (seed, epoch) before it begins: a `DataLoader` that shuffles gives the same order again.

Only reading is done ahead. Which images a batch has is settled before, and what is random is drawn by the step itself,
so the number of threads changes nothing.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor

from frost.core.inputs import Inputs, batch_of, pair_of, to_device
from frost.data.augment import Mixed, augmented, looks_across
from frost.data.prefetch import read_ahead
from frost.data.splits import Images
from frost.training.distributed import World
from frost.training.settings import TrainConfig, generator_of, mixed_seed

AHEAD = 2    # batches that are read ahead, for each thread


class Batch(NamedTuple):
    """A batch that can be trained on."""

    inputs: Inputs             # of this process
    targets: Tensor            # of all processes
    part: slice                # of the targets that are this process's; may be empty
    name: str                  # in a sentence, if something is wrong with it
    mixed: Mixed | None = None


@runtime_checkable
class Source(Protocol):
    """Training batches, epoch by epoch."""

    batches: int               # in an epoch

    def epoch(self, number: int, first: int, device: torch.device, dtype: torch.dtype) -> Iterator[Batch]:
        """The batches of an epoch (from 1), without its `first` ones, where and in the precision that a model takes."""


class Loaded(NamedTuple):
    """The images of one step as they were read, as far as this process needs them."""

    rows: Tensor        # of all processes
    part: slice         # of this one; may be empty in the last batch of an epoch
    images: Tensor      # those of `computed`, or of all rows
    is_whole: bool

    @property
    def computed(self) -> slice:
        """What this process computes: its part, or the first image, uncounted, so that it has something to send."""
        return self.part if self.part.start < self.part.stop else slice(0, 1)


def prefetch(data: Images, shares: Sequence[Tensor], world: World, whole: bool, workers: int) -> Iterator[Loaded]:
    """The images of some rows after those of others, in order, some of them read while others are used.

    Args:
        shares: the rows of each batch.
        whole: read the images of all processes, for augmentations that look across a batch.
        workers: threads that read; 0 reads when a batch is asked for.
    """
    def read(rows: Tensor) -> Loaded:
        batch = Loaded(rows, world.part(len(rows)), rows, whole)
        return batch._replace(images=data.batch(rows if whole else rows[batch.computed]))

    return read_ahead(read, shares, workers, AHEAD * workers) if workers else map(read, shares)


class ImageSource:
    """A data set of labelled images, shuffled, augmented and shared among processes.

    Args:
        workers: threads that read ahead; their number changes nothing.
    """

    def __init__(self, data: Images, config: TrainConfig, world: World, workers: int = 0) -> None:
        self._data, self._config, self._world, self._workers = data, config, world, workers
        self.batches = -(-len(data) // (config.batch * world.size))

    def epoch(self, number: int, first: int, device: torch.device, dtype: torch.dtype) -> Iterator[Batch]:
        """The order is a function of (seed, epoch), what is random in a batch of (seed, step)."""
        config, step = self._config, (number - 1) * self.batches + first
        order = torch.randperm(len(self._data), generator=generator_of(config.seed, 1, number))
        shares = order.split(config.batch * self._world.size)[first:]
        for batch in prefetch(self._data, shares, self._world, looks_across(config.augment), self._workers):
            step += 1
            labels = self._data.labels[batch.rows].to(device)
            images, mixed = self._augmented(batch, labels, generator_of(config.seed, 2, step))
            yield Batch(images.to(dtype), labels, batch.part, _which(batch.rows), mixed)

    def _augmented(self, batch: Loaded, labels: Tensor, generator: torch.Generator) -> tuple[Tensor, Mixed | None]:
        """This process's part of a batch, augmented as it would be if one process had it all."""
        images = batch.images.to(labels.device)
        if batch.is_whole:
            images, mixed = augmented(images, labels, self._config.augment, generator)
            return images[batch.computed], mixed
        return augmented(images, labels, self._config.augment, generator, batch.computed)


class LoaderSource:
    """Any iterable of (inputs, targets) batches: a DataLoader, a list, a generator.

    Args:
        steps: batches in an epoch, where the loader has no length and gives its batches only once.
    """

    def __init__(self, loader: Any, seed: int, steps: int | None = None) -> None:
        if not isinstance(loader, Iterable) and not hasattr(loader, "__getitem__"):
            raise ValueError(f"a loader must be an iterable of (inputs, targets) batches, got a "
                             f"{type(loader).__name__}.")
        self._loader, self._seed = loader, seed
        self.is_once = isinstance(loader, Iterator)    # it cannot be rewound
        self.batches = _count(loader) if steps is None else operator.index(steps)
        if self.batches < 1:
            raise ValueError("the loader gives no batch at all; it must give pairs of inputs and targets.")

    def first(self, device: torch.device, dtype: torch.dtype) -> Batch:
        """The first batch, to be tried before a training begins; a loader that gives it once gives it again."""
        found = next(iter(self.epoch(1, 0, device, dtype)))
        if isinstance(self._loader, Iterator):
            self._loader = chain([(found.inputs, found.targets)], self._loader)
        return found

    def epoch(self, number: int, first: int, device: torch.device, dtype: torch.dtype) -> Iterator[Batch]:
        """From the loader's own beginning, batches of before are drawn again and passed over."""
        if self.is_once and first:
            warnings.warn(f"the loader cannot be rewound: it goes on with the batches that it gives now, and the "
                          f"{first} before this point are not those that were trained on", stacklevel=2)
            first = 0
        random = torch.Generator().manual_seed(mixed_seed(self._seed, 1, number)).get_state()
        if number > 1 and getattr(self._loader, "persistent_workers", False):
            warnings.warn("the loader keeps its workers from epoch to epoch (persistent_workers), and with them their "
                          "random numbers: a training that is resumed sees other augmentations", stacklevel=2)
        own = getattr(self._loader, "generator", None)
        if isinstance(own, torch.Generator):
            own.manual_seed(mixed_seed(self._seed, 1, number))    # a DataLoader may shuffle by one of its own
        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(random)
            iterator, random = iter(self._loader), torch.get_rng_state()
        for place in range(self.batches):
            with torch.random.fork_rng(devices=[]):    # a loader's random numbers are its own, whatever a step draws
                torch.set_rng_state(random)
                item, random = next(iterator, None), torch.get_rng_state()
            if item is None:
                raise ValueError(f"the loader gave {place} batches in epoch {number}, and {self.batches} were "
                                 "expected; give steps= if it is shorter, or a loader that always gives as many.")
            if place >= first:
                inputs, targets = pair_of(item)
                count = batch_of(inputs)
                yield Batch(to_device(inputs, device, dtype), targets.to(device), slice(0, count),
                            f"batch {place + 1} of epoch {number}")


def _count(loader: Iterable[Any]) -> int:
    try:
        return len(loader)    # type: ignore[arg-type]
    except TypeError:
        raise ValueError("the loader has no length; say how many batches an epoch has with steps=, or pass a list or a "
                         "DataLoader.") from None


def _which(rows: Tensor, most: int = 16) -> str:
    """The images of a batch, in a sentence that stays short."""
    more = f" and {len(rows) - most} more" if len(rows) > most else ""
    return f"images {', '.join(map(str, rows[:most].tolist()))}{more}"
