"""Flip every sign and exponent of every function that states an equation; tests/test_equations.py must notice each.

    python campaigns/flip_signs.py [--only PART]       # `make campaigns`

A function states an equation if its docstring, or its class's, has a number such as (14). Flips: + and −, a unary
minus, × and ÷, the sign of an exponent, the direction of a comparison, clamp_min and clamp_max; the sentences of errors
are left alone. Each flip runs the equation tests in a process of its own, with the changed module in place of the real
one; nothing on disk is touched.

Controls: the same machinery without a flip must pass (else it is the machinery that fails), and a flip judged by a test
file that knows no equation must not be noticed. Figures go to docs/results/campaigns.json.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import importlib.abc
import importlib.util
import json
import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import NamedTuple

import numpy as np  # noqa: F401 - imported before forking, so that no child pays for it
import pytest
import torch

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "frost"
EQUATIONS, CONTROL = ROOT / "tests" / "test_equations.py", ROOT / "tests" / "data" / "test_digits.py"
RESULTS = ROOT / "docs" / "results" / "campaigns.json"
NUMBERED = re.compile(r"(?<!\w)\([1-9]\d?\)")    # not f(6)
PATIENCE = 180   # seconds, after which a flip that hangs counts as noticed
WORKERS = 2
SWAPPED = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult,
           ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt}


class Flip(NamedTuple):
    """One change of one module."""

    module: str       # dotted name
    path: Path
    line: int
    what: str
    source: str       # of the whole module, changed


def flips_of(path: Path) -> Iterator[Flip]:
    """Every flip in the functions of a file that state an equation."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    module = ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts)
    for function in stating_functions(tree):
        raised = {part for node in ast.walk(function) if isinstance(node, ast.Raise) for part in ast.walk(node)}
        for node in ast.walk(function):
            for flipped, what in changes(node) if node not in raised else []:
                yield Flip(module, path, node.lineno, what, with_change(tree, node, flipped))


def stating_functions(tree: ast.Module) -> list[ast.FunctionDef]:
    """Functions whose own docstring, or whose class's, has an equation number."""
    found = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and states(node):
            found.append(node)
        if isinstance(node, ast.ClassDef):
            methods = [part for part in node.body if isinstance(part, ast.FunctionDef)]
            found += [method for method in methods if states(node) or states(method)]
    return found


def states(node: ast.FunctionDef | ast.ClassDef) -> bool:
    """Whether a docstring has an equation number."""
    return bool(NUMBERED.search(ast.get_docstring(node) or ""))


def changes(node: ast.AST) -> list[tuple[ast.AST, str]]:
    """What a node can be flipped to."""
    if isinstance(node, ast.BinOp) and type(node.op) in SWAPPED and not is_text(node):
        return [(ast.BinOp(node.left, SWAPPED[type(node.op)](), node.right), f"operator in {ast.unparse(node)}")]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        negated = ast.UnaryOp(ast.USub(), node.right)
        return [(ast.BinOp(node.left, node.op, negated), f"exponent in {ast.unparse(node)}")]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and not isinstance(node.operand, ast.Constant):
        return [(node.operand, f"sign in {ast.unparse(node)}")]
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in SWAPPED:
        return [(ast.Compare(node.left, [SWAPPED[type(node.ops[0])]()], node.comparators), f"in {ast.unparse(node)}")]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr == "power":
            inverse = ast.Call(node.func, [ast.UnaryOp(ast.USub(), node.args[0])], [])
            return [(inverse, f"exponent in {ast.unparse(node)}")]
        if node.func.attr == "clamp_min" and ast.unparse(node.args[0]) == "0":
            hinge = ast.Call(ast.Attribute(node.func.value, "clamp_max", ast.Load()), node.args, [])
            return [(hinge, f"hinge in {ast.unparse(node)}")]
    return []


def is_text(node: ast.BinOp) -> bool:
    """Whether a + joins strings."""
    return any(isinstance(part, ast.JoinedStr) or (isinstance(part, ast.Constant) and isinstance(part.value, str))
               for part in (node.left, node.right))


