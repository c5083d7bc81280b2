"""Configurations that older versions wrote, in today's names (the table of settings in CHANGELOG.md).

For run folders, checkpoints and the units of a reproduction. A configuration of today passes unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

LAST = "965851e"    # the last commit that knows the settings below

# Settings that left, each with the value that means what is done today.
GONE: dict[str, dict[str, Any]] = {
    "model": {"gate": "interpolate", "start": "zero", "kappa": 0.9, "expansion": 4.0, "separable": False},
    "halting": {"ranks": "gathered", "pairs": "step", "ponder_prior": 0.25, "refit_by": "wins", "refit_pairs": "step",
                "refit_epochs": 6},
    "train": {"clip": 1.0, "deep_supervision": 0.0, "supervision_growth": 0.0, "ranked_supervision": False,
              "ranked_among": "all"},
    "train.augment": {"rand_magnitude": 9, "mix_share": 0.5},
}
RUNTIME = ("device", "workers", "timeout", "save_every", "validate_every", "checkpointing", "compile")    # of train
STANDARD = ("rectify", "standardise", "standardise_weights")    # together they are the backbone `resnet-ws`


def modern(config: Mapping[str, Any]) -> dict[str, Any]:
    """The same configuration in today's names; a setting that left with another value is a ValueError.

    Groups that are not there are not looked for, and what is unknown stays for `from_dict` to name.
    """
    found = dict(config)
    for name, convert in (("model", modern_model), ("halting", _halting)):
        if isinstance(found.get(name), Mapping):
            found[name] = convert(found[name])
    if isinstance(found.get("train"), Mapping):
        found["train"] = _train(found["train"])
        moved = {name: found["train"].pop(name) for name in RUNTIME if name in found["train"]}
        if moved:
            found["runtime"] = {**moved, **found.get("runtime", {})}
    return found


def modern_model(model: Mapping[str, Any]) -> dict[str, Any]:
    """The group `model` of a configuration."""
    found = _without_gone("model", model)
    if "rule" in found:
        found["update"] = found.pop("rule")
    if found.pop("folded_start", False):
        found["architecture"] = "basic-ssm-folded"
    stems = {name: found.pop(f"{name}_stem") for name in ("deep", "light") if f"{name}_stem" in found}
    if stems:
        found["stem"] = next((name for name, is_it in stems.items() if is_it), "standard")
    given = {name: found.pop(name) for name in STANDARD if name in found}
    if any(given.values()):
        if not all(given.get(name) for name in STANDARD) or found.get("backbone") != "resnet":
            name = next(name for name, is_on in given.items() if is_on)
            raise ValueError(_gone(f"model.{name}", True) + f" Only {', '.join(STANDARD)} together are left, as "
                             "backbone 'resnet-ws'.")
        found["backbone"] = "resnet-ws"
    return found


def _halting(halting: Mapping[str, Any]) -> dict[str, Any]:
    found = _without_gone("halting", halting)
    shares = [found.pop(name) for name in ("easy_fraction", "hard_fraction") if name in found]
    if shares and shares[0] != shares[-1]:
        raise ValueError(_gone("halting.hard_fraction", shares[-1]) + f" Both are halting.fraction, and easy_fraction "
                         f"is {shares[0]}.")
    return {**found, "fraction": shares[0]} if shares else found


def _train(train: Mapping[str, Any]) -> dict[str, Any]:
    found = _without_gone("train", train)
    if "average" in found:
        found["ema"] = found.pop("average")
    for schedule in ("random", "growing"):
        fewest = found.pop(f"{schedule}_depth", 0)
        if fewest:
            found |= {"depth_schedule": schedule, "min_depth": fewest}
    if isinstance(found.get("augment"), Mapping):
        found["augment"] = _without_gone("train.augment", found["augment"])
    return found


def _without_gone(group: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """A group without the settings that left; one that meant something else than what is done today is refused."""
    gone = GONE[group]
    for name, value in values.items():
        if name in gone and value != gone[name]:
            raise ValueError(_gone(f"{group}.{name}", value))
    return {name: value for name, value in values.items() if name not in gone}


def _gone(path: str, value: Any) -> str:
    return f"{path} is {value!r}, and this version no longer has that setting; use the code of commit {LAST}."
