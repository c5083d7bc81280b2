import asyncio
import math
import random
import threading

import pytest
import torch
from torch import nn

import frost
from conftest import small_frost
from frost.core.model import FrostConfig
from frost.halting.budget import Budget
from frost.runtime.async_engine import AsyncEngine, EngineStopped
from frost.runtime.engine_thread import DeadlinePassed

GATE = threading.Event()    # a step of `Gated` waits for it; not in the module, which is copied


class Gated(nn.Module):
    def forward(self, hidden):
        if not GATE.wait(20):
            raise KeyboardInterrupt
        return 0.1 * hidden


class Broken(nn.Module):
    """Fails without an input being at fault: the device is gone."""

    def forward(self, hidden):
        if hidden.device.type != "meta" and GATE.is_set():
            raise OSError("the device is gone")
        return 0.1 * hidden


@pytest.fixture(scope="module")
def digits():
    return frost.load("digits")


@pytest.fixture
def gate():
    GATE.set()
    yield GATE
    GATE.set()


def gated(depth=4, block=None):
    return small_frost(FrostConfig(depth=depth), block or Gated()).expects(torch.zeros(1, 8, 8))


async def closed(gate, engine):
    """Let one input through, which keeps what is computed once; whatever comes now stands in its second step."""
    await engine.submit(torch.zeros(1, 8, 8))
    gate.clear()


def settle(seconds=0.05):
    return asyncio.sleep(seconds)


async def until(claim):
    for _ in range(400):
        if claim():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it never came true")


def test_answers_are_those_of_the_engine(digits):
    images = torch.rand(40, 1, 8, 8)
    rule = digits.calibration.at_mean_depth(3.5)
    expected = list(frost.Engine(digits.model, rule, slots=8).run(images))

    async def main():
        async with AsyncEngine(digits.model, digits.calibration, slots=8, ladder=False, max_queue=999) as engine:
            return await asyncio.gather(*(engine.submit(image, mean_depth=3.5) for image in images))

    answers = asyncio.run(main())
    assert [answer.depth for answer in answers] == [result.depth for result in expected]
    assert all(torch.equal(answer.output, result.output) for answer, result in zip(answers, expected, strict=True))


def test_each_request_has_a_rule_of_its_own(digits):
    images = torch.rand(30, 1, 8, 8)
    budgets = [{"depth": 5}, {"quantile": 0.5}, {"mean_depth": 2.5}, {}, {"accuracy_loss": 50}]

    async def main():
        async with AsyncEngine(digits.model, digits.calibration, slots=8) as engine:
            return await asyncio.gather(*(engine.submit(image, **budgets[place % 5])
                                          for place, image in enumerate(images)))

    answers = asyncio.run(main())
    assert {answer.depth for answer in answers[0::5]} == {5}
    assert {answer.depth for answer in answers[3::5]} == {8}
    assert answers[1].budget == Budget(quantile=0.5)
    for start, rule in ((1, digits.calibration.at_quantile(0.5)), (2, digits.calibration.at_mean_depth(2.5))):
        alone = frost.Engine(digits.model, rule).predict(images[start::5])
        assert alone.depth.tolist() == [answer.depth for answer in answers[start::5]]


def test_a_new_budget_that_many_ask_for_is_fitted_once(digits, monkeypatch):
    monkeypatch.setattr("frost.runtime.async_engine.MOST_FITS", 1)

    async def main():
        async with AsyncEngine(digits.model, digits.calibration) as engine:
            return await asyncio.gather(*(engine.submit(torch.rand(1, 8, 8), mean_depth=2.875) for _ in range(20)))

    assert {answer.budget for answer in asyncio.run(main())} == {Budget(mean_depth=2.875)}


@pytest.mark.parametrize("budget", [{"depth": 9}, {"depth": 0}, {"mean_depth": 0.5}, {"quantile": 2},
                                    {"mean_depth": math.nan}, {"depth": 2, "quantile": 0.5}, {"accuracy_loss": -1}])
