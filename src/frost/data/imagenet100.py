"""ImageNet-100: the hundred classes of ImageNet-1k that the literature uses most, and a builder of their tree.

The list is the one of Tian et al., "Contrastive Multiview Coding" (ECCV 2020), in its order. Labels follow the sorted
names of the folders, as everywhere.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from frost.data.images import SUFFIXES
from frost.data.splits import Report

CLASSES = (
    "n02869837", "n01749939", "n02488291", "n02107142", "n13037406", "n02091831", "n04517823", "n04589890",
    "n03062245", "n01773797", "n01735189", "n07831146", "n07753275", "n03085013", "n04485082", "n02105505",
    "n01983481", "n02788148", "n03530642", "n04435653", "n02086910", "n02859443", "n13040303", "n03594734",
    "n02085620", "n02099849", "n01558993", "n04493381", "n02109047", "n04111531", "n02877765", "n04429376",
    "n02009229", "n01978455", "n02106550", "n01820546", "n01692333", "n07714571", "n02974003", "n02114855",
    "n03785016", "n03764736", "n03775546", "n02087046", "n07836838", "n04099969", "n04592741", "n03891251",
    "n02701002", "n03379051", "n02259212", "n07715103", "n03947888", "n04026417", "n02326432", "n03637318",
    "n01980166", "n02113799", "n02086240", "n03903868", "n02483362", "n04127249", "n02089973", "n03017168",
    "n02093428", "n02804414", "n02396427", "n04418357", "n02172182", "n01729322", "n02113978", "n03787032",
    "n02089867", "n02119022", "n03777754", "n04238763", "n02231487", "n03032252", "n02138441", "n02104029",
    "n03837869", "n03494278", "n04136333", "n03794056", "n03492542", "n02018207", "n04067472", "n03930630",
    "n03584829", "n02123045", "n04229816", "n02100583", "n03642806", "n04336792", "n03259280", "n02116738",
    "n02108089", "n03424325", "n01855672", "n02090622",
)
PARTS = ("train", "val")


def build(source: Path, out: Path, classes: tuple[str, ...] = CLASSES, report: Report | None = None) -> int:
    """Make the tree of these classes at `out` from a full ImageNet tree; returns how many images it has.

    Files are hard links where the disk allows it and copies elsewhere. What is there already is kept, so a build that
    was interrupted is continued by the same command.
    """
    missing = [f"{part}/{name}" for part in PARTS for name in classes if not (source / part / name).is_dir()]
    if missing:
        raise ValueError(f"{source} lacks {len(missing)} of the {len(PARTS) * len(classes)} folders of ImageNet-100: "
                         f"{', '.join(missing[:10])}{' …' if len(missing) > 10 else ''}.")
    count = 0
    folders = [Path(part, name) for part in PARTS for name in classes]
    for done, folder in enumerate(folders, start=1):
        images = [path for path in sorted((source / folder).iterdir())
                  if path.suffix.lower() in SUFFIXES and not path.name.startswith(".")]
        if not images:
            raise ValueError(f"{source / folder} must hold at least one image; complete it.")
        (out / folder).mkdir(parents=True, exist_ok=True)
        for image in images:
            _place(image, out / folder / image.name)
        count += len(images)
        if report is not None:
            report("building ImageNet-100", done, len(folders))
    return count


def _place(source: Path, target: Path) -> None:
    """A hard link, or a copy that appears only when it is complete."""
    source = source.resolve()   # a link to a link would lead out of the tree
    if target.exists() and target.stat().st_size == source.stat().st_size:
        return
    target.unlink(missing_ok=True)
    try:
        os.link(source, target)
    except OSError:   # another disk, or one without links
        part = target.with_name(f".{target.name}.part")
        shutil.copyfile(source, part)
        part.replace(target)
