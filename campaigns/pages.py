"""docs/reliability.md from the figures of the campaigns: `python campaigns/pages.py`, after `make campaigns`."""

from __future__ import annotations

import json
import sys
import textwrap
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
FIGURES, PAGE = ROOT / "docs" / "results" / "campaigns.json", ROOT / "docs" / "reliability.md"
CAMPAIGNS = {
    "flips": ("a sign or an exponent of an equation is flipped", "tests/test_equations.py notices", "flip_signs.py"),
    "F01": ("kill −9 of a training, then `--resume`", "losses and weights bit for bit", "kill_training.py"),
    "F02": ("a crash after any file operation of a save; what was not synced is lost or torn",
            "the older state or the newer, whole", "crashes.py"),
    "F03": ("SIGINT, SIGTERM in a step, a validation, a save; one process and two",
            "exit 130 or 143 in seconds, and going on is bit for bit", "processes.py"),
    "F04": ("one of two processes is killed, or frozen", "the other says so, and going on is bit for bit",
            "processes.py"),
    "F05": ("no space, a read-only disk, an I/O error at any operation of a save",
            "the error names the path, the older state is whole", "crashes.py"),
    "F06": ("a run directory is changed", "noticed before a tensor is used, the last whole checkpoint offered",
            "mutations.py"),
    "F07": ("hostile files with the right hashes", "none executed; under a second and 64 MB", "hostile_files.py"),
    "F08": ("NaN or infinity in a layer of one process", "all stop in that step, no such checkpoint", "exactness.py"),
    "F09": ("a training is stopped and gone on with: {conv, ViT} × {mid-epoch, its end} × threads × processes",
            "every tensor and line the same", "exactness.py"),
    "F10": ("damaged data sets", "refused before the first step, the file named", "hostile_data.py"),
    "F11": ("hostile archives", "nothing outside the target, memory bounded", "hostile_archives.py"),
    "F12": ("quantile sketches, merged or not", "rank error within the bound", "thresholds.py"),
    "F13": ("a stored calibration is changed", "refused", "thresholds.py"),
    "F14": ("depth against quantile", "never decreasing; 1 is full depth", "thresholds.py"),
    "F15": ("one input among others of every kind", "its answer is the same, bit for bit", "batch_invariance.py"),
    "inputs": ("one input among others, for every kind of input and head: vectors, tokens, dense answers, recurrences",
               "the same bits, or 1e-5 where the kernels round by row", "any_input.py"),
    "F15, onnxruntime": ("the same in ONNX Runtime", "its answer is the same, bit for bit", "batch_invariance.py"),
    "F16": ("engine against the obvious loop", "same depths, logits to 1e-5", "batch_invariance.py"),
    "F17": ("random lives of a session", "one outcome each, no slot lost", "batch_invariance.py"),
    "reproduction": ("kill −9 of `frost reproduce`, then `--resume`", "the same results.json, timing apart",
                     "kill_reproduction.py"),
    "F18": ("states that overflow", "fail alone, no NaN printed", "batch_invariance.py"),
    "hosts": ("two hosts of a training in network namespaces, the cable between them pulled", "both say so within "
              "the timeout, and going on is bit for bit", "hosts.py"),
    "R01": ("a cluster of a head and two nodes loses a node at a third of a job and an actor at two thirds",
            "every key once, the answers those of one process, bit for bit", "cluster.py"),
    "R02": ("a job on a cluster is killed whole at half, and run again", "every key once, at most 2 % of the rows "
            "computed twice", "cluster.py"),
    "R03": ("20,000 PNG files through Ray, one actor of two threads, against one process", "at least 0.8 of its rate, "
            "start-up apart", "cluster_rate.py"),
    "R04": ("a service of two replicas under load: its queues are filled, one replica is killed, one taken away",
            "429 when full; every request has an answer or an error, and where nothing dies an answer",
            "cluster_serving.py"),
    "F19": ("requests made up from the OpenAPI schema, and damaged bytes",
            "no undocumented 5xx, no traceback, memory grows by less than 20 MB", "service.py"),
    "F20": ("bodies that lie about their size, a gigabyte, a million chunks, bombs, odd pictures (F20, F21)",
            "refused within a second, memory grows by less than 32 MB", "service.py"),
    "F22": ("four times the capacity, whatever the server does, on steps of a ViT-B/16",
            "90 % of the capacity in answers, 429 for the others, as before within 5 s", "service.py"),
    "F23": ("slow sockets beside normal requests at half load", "p99 at most 1.5 times as long, none lost",
            "service.py"),
    "F24": ("half of all requests are broken off by their clients",
            "slots free with the step after the one under way", "service.py"),
    "F26": ("SIGTERM under load", "every accepted request answered, exit 0 within 10 s", "service.py"),
    "F27": ("every route by every method, with no key, wrong ones, parts of it and the right one",
            "nothing without the key but liveness, readiness and the page that asks for it", "service.py"),
    "F28": ("a long day at 70 % load with bad requests and clients that go away",
            "memory grows by less than 0.5 MB a minute, descriptors and threads not at all", "service.py"),
    "needles": ("inputs over HTTP among others, in strict mode, under load", "the bits of the answer alone",
                "service.py"),
    "budgets": ("1.5 times the capacity at full depth, answered with fewer steps (`--under-load shallower`)",
                "99 % in time, at most 2 points lost", "service.py"),
}
HEAD = """# Reliability

> Kill it anywhere, feed it anything, batch it with anyone: the answer does not change, and nothing is lost.

What is promised, what was done to break it, and how often that succeeded. Every campaign has a control, the same
attack on something naive, which must fail: otherwise the campaign proves nothing. "0 of n" has a 95 % upper limit of
3/n. `python campaigns/pages.py` makes this page from docs/results/campaigns.json, which `make campaigns` writes; short
forms of most campaigns run in `make test`.

## Campaigns

"""
TAIL = """
## What it rests on

- **A save is a new folder**, built aside, every file synced, a manifest with sizes and SHA-256 of all files and of
  itself written last, then renamed once. The newest folder that verifies wins; nothing points to "the latest".
  `src/frost/directory.py`, `training/snapshot.py`.
- **No pickle** and no `torch.load` where a user's file can reach; CIFAR's own pickles are pinned by hash and opened
  by a reader that knows arrays only. A configuration that asks for more memory than its weights hold is refused
  before anything is allocated.
- **A signal is a request**, met between two steps; several processes agree on the step. A second signal ends at
  once.
- **Randomness is a function of (seed, epoch) and (seed, step)** over the whole batch, of which each process takes its
  part. Threads that read ahead and the number of interruptions change nothing. Bits are the same at the same number
  of processes and threads, not across them.
- **A process waits for another `runtime.timeout` seconds** (300), then says that it is gone, with exit status 75;
  `frost launch` ends all and goes on with `--resume`.
- **The engine's rows do not know one another**: constant shape, kernels whose rounding does not depend on the row,
  free slots repeat one in use.
"""