def test_what_is_no_budget_is_refused(digits, budget):
    async def main():
        async with AsyncEngine(digits.model, digits.calibration) as engine:
            with pytest.raises(ValueError, match=next(iter(budget))):
                await engine.submit(torch.rand(1, 8, 8), **budget)

    asyncio.run(main())


def test_without_a_calibration_a_threshold_is_refused():
    async def main():
        async with AsyncEngine(gated()) as engine:
            with pytest.raises(ValueError, match="calibrat"):
                await engine.submit(torch.rand(1, 8, 8), mean_depth=2)

    GATE.set()
    asyncio.run(main())


def test_a_cancelled_caller_frees_its_slot_within_a_step(gate):
    async def main():
        async with AsyncEngine(gated(depth=4), slots=1) as engine:
            await closed(gate, engine)
            tasks = [asyncio.create_task(engine.submit(torch.rand(1, 8, 8))) for _ in range(3)]
            await until(lambda: engine.progress.occupied == 1)
            before = engine.counts.steps
            tasks[0].cancel()
            await settle()
            assert engine.progress.occupied == 1        # the step under way is not interrupted
            gate.set()
            answers = await asyncio.gather(*tasks, return_exceptions=True)
            assert isinstance(answers[0], asyncio.CancelledError)
            assert [answer.depth for answer in answers[1:]] == [4, 4]
            assert engine.counts.cancelled == 1
            assert engine.counts.steps - before == 1 + 3 + 3    # the one under way; a first step comes with the next
            await until(lambda: engine.progress.occupied == 0)
            assert engine.queued_steps == 0

    asyncio.run(main())


def test_cancelling_one_that_waits_touches_no_other(gate):
    async def main():
        async with AsyncEngine(gated(), slots=1, max_queue=100) as engine:
            await closed(gate, engine)
            tasks = [asyncio.create_task(engine.submit(torch.rand(1, 8, 8))) for _ in range(6)]
            await until(lambda: engine.progress.occupied == 1)
            for task in tasks[3:5]:
                task.cancel()
            await settle()
            gate.set()
            answers = await asyncio.gather(*tasks, return_exceptions=True)
            assert [isinstance(answer, BaseException) for answer in answers] == [False] * 3 + [True] * 2 + [False]
            assert engine.queued_steps == 0

    asyncio.run(main())


def test_the_queue_is_measured_in_steps_at_full_depth(gate):
    async def main():
        async with AsyncEngine(gated(depth=4), slots=1, max_queue=10) as engine:
            await closed(gate, engine)
            first = asyncio.create_task(engine.submit(torch.rand(1, 8, 8)))
            await until(lambda: engine.progress.occupied == 1)
            rest = [engine.enqueue([torch.rand(1, 8, 8)], engine.default)[0] for _ in range(2)]
            assert engine.queued_steps == 8
            with pytest.raises(frost.QueueFull, match="8 steps are waiting, and the queue holds 10") as refused:
                engine.enqueue([torch.rand(1, 8, 8)], engine.default)[0]
            assert refused.value.seconds > 0
            gate.set()
            await asyncio.gather(first, *rest)

    asyncio.run(main())


def test_a_request_of_few_steps_takes_less_of_the_queue(gate):
    async def main():
        async with AsyncEngine(gated(depth=4), slots=1, max_queue=4) as engine:
            await closed(gate, engine)
            one = await engine.grant(Budget(depth=1))
            futures = [engine.enqueue([torch.rand(1, 8, 8)], one)[0] for _ in range(4)]
            with pytest.raises(frost.QueueFull):
                engine.enqueue([torch.rand(1, 8, 8)], engine.default)[0]
            gate.set()
            assert {answer.depth for answer in await asyncio.gather(*futures)} == {1}

    asyncio.run(main())


