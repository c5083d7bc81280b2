"""What has to be trained and measured, and which section needs which of it.

A unit is the smallest thing that is kept: one model, trained and measured, or one table. A name says all that it is:
`frost-mean-s0` is FROST with the mean of the ranking loss over steps and seed 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from frost.config import suggest
from frost.training.settings import RunConfig
from frost.workflows.kit.scales import Scale, with_halting, with_model, with_training

Want = Literal["geometry", "theory", "rules", "extrapolation", "shift", "conflict"]
HURSTS = (0.2, 0.5, 1.0)                     # beside the paper's 0.8
MODELS = ("vanilla", "recurrent", "basic-ssm", "frost")
FOLDED = "basic-ssm-folded"                  # BasicSSM that starts as a folded FROST
REDUCES = ("none", "mean", "sum")            # of the ranking loss over steps; none is without it
SECTIONS = ("consistency", "dimension", "lambda", "halting", "losses", "complexity", "collapse", "theory",
            "supervision", "rules", "extrapolation", "shift")


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One thing to be done and kept."""

    name: str
    run: RunConfig | str | None        # what is trained; the name of a run that is there; None for a table
    wants: frozenset[Want] = frozenset()
    is_trained: bool = True            # False: measured as it starts


def units_of(scale: Scale) -> dict[str, Unit]:
    """All units, in the order in which they are best done: those that most sections need come first."""
    depth, base = scale.base.model.depth, scale.base
    units = [Unit(name="ours", run=scale.ours, wants=frozenset({"rules", "extrapolation", "shift"})),
             _of_grid(scale, "frost", "mean", scale.seeds[0])]
    for seed in scale.seeds:
        for model in MODELS:
            units += [_of_grid(scale, model, reduce, seed) for reduce in REDUCES]
    units += [_of_grid(scale, FOLDED, reduce, scale.seeds[0]) for reduce in REDUCES]
    units += [Unit(name=f"{model}-untrained", run=with_model(base, architecture=model), is_trained=False,
                   wants=frozenset({"geometry"})) for model in ("vanilla", "basic-ssm", "frost")]
    units += [Unit(name=f"frost-hurst-{hurst:g}", run=with_model(base, hurst=hurst),
                   wants=frozenset({"theory", "geometry"})) for hurst in HURSTS]
    units.append(Unit(name="frost-learned-hurst", run=with_model(base, learn_hurst=True),
                      wants=frozenset({"theory"})))
    units += [Unit(name="frost-anchoring", run=with_halting(base, relative_weight=0.0)),
              Unit(name="frost-relative", run=with_halting(base, anchoring_weight=0.0))]
    units.append(Unit(name="frost-gated", run=with_model(base, update="gated"), wants=frozenset({"theory"})))
    bounded = scale.bounded or base.model.channels
    units += [Unit(name=f"frost-{update}", run=with_model(base, update=update, channels=bounded),
                   wants=frozenset({"theory"})) for update in ("contractive", "theorem")]
    units += [Unit(name="frost-deep", run=with_training(base, supervision="all")),
              Unit(name="frost-random", run=with_training(base, depth_schedule="random",
                                                       min_depth=max(1, depth // 4)))]
    units += [Unit(name=f"frost-depth-{smaller}", run=with_model(base, depth=smaller))
              for smaller in smaller_depths(depth)]
    units.append(Unit(name="complexity", run=None))
    return {unit.name: unit for unit in units}


def smaller_depths(depth: int) -> list[int]:
    """Depths to train at, to be compared with stopping early: a quarter and a half of T."""
    return sorted({max(2, depth // 4), max(2, depth // 2)})


def needed_by(section: str, scale: Scale) -> list[str]:
    """The names of the units that a section is made of."""
    seeds, base = scale.seeds, "frost-mean-s0"
    geometry = [f"{model}-none-s{seed}" for model in ("vanilla", "basic-ssm", "frost") for seed in seeds]
    geometry += [f"frost-mean-s{seed}" for seed in seeds]
    geometry += [f"{FOLDED}-none-s{seeds[0]}", "vanilla-untrained", "basic-ssm-untrained", "frost-untrained"]
    return {
        "consistency": geometry, "dimension": [*geometry, *(f"frost-hurst-{hurst:g}" for hurst in HURSTS)],
        "lambda": [*(f"frost-mean-s{seed}" for seed in seeds), *(f"frost-hurst-{hurst:g}" for hurst in HURSTS),
                   "frost-learned-hurst"],
        "halting": ["ours", base],
        "losses": [base, "frost-anchoring", "frost-relative"],
        "complexity": ["complexity", "ours"],
        "collapse": [f"{model}-{reduce}-s{seed}" for seed in seeds for model in MODELS for reduce in REDUCES] +
        [f"{FOLDED}-{reduce}-s{seeds[0]}" for reduce in REDUCES],
        "theory": [base, "frost-gated", "frost-contractive", "frost-theorem"],
        "supervision": [base, "frost-deep", "frost-random"],
        "rules": ["ours", base, *(f"frost-depth-{smaller}" for smaller in smaller_depths(scale.base.model.depth))],
        "extrapolation": ["ours", base],
        "shift": ["ours"],
    }[section]


def chosen_sections(names: Sequence[str] | None) -> list[str]:
    """Those asked for, in their order; None is all."""
    for name in names or ():
        if name not in SECTIONS:
            raise ValueError(f"there is no section '{name}'. {suggest(name, SECTIONS)}")
    return [name for name in SECTIONS if not names or name in names]


def chosen_units(sections: Iterable[str], scale: Scale) -> list[Unit]:
    """The units of these sections, each once, in the order of the plan."""
    wanted = {name for section in sections for name in needed_by(section, scale)}
    return [unit for unit in units_of(scale).values() if unit.name in wanted]


def _of_grid(scale: Scale, model: str, reduce: str, seed: int) -> Unit:
    """One training of the collapse grid; those without ranks and FROST with their mean serve Table 1 as well."""
    run = with_model(scale.base, architecture=model)
    run = _without_ranks(run) if reduce == "none" else with_halting(run, reduce=reduce)
    wants: set[Want] = {"conflict"}
    if (model, reduce) in {("vanilla", "none"), ("basic-ssm", "none"), (FOLDED, "none"), ("frost", "none"),
                           ("frost", "mean")}:
        wants.add("geometry")
    if (model, reduce, seed) == ("frost", "mean", scale.seeds[0]):
        wants |= {"theory", "extrapolation", "rules"}
    return Unit(name=f"{model}-{reduce}-s{seed}", run=with_training(run, seed=seed), wants=frozenset(wants))


def _without_ranks(run: RunConfig) -> RunConfig:
    return with_halting(run, relative_weight=0.0, anchoring_weight=0.0)