def with_change(tree: ast.Module, node: ast.AST, flipped: ast.AST) -> str:
    """The module's source with one node replaced."""
    class Replace(ast.NodeTransformer):
        def visit(self, part: ast.AST) -> ast.AST:
            if getattr(part, "mark", None) == "here":
                return flipped
            return self.generic_visit(part)

    node.mark = "here"  # type: ignore[attr-defined]
    marked = copy.deepcopy(tree)
    del node.mark  # type: ignore[attr-defined]
    return ast.unparse(ast.fix_missing_locations(Replace().visit(marked)))


class Instead(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """An importer that serves one module from changed source."""

    def __init__(self, module: str, path: Path, source: str) -> None:
        self.module, self.path, self.source = module, path, source

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Claim the module."""
        return importlib.util.spec_from_loader(name, self, origin=str(self.path)) if name == self.module else None

    def get_source(self, fullname: str) -> str:
        """The changed source, which the base class compiles and runs."""
        return self.source


def start(flip: Flip, tests: Path) -> int:
    """Run tests against a flip in a child process; returns its id. Exit status 1 means: noticed."""
    child = os.fork()
    if child:
        return child
    signal.alarm(PATIENCE)
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    status = 1
    with contextlib.suppress(BaseException):
        sys.meta_path.insert(0, Instead(flip.module, flip.path, flip.source))
        torch.set_num_threads(1)
        status = int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", str(tests)]))
    os._exit(0 if status == 0 else 1)


def run(flips: list[Flip], tests: Path, name: str) -> list[bool]:
    """Whether each flip was noticed; two at a time."""
    noticed: dict[int, bool] = {}
    running: dict[int, int] = {}
    waiting = list(enumerate(flips))
    while waiting or running:
        while waiting and len(running) < WORKERS:
            number, flip = waiting.pop(0)
            running[start(flip, tests)] = number
        child, status = os.wait()
        noticed[running.pop(child)] = status != 0
        print(f"\r{name}: {len(noticed)}/{len(flips)}, noticed {sum(noticed.values())}", end="", file=sys.stderr)
    print(file=sys.stderr)
    return [noticed[number] for number in range(len(flips))]


def main() -> int:
    """Flip, count, write, and fail if a flip went unnoticed or a control did not do its part."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="only files whose path holds this")
    arguments = parser.parse_args()
    started = time.monotonic()
    files = [path for path in sorted(SOURCE.rglob("*.py")) if arguments.only in str(path)]
    flips = [flip for path in files for flip in flips_of(path)]
    touched = {flip.path: flip.module for flip in flips}
    untouched = [Flip(module, path, 0, "nothing", ast.unparse(ast.parse(path.read_text(encoding="utf-8"))))
                 for path, module in touched.items()]
    unchanged = run(untouched, EQUATIONS, "control, nothing flipped")
    toothless = run(flips[::max(1, len(flips) // 5)][:5], CONTROL, "control, tests that know no equation")
    noticed = run(flips, EQUATIONS, "flips")
    missed = [flip for flip, seen in zip(flips, noticed, strict=True) if not seen]
    for flip in missed:
        print(f"NOT NOTICED {flip.path.relative_to(ROOT)}:{flip.line} {flip.what}")
    is_sound = not any(unchanged) and not any(toothless)
    print(f"{len(flips)} flips in {len(touched)} files, {sum(noticed)} noticed; controls "
          f"{'behave' if is_sound else 'DO NOT BEHAVE'}; {time.monotonic() - started:.0f} s")
    if not arguments.only:
        record(len(flips), len(missed), unchanged, toothless)
    return 0 if not missed and is_sound and flips else 1


def record(flips: int, missed: int, unchanged: list[bool], toothless: list[bool]) -> None:
    """Write the figures beside those of other campaigns."""
    results = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.is_file() else {}
    results["flips"] = {"command": "make campaigns", "n": flips, "seed": None, "failures": missed,
                        "control": {
                            "nothing flipped": {"n": len(unchanged), "failed": sum(unchanged)},
                            "tests that know no equation": {"n": len(toothless), "noticed": sum(toothless)}}}
    RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