def page(figures: dict[str, Any]) -> str:
    """The whole page."""
    return HEAD + "".join(_row(name, figures.get(name)) for name in CAMPAIGNS) + TAIL


def _row(name: str, result: dict[str, Any] | None) -> str:
    """A campaign as an item of the list, in lines of at most 120 characters."""
    done, holds, script = CAMPAIGNS[name]
    label = f"{name}, " if name.startswith(("F", "R")) else ""
    if result is None:
        return _item(f"**{label}not run.** {done}. Must hold: {holds}. `{script}`.")
    failures, count = result.get("failures"), result.get("n", "?")
    outcome = f"0 of {count:,} failed" if not failures else f"{failures} of {count:,} FAILED"
    more = [f"{key.replace('_', ' ')} {value}" for key, value in result.items()
            if key not in ("command", "n", "seed", "failures", "control") and not isinstance(value, (dict, list))]
    seed = result.get("seed")
    by = f"`{script}`" if seed is None else f"`{script}`, seed {seed}"
    return _item(f"**{label}{'; '.join([outcome, *more])}.** {done[0].upper()}{done[1:]}. Must hold: {holds}. "
                 f"Control: {_control(result.get('control'))}. By {by}.")


def _item(text: str) -> str:
    lines = textwrap.wrap(text, 118, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False)
    return "\n".join(lines) + "\n"


def _control(control: Any) -> str:
    if not isinstance(control, dict):
        return str(control or "–")
    return "; ".join(f"{name}, {_counted(outcome)}" if isinstance(outcome, dict) else f"{name} {outcome}"
                     for name, outcome in control.items())


def _counted(outcome: dict[str, Any]) -> str:
    """What came of a control; counts are given of how many."""
    of = f" of {outcome['n']:,}" if "n" in outcome else ""
    return ", ".join(key if value is True else f"{key} {value}{of}" for key, value in outcome.items() if key != "n")


def main() -> int:
    """Write the page."""
    PAGE.write_text(page(json.loads(FIGURES.read_text())))
    print(f"{PAGE.relative_to(ROOT)} written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
