"""An engine in a process of its own: the answers of one in a thread, and an end whenever either end goes."""

import asyncio
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import frost
from conftest import small_frost
from frost.core.inputs import Part, Signature
from frost.core.model import FrostConfig
from frost.halting.budget import Budget
from frost.halting.stopping import AtDepth, Rule
from frost.runtime.async_engine import AsyncEngine, EngineStopped
from frost.runtime.budgets import Budgets, Grant
from frost.runtime.engine_child import threads_for
from frost.runtime.engine_thread import DeadlinePassed
from frost.runtime.entrance import Entrance, Packing
from frost.runtime.wire import Incoming, grant_from_json, grant_to_json, inputs_of, message

pytestmark = pytest.mark.skipif(os.name != "posix", reason="a process of its own needs POSIX")


class Seen:
    """Stands where a drift watch does."""

    def __init__(self):
        self.first = 0

    def see(self, steps, values):
        assert steps.dtype == np.int64
        assert np.isfinite(values).all()
        self.first += int((steps == 1).sum())


class Kept:
    """An engine in a loop of its own, so that tests share one process."""

    def __init__(self, run, **options):
        self.seen = Seen()
        self.engine = AsyncEngine(run.model, run.calibration, slots=8, process_of=run, watch=self.seen, **options)
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()
        self.call(self._start())

    async def _start(self):
        self.engine.start()

    def call(self, work, seconds=20):
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(seconds)

    def submit(self, images, **asked):
        async def main():
            return await asyncio.gather(*(self.engine.submit(image, **asked) for image in images),
                                        return_exceptions=True)
        return self.call(main())

    def end(self):
        self.call(self.engine.close())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(10)
        self.loop.close()


@pytest.fixture(scope="module")
def digits():
    return frost.load("digits")


@pytest.fixture(scope="module")
def kept(digits):
    found = Kept(digits, max_queue=4000)
    yield found
    found.end()


@pytest.fixture
def images():
    return torch.rand(40, 1, 8, 8)


def until(claim, seconds=10):
    end = time.monotonic() + seconds
    while not claim():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.01)


@pytest.mark.parametrize("asked", [{}, {"depth": 3}, {"quantile": 0.5}, {"mean_depth": 2.5}])
def test_answers_are_those_of_the_model(digits, kept, images, asked):
    rule = digits.calibration.at_quantile(0.5) if "quantile" in asked else (
        digits.calibration.at_mean_depth(2.5) if "mean_depth" in asked else AtDepth(asked.get("depth", 8)))
    expected = frost.Engine(digits.model, rule).predict(images)
    answers = kept.submit(images, **asked)
    assert [answer.depth for answer in answers] == expected.depth.tolist()
    assert torch.allclose(torch.stack([answer.output for answer in answers]), expected.outputs, atol=1e-5)
    assert [answer.score for answer in answers] == pytest.approx(expected.scores.tolist(), abs=1e-5)


def test_an_answer_says_which_budget_it_had(kept, images):
    answer, = kept.submit(images[:1], mean_depth=2.5)
    assert (answer.budget, answer.is_reduced, answer.is_late) == (Budget(mean_depth=2.5), False, False)


@pytest.mark.parametrize(("wrong", "words"), [(torch.rand(3, 8, 8), "shape"), (torch.full((1, 8, 8), torch.nan), "NaN"),
                                              ("text", "str"), (torch.zeros(1, 8, 8, dtype=torch.long), "float")])
def test_what_is_no_input_is_refused(kept, wrong, words):
    found, = kept.submit([wrong])
    assert isinstance(found, ValueError)
    assert words in str(found)


def test_a_deadline_that_has_passed_leaves_one_step_at_most(kept, images):
    for found in kept.submit(images, deadline=0.0):
        assert isinstance(found, DeadlinePassed) or (found.is_late and found.depth == 1)


def test_all_steps_leave_the_queue(kept, images):
    kept.submit(images)
    until(lambda: kept.engine.queued_steps == 0 and kept.engine.progress.occupied == 0)
    assert kept.engine.progress.step_age is None


