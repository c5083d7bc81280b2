"""A package: graphs, policy, golden answers and hosts in one folder, written whole or not at all.

    begin.onnx  step.onnx  policy.json  golden.npz  host.py  host_cli.py  host.mjs  MANIFEST.json
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import torch

from frost import directory
from frost.checkpoint import Run
from frost.core.inputs import Inputs, Signature, as_inputs, mapped
from frost.core.precision import device_of, dtype_of
from frost.core.trajectory import IterativeModel
from frost.exporting.check import Report, checked
from frost.exporting.golden import golden_of, inputs_of, random_inputs
from frost.exporting.policy import Facts, budgets_of, facts_of, policy_of, signals_of
from frost.halting.stopping import StoppingRule
from frost.runtime.folded import folded
from frost.runtime.onnx_graphs import export_graphs
from frost.runtime.rules import Rules
from frost.runtime.step import Step

HOSTS = ("host.py", "host_cli.py", "host.mjs")
MAY_STAY = ("__pycache__",)    # what running a host leaves behind


def export(model: IterativeModel, rule: StoppingRule, example: Any, path: Path | str, *,
           golden: Inputs | None = None, name: str = "") -> Report:
    """Write a model and its rules as a folder that runs in ONNX Runtime, without PyTorch.

    The package is checked before it stands at `path`: ONNX Runtime must give the model's own answers.

    Args:
        rule: what stops inputs unless a host is asked for another budget.
        example: one input without the batch; None if the model knows what one looks like.
        golden: a batch of inputs to check hosts with; None makes some at random.
        name: what to call it.
    """
    return _export(model, rule, example, Path(path), golden, Facts(name or type(model).__name__))


def export_run(run: Run, rule: StoppingRule, path: Path, name: str, files: Sequence[Path] = ()) -> Report:
    """The same for a run; image files, if there are any, become golden inputs."""
    return _export(run.model, rule, None, path, inputs_of(run, files), facts_of(run, name))


def _export(model: IterativeModel, rule: StoppingRule, example: Any, path: Path, golden: Inputs | None,
            facts: Facts) -> Report:
    signature = _signature(model, example)
    _check_destination(path)
    model.eval()
    budgets = budgets_of(model.calibration, model.depth)
    rules = Rules(model, rule, signals_of(budgets))
    ours = folded(model)
    ours.signature = signature
    graphs = export_graphs(Step(ours, rules), signature)
    policy = policy_of(model, rules, rule, budgets, graphs.layout, facts)
    inputs = random_inputs(signature, None if example is None else as_inputs(example)) if golden is None else \
        as_inputs(golden)
    answers = golden_of(model, rules, rule, inputs, graphs.layout.inputs)
    with directory.explained(path), directory.built_aside(path) as building:
        (building / "begin.onnx").write_bytes(graphs.begin)
        (building / "step.onnx").write_bytes(graphs.step)
        directory.write_json(building / "policy.json", policy)
        answers.save(building / "golden.npz")
        for host in HOSTS:
            (building / host).write_bytes(resources.files("frost.exporting").joinpath(host).read_bytes())
        directory.seal(building, {"kind": "frost export", "torch": torch.__version__})
        report = checked(building)
        if report.found.wrong:
            raise ValueError(f"the graphs do not give the model's answers: {len(report.found.wrong)} of "
                             f"{report.found.inputs} golden inputs differ by more than 1e-4. Nothing was written; the "
                             "block may look across the batch, or keep something from step to step.")
        directory.move_into_place(building, path, _check_destination)
    return report._replace(path=path)


def _signature(model: IterativeModel, example: Any) -> Signature:
    """What one input looks like; a model that cannot be exported as it is, is refused."""
    if not isinstance(model, IterativeModel):
        raise ValueError(f"export takes a model with begin, step and read, such as frost.Frost, got "
                         f"{type(model).__name__}; frost.iterate makes one of any recurrence.")
    if not model.stationary:
        raise ValueError(f"{type(model).__name__} has weights of its own for each step, so no one step can be "
                         "exported; a package needs a stationary model.")
    if device_of(model).type != "cpu" or dtype_of(model) != torch.float32:
        raise ValueError(f"graphs are made on the CPU in float32, and the model is on {device_of(model)} in "
                         f"{dtype_of(model)}; call model.cpu().float() first.")
    signature = model.signature if example is None else Signature.of(as_inputs(example))
    if signature is None:
        raise ValueError("the model does not know what one input looks like; pass example=input, without the batch.")
    if any(part.dtype == torch.float64 for part in signature.parts):
        raise ValueError("the example is in float64, and the model computes in float32; pass example.float().")
    if example is not None:
        model.check(mapped(lambda part: part[None], as_inputs(example)))
    return signature


def _check_destination(path: Path) -> None:
    """Refuse a folder that holds anything but a package of ours."""
    if path.is_symlink() or (path.exists() and not path.is_dir()):
        raise ValueError(f"{path} exists and is not a folder; choose another folder.")
    if not path.exists() or not any(path.iterdir()):
        return
    try:
        listed = {*directory.verify(path, ("policy.json",))["files"], directory.MANIFEST, *MAY_STAY}
    except ValueError as error:
        raise ValueError(f"{path} exists and holds something else ({error}) Choose another folder.") from error
    strangers = sorted(file.name for file in path.iterdir() if file.name not in listed)
    if strangers:
        raise ValueError(f"{path} holds a package and also {', '.join(strangers[:3])}, which would be lost; choose "
                         "another folder.")
