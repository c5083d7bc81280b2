"""`frost serve` under attack, under load and at its end: F19–F24, F26–F28, and what it promises of bits and budgets.

    python campaigns/service.py [--only F22 …] [--share 0.1] [--seed 0] [--data DIR]     # `make campaigns`

Real servers as processes of their own, on 127.0.0.1. Each campaign has a control that must fail. `budgets` needs the
CIFAR-100 test images (`--data`, the folder that holds cifar-100-python) and is left out without them. The whole takes
about twenty-five minutes; shares below 1 write no figures.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import service_answers
import service_bytes
import service_fuzz
import service_load
from hostile_data import record

Campaign = Callable[[Path, float, int], dict[str, Any]]
CAMPAIGNS: dict[str, Campaign] = {
    "F19": service_fuzz.f19, "F20": service_bytes.f20, "F22": service_load.f22, "F23": service_bytes.f23,
    "F24": service_load.f24, "F26": service_load.f26,
    "F27": service_fuzz.f27, "F28": service_load.f28, "needles": service_answers.needles}


def main() -> int:
    """Status 1 if one fails."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", nargs="+", choices=[*CAMPAIGNS, "budgets"])
    parser.add_argument("--share", type=float, default=1.0, help="of the full size")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--data", type=Path, help="for budgets: the folder that holds cifar-100-python")
    options = parser.parse_args()
    campaigns, names = dict(CAMPAIGNS), list(options.only or CAMPAIGNS)
    if options.data is not None:
        campaigns["budgets"] = service_answers.budgets(options.data)
        names += [] if options.only else ["budgets"]
    elif "budgets" in names:
        parser.error("budgets needs --data, the folder that holds cifar-100-python")
    failures = 0
    with tempfile.TemporaryDirectory() as scratch:
        for name in names:
            began = time.monotonic()
            found = campaigns[name](Path(scratch), options.share, options.seed)
            failures += found["failures"]
            facts = ", ".join(f"{key} {value}" for key, value in found.items() if key not in ("n", "control"))
            print(f"{name}: n {found['n']}, seed {options.seed}, {facts}; control {found['control']}; "
                  f"{time.monotonic() - began:.0f} s", flush=True)
            if options.share >= 1:
                record(name, {"n": found.pop("n"), "seed": options.seed, "failures": found.pop("failures"), **found})
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
