"""Kill −9 `frost reproduce` at random moments and go on: the results must be those of an undisturbed run.

    python campaigns/kill_reproduction.py [--kills 5] [--only halting …] [--seed 0] [--calm DIR]    # all: half an hour

DIR is a whole reproduction that was not disturbed, made with as many threads; without it, one is made first. Compares
`results.json` without `timing`. The control changes one number of one unit by one image, which must show.
Figures go to docs/results/campaigns.json.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from hostile_data import record

from frost.paper.section import sections


def command(out: Path, only: list[str]) -> list[str]:
    """The words that start or continue a reproduction at smoke size."""
    return [sys.executable, "-m", "frost", "reproduce", "--size", "smoke", "--out", str(out),
            *(["--only", *only] if only else []), "--resume"]


def run(words: list[str], seconds: float | None = None) -> bool:
    """Let it run, or kill it after so many seconds; whether it came to its end."""
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            return process.wait(timeout=seconds) == 0
        except subprocess.TimeoutExpired:
            process.kill()
            return False


def results(out: Path) -> dict[str, Any]:
    """What must be the same."""
    found = json.loads((out / "results.json").read_text())
    return {key: value for key, value in found.items() if key != "timing"}


def made_in(out: Path) -> float:
    """Seconds that a reproduction took."""
    return float(json.loads((out / "results.json").read_text())["timing"]["seconds"])


def change_one_number(out: Path) -> None:
    """As if one more image had been right."""
    file = next(file for file in sorted((out / "units").glob("frost-*.json")) if "untrained" not in file.name)
    numbers = json.loads(file.read_text())
    numbers["per_step_accuracy"] = [value + 1 / numbers["images"] for value in numbers["per_step_accuracy"]]
    file.write_text(json.dumps(numbers))


def main() -> int:
    """Run once undisturbed and once with kills; status 1 if the two differ."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--calm", type=Path)
    options = parser.parse_args()
    if options.calm and (options.only or not (options.calm / "results.json").is_file()):
        parser.error("--calm is a whole reproduction that has ended, and goes without --only")
    chance = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as folder:
        calm, rough = options.calm or Path(folder) / "calm", Path(folder) / "rough"
        started = time.monotonic()
        if options.calm is None and not run(command(calm, options.only)):
            print("the undisturbed run did not come to its end", file=sys.stderr)
            return 1
        seconds = time.monotonic() - started if options.calm is None else made_in(calm)
        killed = 0
        while killed < options.kills and not run(command(rough, options.only),
                                                 chance.uniform(2.0, 2.0 * seconds / (options.kills + 1))):
            killed += 1
        run(command(rough, options.only))
        same = results(calm) == results(rough)
        change_one_number(rough)
        run(command(rough, options.only))
        noticed = results(calm) != results(rough)
    words = " ".join(["python campaigns/kill_reproduction.py", *(["--only", *options.only] if options.only else [])])
    record("reproduction", {"command": words, "n": killed, "sections": len(options.only or sections()),
                            "seed": options.seed, "failures": int(not same),
                            "control": {"one number changed": {"n": 1, "noticed": int(noticed)}}})
    print(f"killed {killed} times, results {'the same' if same else 'DIFFER'}; {seconds:.0f} s undisturbed; a changed "
          f"number is {'noticed' if noticed else 'NOT NOTICED'}")
    return 0 if same and noticed and killed == options.kills else 1


if __name__ == "__main__":
    sys.exit(main())
