"""The four update rules on digits, side by side, three seeds each, and the paper's own training settings.

    python benchmarks/update_rules.py            # about 15 minutes on two idle cores

Prints a table and writes docs/results/update-rules.json. Every run is `frost demo` with one or two fields changed; the
table says which. The recipe was chosen on the validation split; the test split is what is reported.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
from pathlib import Path

from frost.config import override
from frost.recipes import recipe
from frost.report.tables import percent, table
from frost.workflows.demo import DemoResult, run_demo

SEEDS = (0, 1, 2)
CASES = {
    "residual": [],
    "gated": ["model.rule=gated"],
    "contractive": ["model.rule=contractive"],
    "theorem": ["model.rule=theorem"],
    "residual, as the paper trains": ["halting.rank_by=loss", "train.deep_supervision=0"],
}
OUT = Path(__file__).parent.parent / "docs" / "results" / "update-rules.json"


def run(assignments: list[str], seed: int) -> DemoResult:
    """One demo in a folder of its own, which is thrown away."""
    with tempfile.TemporaryDirectory() as folder:
        return run_demo(override(recipe("digits"), [*assignments, f"train.seed={seed}"]), Path(folder) / "run")


def mean(values: list[float]) -> float:
    """The mean over seeds."""
    return statistics.fmean(values)


def main() -> None:
    """Run every case, print the table, write the numbers."""
    results: dict[str, list[DemoResult]] = {}
    for name, assignments in CASES.items():
        results[name] = []
        for seed in SEEDS:
            print(f"{name}, seed {seed}", file=sys.stderr, flush=True)
            results[name].append(run(assignments, seed))
            OUT.write_text(json.dumps(as_json(results), indent=1) + "\n", encoding="utf-8")
    rows = []
    for name, runs in results.items():
        half, full = [r.rows[3] for r in runs], [r.rows[-1] for r in runs]
        constants = [r.lipschitz for r in runs if r.lipschitz is not None]
        rows.append([
            name, " ".join(f"{100 * row.accuracy:.2f}" for row in full), percent(mean([row.accuracy for row in full])),
            f"{mean([row.mean_depth for row in half]):.2f}", percent(mean([row.accuracy for row in half])),
            percent(mean([row.fixed_depth_accuracy for row in half])),
            f"{mean([r.scale or 0.0 for r in runs]):.3f}",
            f"{mean(constants):.3f}" if constants else "none",
            f"{mean([c**8 for c in constants]):.3f}" if constants else "none",
            f"{mean([r.seconds for r in runs]):.0f}"])
    print(table(["rule", "full depth, by seed (%)", "mean", "depth at q = 0.5", "accuracy", "fixed depth", "λ", "L",
                 "L^T", "seconds"], rows))


def as_json(results: dict[str, list[DemoResult]]) -> dict[str, object]:
    """The numbers of every run."""
    def numbers(result: DemoResult) -> dict[str, object]:
        return {key: value for key, value in result.to_json().items() if key not in ("paper", "out")}

    return {"command": "python benchmarks/update_rules.py",
            "cases": {name: {"set": CASES[name], "runs": [numbers(r) for r in runs]} for name, runs in results.items()}}


if __name__ == "__main__":
    main()