def test_counts_are_those_of_the_process(kept, images):
    before = kept.engine.counts.answered
    kept.submit(images, depth=3)
    assert kept.engine.counts.answered == before + 40
    assert sum(kept.engine.counts.depths) == kept.engine.counts.answered
    assert kept.engine.work.stepped_for > 0


def test_signals_reach_the_drift_watch(kept, images):
    before = kept.seen.first
    kept.submit(images)
    assert kept.seen.first == before + 40


@pytest.mark.parametrize("wait", [0.0, 0.002, 0.01])
def test_what_is_cancelled_leaves_nothing_behind(kept, images, wait):
    async def main():
        waiting = [asyncio.ensure_future(kept.engine.submit(image)) for image in images]
        await asyncio.sleep(wait)
        for task in waiting[::2]:
            task.cancel()
        return await asyncio.gather(*waiting, return_exceptions=True)

    found = kept.call(main())
    assert all(answer.depth == 8 for answer in found[1::2])
    until(lambda: kept.engine.queued_steps == 0 and kept.engine.progress.occupied == 0)
    assert not kept.engine.worker._tickets


def test_random_lives_have_one_outcome_each(kept, images):
    chance = random.Random(0)

    async def one(image):
        asked = chance.choice([{}, {"depth": chance.randint(1, 8)}, {"mean_depth": 3}, {"deadline": 0.02}])
        task = asyncio.ensure_future(kept.engine.submit(image, **asked))
        if chance.random() < 0.3:
            await asyncio.sleep(0.02 * chance.random())
            task.cancel()
        return await asyncio.gather(task, return_exceptions=True)

    async def main():
        return await asyncio.gather(*(one(images[place % 40]) for place in range(300)))

    kinds = {type(outcome[0]).__name__ for outcome in kept.call(main())}
    assert kinds <= {"Outcome", "CancelledError", "DeadlinePassed"}
    until(lambda: kept.engine.queued_steps == 0)
    assert not kept.engine.worker._tickets


def test_a_killed_process_fails_what_waits(digits, images):
    kept = Kept(digits, max_queue=4000)
    process = kept.engine.worker._process

    async def main():
        os.kill(process.pid, signal.SIGSTOP)    # so that nothing is answered before
        waiting = [asyncio.ensure_future(kept.engine.submit(image)) for image in images]
        await asyncio.sleep(0.1)
        process.kill()
        return await asyncio.gather(*waiting, return_exceptions=True)

    found = kept.call(main())
    assert {type(error) for error in found} == {EngineStopped}
    assert kept.engine.progress.state == "dead"
    assert "ended" in kept.engine.progress.error
    kept.end()


def test_a_step_that_does_not_end_is_seen(digits, images, monkeypatch):
    monkeypatch.setattr("frost.runtime.async_engine.STALLED", 0.2)
    kept = Kept(digits)
    process = kept.engine.worker._process

    async def main():
        os.kill(process.pid, signal.SIGSTOP)
        task = asyncio.ensure_future(kept.engine.submit(images[0]))
        await asyncio.sleep(0.4)
        state = kept.engine.progress.state
        os.kill(process.pid, signal.SIGCONT)
        await task
        return state, kept.engine.progress.state

    assert kept.call(main()) == ("stalled", "running")
    kept.end()


def test_the_process_ends_with_the_one_that_started_it():
    code = ("import frost, os, sys; from frost.runtime.async_engine import AsyncEngine; run = frost.load('digits');"
            "engine = AsyncEngine(run.model, run.calibration, slots=2, process_of=run);"
            "print(engine.worker._process.pid, flush=True); sys.stdin.read()")
    parent = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    child = int(parent.stdout.readline())
    parent.kill()
    parent.communicate()
    until(lambda: _has_ended(child))


def _has_ended(number):
    status = Path(f"/proc/{number}/stat")
    return not status.exists() or status.read_text().rsplit(")", 1)[1].split()[0] == "Z"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_are_not_for_the_process(kept, images, number):
    os.kill(kept.engine.worker._process.pid, number)
    assert kept.submit(images[:1])[0].depth == 8


