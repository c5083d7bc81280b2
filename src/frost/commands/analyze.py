"""`frost analyze RUN`: similarity of states (Table 1), dimension of paths (§6.1), contraction (App. B), more steps."""

from __future__ import annotations

import argparse
from typing import Any

from frost.commands.common import RUN_HELP, Reply, add_data, add_device
from frost.paper.measurements.curves import seen_with
from frost.paper.measurements.state_similarity import random_walk
from frost.paper.one_run import Analysis, analyze
from frost.report.tables import percent, table


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Of `frost analyze`."""
    add_device(parser)
    parser.add_argument("run", metavar="RUN", help=RUN_HELP)
    add_data(parser)


def run(options: argparse.Namespace) -> Reply:
    """Measure a run's states."""
    result = analyze(options.run, options.data, options.download)
    return Reply(as_json(result), text(result))


def as_json(result: Analysis) -> dict[str, Any]:
    """One object."""
    return result._asdict()


def text(result: Analysis) -> str:
    """The same for a person."""
    pooled, flat = result.geometry["pooled"], result.geometry["flattened"]
    rows = [[str(t + 1), f"{pooled['mean'][t]:.4f} ±{pooled['deviation'][t]:.2f}", f"{flat['mean'][t]:.4f}",
             f"{walk:.4f}"] for t, walk in enumerate(random_walk(result.depth))]
    size, fit = result.geometry["dimension"], result.geometry["r_squared"]
    lines = [f"Minkowski dimension of the path: {size['value']:.3f} [{size['low']:.3f}, {size['high']:.3f}] over "
             f"{size['n']} images, R² = {fit['value']:.3f}, boxes from 1/2 to {result.geometry['smallest_box']:.2f} of "
             f"its extent. With {result.depth} points a line gives {seen_with('line', result.depth).value:.3f} and a "
             f"Koch curve of 1.262 {seen_with('koch', result.depth).value:.3f}.",
             f"Increments grow as |t − s|^{result.geometry['exponent']['value']:.2f}."]
    if result.theory:
        bound = result.theory["lipschitz"]
        promise = "no bound is promised" if bound is None else f"the proven bound is {bound:.3f}"
        largest = max(result.theory["worst_expansion"], *result.theory["jacobian_at_end"])
        lines.append(f"Largest expansion of a step that was found: {largest:.3f}; {promise}. States "
                     f"{'come' if result.theory['rests'] else 'do not come'} to rest.")
        if result.theory["scale"] is not None:
            lines.append(f"λ = {result.theory['scale']:.3f}.")
    if result.extrapolation is not None:
        at = result.extrapolation["at"]
        lines.append(f"Accuracy at T/2, T, 2T and 4T steps: {percent(at['half'])}, {percent(at['full'])}, "
                     f"{percent(at['double'])}, {percent(at['fourfold'])}.")
    return "\n".join([f"{result.run} · {result.data} test · {result.images:,} images · depth {result.depth}", "",
                      table(["step t", "cosine to h_T, pooled", "flattened", "random walk"], rows), "", *lines,
                      f"Measured in {result.seconds:.1f} s."])