def test_a_deadline_takes_the_answer_that_there_is(gate):
    async def main():
        async with AsyncEngine(gated(depth=4), slots=2) as engine:
            await closed(gate, engine)
            task = asyncio.create_task(engine.submit(torch.rand(1, 8, 8), deadline=0.05))
            await until(lambda: engine.progress.occupied == 1)
            await settle(0.1)
            gate.set()
            answer = await task
            assert answer.is_late
            assert answer.depth < 4
            assert engine.counts.late == 1

    asyncio.run(main())


def test_a_deadline_before_the_first_step_has_no_answer(gate):
    async def main():
        async with AsyncEngine(gated(depth=4), slots=1, max_queue=100) as engine:
            await closed(gate, engine)
            tasks = [asyncio.create_task(engine.submit(torch.rand(1, 8, 8), deadline=deadline))
                     for deadline in (None, None, 0.02, 0.02)]
            await until(lambda: engine.progress.occupied == 1)
            await settle(0.1)
            gate.set()
            answers = await asyncio.gather(*tasks, return_exceptions=True)
            assert isinstance(answers[3], DeadlinePassed)
            assert [answer.depth for answer in answers[:2]] == [4, 4]
            assert engine.queued_steps == 0

    asyncio.run(main())


def test_inputs_that_come_together_are_queued_together_or_not_at_all(digits):
    async def main():
        async with AsyncEngine(digits.model, digits.calibration) as engine:
            with pytest.raises(ValueError, match="NaN"):
                engine.enqueue([torch.rand(1, 8, 8), torch.full((1, 8, 8), math.nan)], engine.default)
            assert (engine.queued_steps, engine.counts.steps) == (0, 0)
            answers = await asyncio.gather(*engine.enqueue(list(torch.rand(3, 1, 8, 8)), engine.default))
            assert [answer.depth for answer in answers] == [8, 8, 8]

    asyncio.run(main())


def test_an_input_that_is_none_fails_alone(digits):
    async def main():
        async with AsyncEngine(digits.model, digits.calibration) as engine:
            good, odd, bad = await asyncio.gather(
                engine.submit(torch.rand(1, 8, 8)), engine.submit(torch.rand(3)),
                engine.submit(torch.full((1, 8, 8), math.nan)), return_exceptions=True)
            assert good.depth == 8
            assert isinstance(odd, ValueError)
            assert isinstance(bad, ValueError)

    asyncio.run(main())


def test_draining_answers_what_was_taken_and_takes_no_more(gate):
    async def main():
        engine = AsyncEngine(gated(), slots=1)
        engine.start()
        await closed(gate, engine)
        tasks = [asyncio.create_task(engine.submit(torch.rand(1, 8, 8))) for _ in range(3)]
        await settle()
        assert not await engine.drain(0.05)
        assert engine.progress.state == "draining"
        with pytest.raises(EngineStopped, match="draining"):
            await engine.submit(torch.rand(1, 8, 8))
        gate.set()
        assert await engine.drain(5)
        assert [answer.depth for answer in await asyncio.gather(*tasks)] == [4] * 3
        await engine.close()
        assert not engine.progress.is_ready

    asyncio.run(main())


def test_closing_fails_what_has_no_answer(gate):
    async def main():
        engine = AsyncEngine(gated(), slots=1)
        engine.start()
        await closed(gate, engine)
        tasks = [asyncio.create_task(engine.submit(torch.rand(1, 8, 8))) for _ in range(3)]
        await settle()
        closing = asyncio.create_task(engine.close())
        await settle()
        gate.set()
        await closing
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(answer, EngineStopped) for answer in answers)

    asyncio.run(main())


