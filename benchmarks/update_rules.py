"""The four update rules on digits, side by side, and what ranking by gain and deep supervision change.

    python benchmarks/update_rules.py            # about 30 minutes on two idle cores
    python benchmarks/update_rules.py --only "the recipe digits"

Prints the tables of docs/decisions/dynamics.md and halting.md, checks what we claim of the demo, and writes
docs/results/update-rules.json.
Every run is `frost demo` with the fields in `CASES` changed. The recipe was chosen on the validation split; the test
split is what is reported.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from frost.commands.demo import run_demo
from frost.config import override
from frost.evaluation.halting_table import standard_error
from frost.recipes import recipe
from frost.report.tables import percent, table

LINEAR = ["model.score_sees=state", "halting.refit=0"]    # the paper's score, taught with the rest
RULES: dict[str, list[str]] = {
    "residual": LINEAR,
    "gated": [*LINEAR, "model.update=gated"],
    "contractive": [*LINEAR, "model.update=contractive"],
    "theorem": [*LINEAR, "model.update=theorem"],
}
RECIPE = "the recipe digits"
TRAININGS: dict[str, list[str]] = {
    "by gain, every step": LINEAR,
    "by gain, last step only": [*LINEAR, "train.supervision=last"],
    "by loss, every step": [*LINEAR, "halting.rank_by=loss"],
    "by loss, last step only (the paper)": [*LINEAR, "halting.rank_by=loss", "train.supervision=last"],
    RECIPE: [],
}
RULE_SEEDS, TRAINING_SEEDS = (0, 1, 2), (0, 1, 2, 3, 4)
OUT = Path(__file__).parent.parent / "docs" / "results" / "update-rules.json"
Run = dict[str, Any]   # what `frost demo --json` prints


def run(assignments: list[str], seed: int) -> Run:
    """One demo in a folder of its own, which is thrown away."""
    with tempfile.TemporaryDirectory() as folder:
        result = run_demo(override(recipe("digits"), [*assignments, f"train.seed={seed}"]), Path(folder) / "run")
    return {key: value for key, value in result.to_json().items() if key not in ("paper", "out")}


def measured(only: str | None) -> dict[str, list[Run]]:
    """Every case with every seed, or one of them; a case that stands in both tables runs once."""
    results: dict[str, list[Run]] = {}
    done: dict[tuple[str, int], Run] = {}
    for cases, seeds in ((RULES, RULE_SEEDS), (TRAININGS, TRAINING_SEEDS)):
        for name, assignments in cases.items():
            for seed in seeds if only in (None, name) else ():
                key = (" ".join(assignments), seed)
                if key not in done:
                    print(f"{name}, seed {seed}", file=sys.stderr, flush=True)
                    done[key] = run(assignments, seed)
                results.setdefault(name, []).append(done[key])
    return results


def at_half(result: Run) -> dict[str, float]:
    """The row at quantile 0.5."""
    return next(row for row in result["rows"] if row["quantile"] == 0.5)


def full_depth(result: Run) -> float:
    """Accuracy at full depth."""
    return result["rows"][-1]["accuracy"]


def points(values: list[float]) -> str:
    """Percentages by seed."""
    return " ".join(f"{100 * value:.2f}" for value in values)


def rule_table(results: dict[str, list[Run]]) -> str:
    """The rules beside one another."""
    rows = []
    for name in RULES:
        runs = results[name]
        halves = [at_half(r) for r in runs]
        constants = [r["lipschitz"] for r in runs if r["lipschitz"] is not None]
        power = [c ** r["depth"] for c, r in zip(constants, runs, strict=False)]
        rows.append([
            name, points([full_depth(r) for r in runs]), percent(statistics.fmean(full_depth(r) for r in runs)),
            f"{statistics.fmean(h['mean_depth'] for h in halves):.2f}",
            percent(statistics.fmean(h["accuracy"] for h in halves)),
            percent(statistics.fmean(h["fixed_depth_accuracy"] for h in halves)),
            f"{statistics.fmean(r['scale'] for r in runs):.3f}",
            f"{statistics.fmean(constants):.3f}" if constants else "none",
            f"{statistics.fmean(power):.3f}" if constants else "none"])
    header = ["rule", "full depth, seeds 0 1 2", "mean", "depth at 0.5", "accuracy", "fixed depth", "λ", "L", "L^T"]
    return table(header, rows)


def training_table(results: dict[str, list[Run]]) -> str:
    """Ranking and supervision beside one another: accuracies, then what halting is above the fixed-depth line."""
    accuracies, above = [], []
    for name in TRAININGS:
        halves = [at_half(r) for r in results[name]]
        gains = [h["accuracy"] - h["fixed_depth_accuracy"] for h in halves]
        accuracies.append([name, points([full_depth(r) for r in results[name]]),
                           points([h["accuracy"] for h in halves]),
                           f"{statistics.fmean(h['mean_depth'] for h in halves):.2f}"])
        above.append([name, " ".join(f"{100 * gain:+.2f}" for gain in gains), f"{100 * statistics.fmean(gains):+.2f}",
                      f"{100 * gain_at(results[name], 0.25):+.2f}"])
    return "\n\n".join([
        table(["ranked, supervised", "full depth, seeds 0 to 4", "at quantile 0.5", "depth"], accuracies),
        table(["ranked, supervised", "above fixed depth, at 0.5", "mean", "at 0.25"], above)])


def gain_at(runs: list[Run], quantile: float) -> float:
    """What halting is above the fixed-depth line at a quantile, in the mean over seeds."""
    rows = [next(row for row in r["rows"] if row["quantile"] == quantile) for r in runs]
    return statistics.fmean(row["accuracy"] - row["fixed_depth_accuracy"] for row in rows)


def claims(results: dict[str, list[Run]]) -> dict[str, bool]:
    """What we say of the demo, and whether it held."""
    demos, count = results[RECIPE], results[RECIPE][0]["test_images"]
    within = [later >= earlier - 2 * standard_error(earlier, count) for r in demos for earlier, later in
              zip([row["accuracy"] for row in r["rows"]], [row["accuracy"] for row in r["rows"]][1:], strict=False)]
    depths = [[row["mean_depth"] for row in r["rows"]] for r in demos]
    rules = {name: statistics.fmean(full_depth(r) for r in results[name]) for name in RULES}
    gains = [gain_at(demos, row["quantile"]) for row in demos[0]["rows"]]
    return {
        "full depth is at least 96 % with every seed": all(full_depth(r) >= 0.96 for r in demos),
        "quantile 0.5 takes at most 65 % of T with every seed":
            all(at_half(r)["mean_depth"] <= 0.65 * r["depth"] for r in demos),
        "quantile 0.5 loses at most 1 point with every seed":
            all(at_half(r)["accuracy"] >= full_depth(r) - 0.01 for r in demos),
        "halting is above the fixed-depth line at quantile 0.25, and not below it at any, in the mean over seeds":
            gain_at(demos, 0.25) > 0 and min(gains) >= 0,
        "depth does not fall with the quantile": all(d == sorted(d) for d in depths),
        "accuracy does not fall with the quantile by more than two standard errors": all(within),
        "contractive is within 3 points of residual": rules["contractive"] >= rules["residual"] - 0.03,
    }


def main() -> int:
    """Run every case, write the numbers, print the tables, fail if a claim does not hold."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", choices=(*RULES, *TRAININGS), help="run this case, keep the others as they are")
    only = parser.parse_args().only
    results = ({} if only is None else json.loads(OUT.read_text(encoding="utf-8"))["cases"]) | measured(only)
    OUT.write_text(json.dumps({"command": "python benchmarks/update_rules.py", "cases": results}, indent=1) + "\n",
                   encoding="utf-8")
    print(rule_table(results), training_table(results), sep="\n\n", end="\n\n")
    held = claims(results)
    for claim, is_true in held.items():
        print(f"{'holds' if is_true else 'FAILS'}: {claim}")
    return 0 if all(held.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