def test_a_run_that_has_changed_meanwhile_is_refused(digits, tmp_path):
    digits.model.save(tmp_path / "run")
    run = frost.load(tmp_path / "run")
    with torch.no_grad():
        next(run.model.parameters()).add_(1)
    with pytest.raises(ValueError, match="replaced"):
        AsyncEngine(run.model, run.calibration, process_of=run)


@pytest.mark.parametrize("wrong", [{"slots": 0}, {"backend": "abacus"}])
def test_what_an_engine_cannot_be_is_said_by_its_process(digits, wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        AsyncEngine(digits.model, digits.calibration, process_of=digits, **wrong)


def test_a_short_input_leaves_a_core_to_others(digits):
    threads = torch.get_num_threads()
    try:
        assert threads_for(digits.model, 3) == 2
        assert threads_for(digits.model, 1) == 1
    finally:
        torch.set_num_threads(threads)


def test_a_long_input_has_all_cores():
    class Slow(nn.Module):
        def forward(self, hidden):
            time.sleep(0.05)
            return 0.1 * hidden

    threads = torch.get_num_threads()
    try:
        model = small_frost(FrostConfig(depth=2), Slow()).expects(torch.zeros(1, 8, 8)).eval()
        assert threads_for(model, 3) == 3
    finally:
        torch.set_num_threads(threads)


def test_messages_survive_any_cut():
    chance, whole = random.Random(0), b""
    sent = [({"n": number}, bytes([number]) * chance.randint(0, 50)) for number in range(50)]
    for words, behind in sent:
        whole += message(words, behind)
    incoming, found = Incoming(), []
    while whole:
        cut = chance.randint(1, 90)
        found += [(words, bytes(behind)) for words, behind in incoming.add(whole[:cut])]
        whole = whole[cut:]
    assert found == sent


@pytest.mark.parametrize("kind", ["tensor", "tuple", "dict"])
def test_inputs_of_every_kind_come_through(kind):
    names = "012" if kind == "tuple" else "abc"
    parts = tuple(map(Part, names, ((2, 3), (4,), ()), (torch.float32, torch.int64, torch.bool)))
    signature = Signature(kind, parts[:1] if kind == "tensor" else parts)
    model = small_frost(FrostConfig(depth=2))
    model.check = lambda inputs: None
    rows = [(torch.rand(2, 3), torch.arange(4) + place, torch.tensor(place % 2 == 0)) for place in range(5)]
    given = {"tensor": [row[0] for row in rows], "tuple": rows,
             "dict": [dict(zip("abc", row, strict=True)) for row in rows]}[kind]
    packed = [Packing(model, signature)(value) for value in given]
    behind = bytearray(b"".join(part for column in zip(*packed, strict=True) for part in column))
    found = inputs_of(behind, 5, signature, Entrance(model, signature).dtypes)
    for value, expected in zip(found, given, strict=True):
        if kind == "tensor":
            assert torch.equal(value, expected)
        elif kind == "tuple":
            assert all(map(torch.equal, value, expected))
        else:
            assert all(torch.equal(value[name], expected[name]) for name in "abc")


@pytest.mark.parametrize("rule", [AtDepth(3), Rule("rank", (float("inf"), -0.1234567890123456)),
                                  Rule("confidence", (-0.5,), quantile=0.25)])
def test_a_grant_comes_through_exactly(rule):
    grant = Grant(Budget(mean_depth=2.5), rule, 4, 2.4999999999999996, is_reduced=True)
    words, _ = next(Incoming().add(message({"grant": grant_to_json(grant)})))
    assert grant_from_json(words["grant"]) == grant


def test_budgets_fall_in_the_process(digits):
    kept = Kept(digits, under_load="shallower", floor=2.0, max_queue=100_000)
    answers = kept.submit(torch.rand(800, 1, 8, 8))
    reduced = [answer for answer in answers if answer.is_reduced]
    known = Budgets(digits.calibration, 8, "shallower", 2.0)
    assert len(reduced) > 100
    assert {answer.budget for answer in reduced} <= {grant.budget for grant in known._lower}
    assert sum(answer.depth for answer in answers) / 800 < 8
    assert kept.engine.counts.reduced == len(reduced)
    kept.end()