def test_a_dead_engine_fails_every_waiter_and_says_why(gate):
    async def main():
        gate.clear()
        engine = AsyncEngine(gated(block=Broken()), slots=1)
        engine.start()
        assert (await engine.submit(torch.rand(1, 8, 8))).depth == 4
        gate.set()
        answers = await asyncio.wait_for(asyncio.gather(*(engine.submit(torch.rand(1, 8, 8)) for _ in range(3)),
                                                        return_exceptions=True), 10)
        assert all(isinstance(answer, EngineStopped) for answer in answers)
        assert "the device is gone" in str(answers[0])
        assert engine.progress.state == "dead"
        assert "the device is gone" in engine.progress.error
        with pytest.raises(EngineStopped, match="died"):
            await engine.submit(torch.rand(1, 8, 8))
        await engine.close()

    asyncio.run(main())


def test_an_engine_that_hangs_is_not_ready(gate):
    now = [0.0]

    async def main():
        async with AsyncEngine(gated(), slots=1, clock=lambda: now[0]) as engine:
            await closed(gate, engine)
            task = asyncio.create_task(engine.submit(torch.rand(1, 8, 8)))
            await until(lambda: engine.progress.step_age is not None)
            assert engine.progress.is_ready
            now[0] = 1000.0
            assert engine.progress.state == "stalled"
            gate.set()
            await task
            await until(lambda: engine.progress.is_ready)

    asyncio.run(main())


def test_shallower_answers_with_fewer_steps_as_the_queue_grows(digits):
    images = torch.rand(400, 1, 8, 8)

    async def main():
        async with AsyncEngine(digits.model, digits.calibration, slots=4, max_queue=10_000, under_load="shallower",
                               floor=1.5) as engine:
            alone = await engine.submit(images[0])
            return alone, await asyncio.gather(*(engine.submit(image) for image in images)), engine.counts.reduced

    alone, crowd, reduced = asyncio.run(main())
    assert (alone.depth, alone.is_reduced) == (8, False)
    assert reduced == sum(answer.is_reduced for answer in crowd) > 300
    assert min(answer.budget.mean_depth for answer in crowd if answer.is_reduced) == 1.5
    assert sum(answer.depth for answer in crowd) / 400 < 3


def test_shed_leaves_budgets_alone(digits):
    async def main():
        async with AsyncEngine(digits.model, digits.calibration, slots=4, max_queue=10_000) as engine:
            return await asyncio.gather(*(engine.submit(image) for image in torch.rand(100, 1, 8, 8)))

    assert {answer.depth for answer in asyncio.run(main())} == {8}


@pytest.mark.parametrize("wrong", [{"under_load": "deeper"}, {"under_load": "shallower"}, {"floor": 2},
                                   {"floor": 9, "under_load": "shallower"}, {"max_queue": 3}, {"slots": 0}])
def test_what_an_engine_cannot_be_is_refused(digits, wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        AsyncEngine(digits.model, digits.calibration, **wrong)


@pytest.mark.parametrize("seed", range(5))
def test_every_input_has_exactly_one_outcome_whatever_happens(digits, seed):
    chance = random.Random(seed)

    async def one(engine, image):
        deadline = chance.choice([None, None, 0.0, 0.01])
        task = asyncio.create_task(engine.submit(image, depth=chance.randint(1, 8), deadline=deadline))
        await asyncio.sleep(chance.random() * 0.02)
        if chance.random() < 0.3:
            task.cancel()
        return (await asyncio.gather(task, return_exceptions=True))[0]

    async def main():
        async with AsyncEngine(digits.model, digits.calibration, slots=3, max_queue=200) as engine:
            outcomes = await asyncio.gather(*(one(engine, image) for image in torch.rand(80, 1, 8, 8)))
            await until(lambda: engine.progress.occupied == 0)
            return outcomes, engine.queued_steps, engine.progress.waiting

    outcomes, queued, waiting = asyncio.run(asyncio.wait_for(main(), 60))
    kinds = {type(outcome).__name__ for outcome in outcomes}
    assert kinds <= {"Outcome", "CancelledError", "QueueFull", "DeadlinePassed"}
    assert "Outcome" in kinds
    assert (queued, waiting) == (0, 0)
