"""The engine is batch-invariant (F15, F16, F17, F18): the same bits, the right answers, one outcome each.

    python campaigns/batch_invariance.py

F15 hides needles among mates of all kinds; the control changes the batch size. F16 compares with the obvious loop,
image by image. F17 submits, cancels, lets expire, steps and drains in random order; the control forgets to free the
slots of what is cancelled. F18 lets states overflow; the control prints what a plain loop gives. Models are those that
come with the package. Figures go to docs/results/campaigns.json.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
from collections.abc import Iterator
from functools import cache
from itertools import product
from typing import Any

import torch
from hostile_data import record
from torch import Tensor, nn

from frost.checkpoint import load, pretrained
from frost.core.model import Frost, FrostConfig
from frost.core.trajectory import IterativeModel
from frost.data.catalogue import BUNDLED
from frost.halting.signals import along
from frost.halting.stopping import AtDepth, Rule
from frost.runtime.backend import BackendName
from frost.runtime.engine import Engine
from frost.runtime.ladder import Ladder
from frost.runtime.live import Result
from frost.runtime.reference import predict_slowly
from frost.runtime.scheduler import Item, QueueFull
from frost.runtime.slots import Session
from frost.runtime.stream import Request

SLOTS = (5, 16, 13)    # also numbers that no vector is long
CLAIMS: tuple[BackendName, ...] = ("eager", "onnxruntime")    # `compile` promises 1e-5 only
STRANGE = (math.nan, math.inf, -math.inf, 3e38, 0.0, 1e-45)


@cache
def bundled(name: str) -> Tensor:
    """Some test inputs of a data set that comes with the package; problems are made by code, which takes seconds."""
    return BUNDLED[name]().test.images[:256].clone()


def subjects(seed: int) -> Iterator[tuple[str, IterativeModel, Rule, Tensor]]:
    """Each pretrained model, a rule that stops at many depths, and images."""
    generator = torch.Generator().manual_seed(seed)
    for name in pretrained():
        run = load(name)
        assert run.calibration is not None
        if name in BUNDLED:
            images = bundled(name)
        else:
            assert run.model.signature is not None
            images = torch.rand(256, *run.model.signature.zeros(1).shape[1:], generator=generator)
        yield name, run.model, run.calibration.at_mean_depth(run.model.depth / 2), images


def bits(result: Result) -> tuple[Any, ...]:
    """Everything of an answer, to be compared exactly."""
    assert result.output is not None
    return result.depth, result.score, result.output.numpy().tobytes()


def needles(count: int, seed: int, pool: int = 256) -> int:
    """F15, with needles drawn from so many inputs of each model, for each backend that claims the promise."""
    codes = [backend_needles(backend, count, seed, pool) for backend in CLAIMS]
    return max(codes)


def backend_needles(backend: BackendName, count: int, seed: int, pool: int) -> int:
    """F15 for one backend."""
    generator = random.Random(seed)
    tried = failures = other_bits = 0
    for (name, model, rule, images), slots in product(subjects(seed), SLOTS):
        images = images[:pool]
        engine = Engine(model, rule, slots=slots, backend=backend)
        alone = {place: bits(next(iter(engine.run([image])))) for place, image in enumerate(images)}
        wanted = -(-count // (len(pretrained()) * len(SLOTS)))
        while wanted > 0:
            places = [generator.randrange(len(images)) for _ in range(generator.randrange(1, min(400, 2 * wanted + 2)))]
            stream: list[Request] = []
            for place in places:
                stream.append(Request(images[place], ("needle", place)))
                for _ in range(generator.choice([0, 0, 1, 3])):
                    mate = torch.full_like(images[0], generator.choice(STRANGE)) if generator.random() < 0.5 else (
                        torch.rand(images[0].shape))
                    stream.append(Request(mate, ("mate", 0), depth=generator.randint(1, model.depth)))
            for result in engine.run(stream, order=generator.choice(["arrival", "finish"])):
                kind, place = result.key
                if kind == "needle":
                    tried += 1
                    wanted -= 1
                    failures += bits(result) != alone[place]
        changing = Engine(model, rule, "compact", slots=slots)
        other_bits += sum(bits(result) != alone[place] for place, result in enumerate(changing.run(images)))
        print(f"F15, {backend}: {name}, {slots} slots: {tried} needles so far, {failures} with other bits", flush=True)
    print(f"F15, {backend}: {tried} needles, {failures} with other bits; control, a batch that shrinks: {other_bits}")
    record("F15" if backend == "eager" else f"F15, {backend}", {"n": tried, "seed": seed, "failures": failures,
                   "control": {"a batch that shrinks": {"n": pool * len(pretrained()) * len(SLOTS),
                                                        "other bits": other_bits}}})
    return int(bool(failures) or not other_bits)


def per_step(rule: Rule, depth: int) -> tuple[float, ...]:
    """A threshold for each step; the last one given serves all later steps."""
    return (*rule.thresholds, *[rule.thresholds[-1]] * (depth - len(rule.thresholds)))


def obvious(count: int, seed: int) -> int:
    """F16."""
    tried = failures = near = 0
    for _, model, rule, images in subjects(seed):
        images = images[:count]
        slow = predict_slowly(model, rule, images)
        with torch.no_grad():
            whole = model(images, keep_states=False)
        values = along(rule.signal, whole.outputs, whole.score_logits, whole.states, whole.mask)
        each = torch.tensor(per_step(rule, model.depth))
        is_near = ((values - each).abs() < 1e-5).any(dim=1)
        near += int(is_near.sum())
        for executor in ("masked", "compact", "refill"):
            fast = Engine(model, rule, executor, slots=16).predict(images)
            same = fast.depth == slow.depth
            size = slow.outputs.abs().flatten(1).amax(dim=1).clamp_min(1.0)
            close = (fast.outputs - slow.outputs).abs().flatten(1).amax(dim=1) <= 1e-5 * size
            failures += int((~is_near & ~(same & close)).sum())
            tried += len(images)
    wrong = 0
    for _, model, rule, images in subjects(seed):          # the control stops one step late
        late = Rule(rule.name, (math.inf, *per_step(rule, model.depth)[:-1]))
        wrong += int((Engine(model, late).predict(images[:count]).depth != Engine(model, rule).predict(
            images[:count]).depth).sum())
    print(f"F16: {tried} answers, {failures} unlike the obvious loop ({near} too near to the threshold to tell); "
          f"control, thresholds one step off: {wrong} differ")
    record("F16", {"n": tried, "seed": seed, "failures": failures, "near": near,
                   "control": {"thresholds one step off": {"differ": wrong}}})
    return int(bool(failures) or not wrong)


class Forgetful(Session):
    """The control: cancelling forgets to free the slot."""

    def cancel(self, item: Item) -> bool:
        """Take it off the books only."""
        if item.place is None:
            return False
        self.scheduler._inside.pop(item.ticket)
        item.place = None
        return True


def small_model(depth: int = 6, scale: float = 0.5) -> Frost:
    """A convolutional FROST of a few hundred parameters on 8×8 grey images."""
    torch.manual_seed(0)
    block = nn.Sequential(nn.GroupNorm(2, 8), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1))
    return Frost(nn.Conv2d(1, 8, 3, padding=1), block, channels=8, classes=4,
                 config=FrostConfig(depth=depth, scale_init=scale)).eval().expects(torch.rand(1, 8, 8))


def one_life(model: Frost, generator: random.Random, kind: type[Session]) -> str | None:
    """A random sequence of events; what went wrong, if anything."""
    clock = [0.0]
    engine = Engine(model, Rule("rank", (generator.uniform(-0.3, 0.3),)), slots=3, clock=lambda: clock[0])
    assert model.signature is not None
    ladder = Ladder(3, generator.choice([True, False]))
    session = kind(engine._stepper, ladder, model.signature, max_queue=8, sync_every=generator.choice([1, 2]),
                   clock=lambda: clock[0])
    inside: dict[int, Item] = {}
    outcomes: dict[int, int] = {}

    def collect(results: list[Result]) -> None:
        for result in results:
            outcomes[result.key] = outcomes.get(result.key, 0) + 1
            inside.pop(result.key, None)

    torch.manual_seed(generator.randrange(2**31))
    for number in range(generator.randint(10, 60)):
        event = generator.choice(["submit", "submit", "submit", "bad", "cancel", "wait", "step", "step"])
        if event == "submit":
            try:
                inside[number] = session.submit(torch.rand(1, 8, 8), number, generator.choice([None, 1, 3]),
                                                generator.choice([None, None, 2.0]))
            except QueueFull:
                outcomes[number] = 1
        elif event == "bad":
            try:
                session.submit(torch.full((1, 8, 8), math.nan), number)
                return "an image that is not finite was taken"
            except ValueError:
                outcomes[number] = 1
        elif event == "cancel" and inside:
            chosen = generator.choice(sorted(inside))
            session.cancel(inside.pop(chosen))
            outcomes[chosen] = outcomes.get(chosen, 0) + 1
        elif event == "wait":
            clock[0] += generator.uniform(0, 2)
        else:
            collect(session.advance())
            ours = session.scheduler
            session._fill(filled := [])
            collect(filled)
            if ours.occupied < 3 and ours.waiting + ours.staged:
                return "a slot idles while an item waits"
            if ours.occupied != sum(item is not None and item.place == "running" for item in ours.running):
                return "a slot is leaked or used twice"
    collect(list(session.drained()))
    if inside or any(times != 1 for times in outcomes.values()):
        return "an item without exactly one outcome"
    return None if session.scheduler.occupied == 0 and len(session) == 0 else "a slot is never free again"


def judged(model: Frost, generator: random.Random, kind: type[Session]) -> str | None:
    """One life; an item that leaves twice is a fault like any other."""
    try:
        return one_life(model, generator, kind)
    except ValueError as error:
        return str(error)


def lives(count: int, seed: int) -> int:
    """F17."""
    model = small_model()
    faults = [fault for number in range(count) if (fault := judged(model, random.Random(seed + number), Session))]
    control = min(count, 50)
    leaks = sum(judged(model, random.Random(seed + number), Forgetful) is not None for number in range(control))
    for fault in faults[:5]:
        print(f"FAILURE {fault}")
    print(f"F17: {count} lives of a session, {len(faults)} with a fault; control that forgets slots: {leaks} of "
          f"{control}")
    record("F17", {"n": count, "seed": seed, "failures": len(faults),
                   "control": {"cancelling forgets the slot": {"n": control, "faults": leaks}}})
    return int(bool(faults) or not leaks)


def overflows(count: int, seed: int) -> int:
    """F18: a model whose linear step grows the state; images of some sizes overflow, others do not."""
    generator = random.Random(seed)
    failures = diverged = tokens = 0
    for number in range(count):
        scale, factor = generator.uniform(0.9, 1.5), generator.choice([1.0, 10.0, 100.0])
        torch.manual_seed(number)
        model = Frost(nn.Conv2d(1, 8, 3, padding=1, bias=False), nn.Conv2d(8, 8, 1, bias=False), channels=8, classes=4,
                      config=FrostConfig(depth=256, scale_init=scale)).eval().expects(torch.zeros(1, 8, 8))
        with torch.no_grad():
            model.transition.weight.mul_(factor)
        stream = [Request(torch.zeros(1, 8, 8), ("still", place)) for place in range(3)]
        stream += [Request(torch.rand(1, 8, 8) * 10.0 ** generator.randint(0, 30), ("large", place))
                   for place in range(3)]
        generator.shuffle(stream)
        quiet = [bits(result) for result in Engine(model, AtDepth(256), slots=4).run(
            [request for request in stream if request.key[0] == "still"])]
        results = list(Engine(model, AtDepth(256), slots=4).run(stream))
        still = [result for result in results if result.key[0] == "still"]
        failures += any(result.error for result in still) or [bits(result) for result in still] != quiet
        for result in results:
            diverged += result.error is not None
            printed = {"error": result.error, "score": result.score,
                       "output": None if result.output is None else result.output.tolist()}
            try:
                json.dumps(printed, allow_nan=False)
            except ValueError:
                failures += 1
        with torch.no_grad():
            plain = model(torch.stack([request.inputs for request in stream]), keep_states=False).outputs[:, -1]
        tokens += "NaN" in json.dumps(plain.tolist()) or "Infinity" in json.dumps(plain.tolist())
    print(f"F18: {count} models, {diverged} requests diverged, {failures} harmed another or printed NaN; control, the "
          f"plain loop: {tokens} print NaN")
    record("F18", {"n": count, "seed": seed, "failures": failures, "diverged": diverged,
                   "control": {"plain loop": {"n": count, "printed NaN": tokens}}})
    return int(bool(failures) or not diverged or not tokens)


def main() -> int:
    """Run the four; status 1 if one fails, or if a control does not."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--share", type=float, default=1.0, help="of the full size")
    options = parser.parse_args()
    share, seed = options.share, options.seed
    return (needles(int(10_000 * share), seed) | obvious(max(16, int(256 * share)), seed)
            | lives(int(2000 * share), seed) | overflows(max(3, int(60 * share)), seed))


if __name__ == "__main__":
    sys.exit(main())
