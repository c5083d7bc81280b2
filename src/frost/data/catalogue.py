"""The data sets by name: what each is, where it is looked for, and how it is read.

Nothing is fetched unless asked for; what is missing is an error that says what to put where.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from frost.data import imagenet100
from frost.data.addition import BITS, load_addition
from frost.data.cifar import CIFAR10, CIFAR100, find_cifar, load_cifar
from frost.data.digits import load_digits
from frost.data.download import Remote, cache_folder, fetch
from frost.data.folder import decoded, fits, load_folder
from frost.data.idx import FASHION_MNIST, MNIST, IdxLayout, find_idx, load_idx
from frost.data.mazes import SIDE, load_mazes
from frost.data.splits import DataSet, Images, Report, Split


class Facts(NamedTuple):
    """What is known of a data set before it is opened."""

    classes: int | None                  # None: as many as there are folders
    image_channels: int
    image_size: int | None               # pixels a side, places of a line; None: any, it is chosen with `image_size`
    files: str                           # what is looked for, in words; empty if it comes with a package
    page: str                            # where a person gets it
    remotes: tuple[Remote, ...] = ()     # what --download fetches


CIFAR_PAGE = "https://www.cs.toronto.edu/~kriz/cifar.html"
MNIST_MIRROR = "https://ossci-datasets.s3.amazonaws.com/mnist/"
FASHION_HOST = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"
FASHION_PAGE = "https://github.com/zalandoresearch/fashion-mnist"
MNIST_PAGE = "http://yann.lecun.com/exdb/mnist/"
IMAGENET_PAGE = "https://image-net.org/download.php"
IDX_FILES = "train-images-idx3-ubyte.gz and its three companions"


def _idx_remotes(layout: IdxLayout, host: str, page: str, sizes: tuple[int, ...]) -> tuple[Remote, ...]:
    return tuple(Remote(f"{host}{name}.gz", size, str(pins.packed), page)
                 for (name, pins), size in zip(layout.pins.items(), sizes, strict=True))


FACTS = {
    "digits": Facts(10, 1, 8, "", "https://scikit-learn.org"),
    "addition": Facts(2, 2, BITS, "", ""),
    "mazes": Facts(2, 6, SIDE, "", ""),
    "mnist": Facts(10, 1, 28, IDX_FILES, MNIST_PAGE, _idx_remotes(
        MNIST, MNIST_MIRROR, MNIST_PAGE, (9_912_422, 28_881, 1_648_877, 4_542))),
    "fashion-mnist": Facts(10, 1, 28, IDX_FILES, FASHION_PAGE, _idx_remotes(
        FASHION_MNIST, FASHION_HOST, FASHION_PAGE, (26_421_880, 29_515, 4_422_102, 5_148))),
    "cifar10": Facts(10, 3, 32, "cifar-10-batches-py/ or cifar-10-python.tar.gz", CIFAR_PAGE, (Remote(
        "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz", 170_498_071,
        "6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce", CIFAR_PAGE),)),
    "cifar100": Facts(100, 3, 32, "cifar-100-python/ or cifar-100-python.tar.gz", CIFAR_PAGE, (Remote(
        "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz", 169_001_437,
        "85cd44d02ba6437773c5bbd22e183051d648de2e7d6b014e1ef29b855ba677a7", CIFAR_PAGE),)),
    "imagenet100": Facts(100, 3, None, "train/ and val/ with a folder for each class", IMAGENET_PAGE),
    "folder": Facts(None, 3, None, "train/CLASS/… and val/CLASS/… or test/CLASS/…", ""),
}
NAMES = tuple(FACTS)
PROBLEMS = ("addition", "mazes")    # made by code, with an answer at each position
BUNDLED: dict[str, Callable[[], DataSet[Split]]] = {"digits": load_digits, "addition": load_addition,
                                                    "mazes": load_mazes}    # need no file
CIFAR = {layout.name: layout for layout in (CIFAR10, CIFAR100)}
IDX = {layout.name: layout for layout in (MNIST, FASHION_MNIST)}


def load(name: str, folder: Path | None = None, *, download: bool = False, image_size: int | None = None,
         report: Report | None = None) -> DataSet[Images]:
    """The data set of that name, every file of it checked.

    Args:
        folder: where its files are, or shall be fetched to; None is the cache folder.
        download: fetch what is missing.
        image_size: pixels a side. Sets of small images have their own; a tree of images is scaled to it.
        report: called with what is done, how much of it is done and of how much.
    """
    if name not in FACTS:
        raise ValueError(f"there is no data set '{name}'; known are {', '.join(NAMES)}.")
    facts = FACTS[name]
    _check_size(name, facts, image_size)
    if name in BUNDLED:
        return BUNDLED[name]()
    place = folder or cache_folder()
    try:
        return _read(name, place, image_size, report)
    except ValueError:
        if not download:
            raise
    _fetch(name, facts, place, report)    # what is missing or damaged; whole files are left alone
    return _read(name, place, image_size, report)


def _read(name: str, place: Path, image_size: int | None, report: Report | None) -> DataSet[Images]:
    if not _is_there(name, place):
        raise ValueError(missing(name, place))
    if name in CIFAR:
        return load_cifar(place, CIFAR[name])
    if name in IDX:
        return load_idx(place, IDX[name])
    return _tree(name, place, image_size or 0, report)


def missing(name: str, place: Path) -> str:
    """A sentence for data that are not at `place`: what was looked for, where to get it, what to type."""
    facts = FACTS[name]
    get = f"get it from {facts.page} and " if facts.page else ""
    fetching = ", or let --download fetch it" if facts.remotes else ""
    return (f"{name}: {place} does not hold {facts.files}; {get}name its folder with --data "
            f"DIR{fetching}.")


def _check_size(name: str, facts: Facts, image_size: int | None) -> None:
    if facts.image_size is None and (image_size is None or image_size < 1):
        raise ValueError(f"{name} has images of any size; set image_size to the one to use, for instance 224, "
                         f"got {image_size}.")
    if facts.image_size is not None and image_size not in (None, facts.image_size):
        what = "problems of size" if name in PROBLEMS else "images whose sides have"
        raise ValueError(f"{name} has {what} {facts.image_size}, but image_size is {image_size}; set it to "
                         f"{facts.image_size}.")


def _is_there(name: str, place: Path) -> bool:
    if name in CIFAR:
        return find_cifar(place, CIFAR[name]) is not None
    if name in IDX:
        return find_idx(place, IDX[name]) is not None
    return (place / "train").is_dir()


def _fetch(name: str, facts: Facts, place: Path, report: Report | None) -> None:
    if not facts.remotes:
        raise ValueError(f"{missing(name, place)[:-1]}; it cannot be fetched without an account or is your own.")
    target = place / name if name in IDX else place   # both idx sets have files of the same names
    for remote in reversed(facts.remotes):            # the first file, by which a set is found, comes last
        fetch(remote, target, report=report)


def _tree(name: str, place: Path, size: int, report: Report | None) -> DataSet[Images]:
    only = imagenet100.CLASSES if name == "imagenet100" else None
    data = load_folder(place, size, name=name, only=only, report=report)
    if not fits(len(data.train) + len(data.validation) + len(data.test), data.train.image_shape):
        return data
    train, validation, test = (decoded(split, report) for split in (data.train, data.validation, data.test))
    return DataSet(name, train, validation, test, data.classes)
