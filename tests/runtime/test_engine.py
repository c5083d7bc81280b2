"""Three executors, one answer; batch-invariant, bit for bit; no input harms another."""

import itertools
import math
from dataclasses import replace

import pytest
import torch

from conftest import small_frost
from frost.core.model import FrostConfig
from frost.halting.calibration import Calibration
from frost.halting.drift import Watch
from frost.halting.signals import SIGNALS, along
from frost.halting.stopping import AtDepth, Rule
from frost.runtime.engine import Engine
from frost.runtime.reference import predict_slowly
from frost.runtime.scheduler import QueueFull
from frost.runtime.stream import Request
from frost.zoo.registry import SIZES, build

EXECUTORS = ("masked", "compact", "refill")
MODELS = {"conv": replace(SIZES["resnet-8px"], channels=16, bottleneck=8, depth=5),
          "vit": replace(SIZES["vit-8px"], channels=16, heads=2, depth=5)}


def images(count: int = 21, seed: int = 0) -> torch.Tensor:
    return torch.rand(count, 1, 8, 8, generator=torch.Generator().manual_seed(seed))


def middle(model, name: str = "rank", level: float = 0.525) -> Rule:
    """A rule that stops some images early and some late."""
    with torch.no_grad():
        trajectory = model(images())
    values = along(SIGNALS[name], trajectory.outputs, trajectory.score_logits, trajectory.states)
    each = [part[torch.isfinite(part)] for part in values.unbind(dim=1)]
    return Rule(name, tuple(float(part.quantile(level)) if len(part) else math.inf for part in each))


@pytest.fixture(params=MODELS)
def model(request):
    return build(MODELS[request.param], seed=0).eval()


def rows_of(results) -> list[tuple]:
    return [(result.key, result.depth, result.score, result.output.tolist()) for result in results]


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("slots", [1, 3, 8, 32])
def test_an_engine_matches_the_reference_for_any_slot_count(model, executor, slots):
    rule = middle(model)
    expected = predict_slowly(model, rule, images())
    ours = Engine(model, rule, executor, slots).predict(images())
    assert len(set(expected.depth.tolist())) > 2
    assert ours.depth.tolist() == expected.depth.tolist()
    torch.testing.assert_close(ours.outputs, expected.outputs, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(ours.scores, expected.scores, rtol=1e-5, atol=1e-5)
    assert not ours.errors


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("name", [name for name in SIGNALS if name != "fixed"])
def test_every_rule_works_live(executor, name):
    model = build(MODELS["conv"], seed=0).eval()
    rule = middle(model, name, 0.425)
    expected = predict_slowly(model, rule, images())
    ours = Engine(model, rule, executor, 4).predict(images())
    assert ours.depth.tolist() == expected.depth.tolist()


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("sync_every", [2, 3, 9])
def test_looking_less_often_changes_no_answer(model, executor, sync_every):
    rule = middle(model)
    often = Engine(model, rule, executor, 4).predict(images())
    seldom = Engine(model, rule, executor, 4, sync_every=sync_every).predict(images())
    assert seldom.depth.tolist() == often.depth.tolist()
    torch.testing.assert_close(seldom.outputs, often.outputs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("sync_every", [1, 3])
def test_an_answer_is_batch_invariant_bit_for_bit(model, sync_every):
    """Order, neighbours, arrival and number of images: nothing of it is seen in the bits."""
    engine = Engine(model, middle(model), slots=4, sync_every=sync_every)
    together = {key: rest for key, *rest in rows_of(engine.run(enumerate(images())))}
    backwards = {key: rest for key, *rest in rows_of(engine.run(reversed(list(enumerate(images())))))}
    alone = {place: rows_of(engine.run([(place, image)]))[0][1:] for place, image in enumerate(images())}
    assert together == backwards
    assert together == {place: list(rest) for place, rest in alone.items()}


@pytest.mark.parametrize("neighbour", [math.nan, math.inf, 3e38, 0.0, 1e-45])
def test_a_strange_neighbour_changes_nothing(model, neighbour):
    engine = Engine(model, middle(model), slots=4)
    plain = {key: rest for key, *rest in rows_of(engine.run(enumerate(images(6))))}
    stream = []
    for place, image in enumerate(images(6)):
        stream += [(place, image), ("stranger", torch.full((1, 8, 8), neighbour))]
    mixed = [result for result in engine.run(stream) if result.key != "stranger"]
    assert {key: rest for key, *rest in rows_of(mixed)} == plain


def test_an_image_that_is_not_finite_fails_alone(model):
    bad = images()
    bad[3, 0, 2, 2] = math.nan
    for executor in EXECUTORS:
        prediction = Engine(model, middle(model), executor, 4).predict(bad)
        assert set(prediction.errors) == {3}
        assert "NaN" in prediction.errors[3]
        assert prediction.depth[3] == 0
        assert torch.isfinite(prediction.outputs[[0, 1, 2, 4]]).all()


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_state_that_diverges_fails_alone(executor):
    """A step that triples the state overflows for a large image only (F18)."""
    model = small_frost(FrostConfig(depth=200, scale_init=1.0), torch.nn.Conv2d(8, 8, 1)).eval()
    with torch.no_grad():
        model.transition.weight.copy_(2.0 * torch.eye(8)[:, :, None, None])
        model.transition.bias.zero_()
    stream = torch.cat([torch.zeros(2, 1, 8, 8), torch.full((1, 1, 8, 8), 1e30), torch.zeros(2, 1, 8, 8)])
    with torch.no_grad():
        model.stem.bias.zero_()
    prediction = Engine(model, AtDepth(200), executor, 3).predict(stream)
    assert set(prediction.errors) == {2}
    assert "diverged" in prediction.errors[2]
    assert prediction.depth.tolist() == [200, 200, 0, 200, 200]


def test_results_come_in_order_or_as_they_finish(model):
    rule = middle(model)
    for executor in EXECUTORS:
        engine = Engine(model, rule, executor, 4)
        arrived = [result.key for result in engine.run(images())]
        finished = [result.key for result in engine.run(images(), order="finish")]
        assert arrived == list(range(21))
        assert sorted(finished) == arrived
        assert executor != "refill" or finished != arrived


def test_a_stream_is_not_read_far_ahead(model):
    read = []

    def stream():
        for place in itertools.count():
            read.append(place)
            yield images(1, place)[0]

    running = Engine(model, middle(model), slots=4).run(stream())
    for _ in range(3):
        next(running)
    assert len(read) <= 3 + 5 * 4 + 4
    running.close()


def test_leaving_the_loop_closes_the_stream(model):
    closed = []

    def stream():
        try:
            while True:
                yield images(1)[0]
        finally:
            closed.append(True)

    for _ in Engine(model, middle(model), slots=2).run(stream()):
        break
    assert closed == [True]


@pytest.mark.parametrize("executor", EXECUTORS)
def test_if_the_stream_raises_what_was_read_is_answered_first(model, executor):
    def stream():
        yield from images(5)
        raise OSError("the disk is gone")

    answered = []
    running = Engine(model, middle(model), executor, 2).run(stream())
    with pytest.raises(OSError, match="the disk is gone"):
        answered.extend(iter(lambda: next(running).key, None))
    assert answered == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("executor", EXECUTORS)
def test_an_empty_stream_has_no_answers(model, executor):
    engine = Engine(model, middle(model), executor)
    assert list(engine.run([])) == []
    assert engine.predict(torch.empty(0, 1, 8, 8)).depth.tolist() == []


@pytest.mark.parametrize("executor", EXECUTORS)
def test_an_item_that_is_no_image_fails_alone(model, executor):
    whole_numbers = torch.zeros(1, 8, 8, dtype=torch.long)
    stream = [images(1)[0], "cat.png", torch.rand(1, 9, 9), ("key", images(1)[0]), whole_numbers]
    results = list(Engine(model, middle(model), executor, 2).run(stream))
    assert [result.error is None for result in results] == [True, False, False, True, False]
    assert results[3].key == "key"
    assert "8×8" in results[2].error
    assert "floating point" in results[4].error


@pytest.mark.parametrize("executor", EXECUTORS)
def test_every_image_may_have_a_limit_of_its_own(model, executor):
    limits = [1, 2, 3, 4, 5, 1, 5]
    stream = [Request(image, depth=limit) for image, limit in zip(images(7), limits, strict=True)]
    results = list(Engine(model, Rule("rank", (math.inf,)), executor, 3).run(stream))
    assert [result.depth for result in results] == limits
    whole = model(images(7)).outputs.detach()
    for result, limit in zip(results, limits, strict=True):
        torch.testing.assert_close(result.output, whole[result.key, limit - 1], rtol=1e-5, atol=1e-5)


class Clock:
    """Ten seconds a look."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 10.0
        return self.now


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_deadline_returns_the_answer_of_that_moment(model, executor):
    engine = Engine(model, Rule("rank", (math.inf,)), executor, 3, clock=Clock())
    results = list(engine.run([Request(image, seconds=25.0) for image in images(3)] + [Request(images(1)[0])]))
    whole = model(images(3)).outputs.detach()
    assert all(result.is_late and 1 <= result.depth < 5 for result in results[:3])
    for place, result in enumerate(results[:3]):
        torch.testing.assert_close(result.output, whole[place, result.depth - 1], rtol=1e-5, atol=1e-5)
    assert (results[3].depth, results[3].is_late) == (5, False)


def test_an_image_whose_time_is_up_while_it_waits_gets_its_first_step(model):
    session = Engine(model, Rule("rank", (math.inf,)), slots=1, clock=Clock()).open()
    for place, image in enumerate(images(3)):
        session.submit(image, place, seconds=None if place == 0 else 1.0)
    depths = {result.key: result.depth for result in session.drained()}
    assert depths == {0: 5, 1: 1, 2: 1}


def test_a_session_can_be_cancelled_image_by_image(model):
    session = Engine(model, Rule("rank", (math.inf,)), slots=2).open()
    items = [session.submit(image, place, depth=2 if place == 1 else None) for place, image in enumerate(images(6))]
    first = session.advance()                  # 1 has ended
    session.advance()                          # 2 runs in its slot, 3 is staged
    assert [result.key for result in first] == [1]
    for place, where in ((0, "running"), (3, "staged"), (5, "waiting")):
        assert items[place].place == where
        assert session.cancel(items[place])
        assert not session.cancel(items[place])
    results = list(session.drained())
    assert sorted(result.key for result in results) == [2, 4]
    alone = {place: result.output for place, result in enumerate(
        Engine(model, Rule("rank", (math.inf,)), slots=2).run(images(6)))}
    assert all(torch.equal(result.output, alone[result.key]) for result in results)
    assert len(session) == 0


def test_a_full_queue_is_refused(model):
    session = Engine(model, middle(model), slots=1, max_queue=2).open()
    session.submit(images(1)[0])
    session.submit(images(1)[0])
    with pytest.raises(QueueFull, match="no more"):
        session.submit(images(1)[0])
    session.advance()
    session.submit(images(1)[0])


def test_no_slot_idles_while_an_input_waits(model):
    session = Engine(model, middle(model), slots=4).open()
    for place, image in enumerate(images(40)):
        session.submit(image, place)
    while len(session):
        session._fill([])
        assert session.scheduler.occupied == 4 or not session.scheduler.waiting + session.scheduler.staged
        session.advance()


def test_the_work_that_is_done_is_counted(model):
    images_and_depths = list(zip(images(8), [1, 2, 3, 4, 5, 5, 5, 5], strict=True))
    requests = [Request(image, depth=depth) for image, depth in images_and_depths]
    engines = {executor: Engine(model, Rule("rank", (math.inf,)), executor, 8) for executor in EXECUTORS}
    for engine in engines.values():
        list(engine.run(requests))
    needed = 7 + 6 + 5 + 4
    assert {executor: engine.work for executor, engine in engines.items()} == {
        "masked": (8, 4 * 8, 8, needed), "refill": (8, 4 * 8, 8, needed), "compact": (8, needed, 8, needed)}


def test_a_ladder_of_shapes_gives_the_same_answers_for_less_work(model):
    rule = middle(model)
    engines = [Engine(model, rule, slots=8, ladder=ladder) for ladder in (False, True)]
    first, second = (engine.predict(images()) for engine in engines)
    assert first.depth.tolist() == second.depth.tolist()
    torch.testing.assert_close(first.outputs, second.outputs, rtol=1e-5, atol=1e-5)
    assert engines[1].work.stepped < engines[0].work.stepped


def test_an_uncached_first_step_gives_the_same_answers(model):
    rule = middle(model)
    cached, computed = (Engine(model, rule, slots=4, caches_first=on).predict(images()) for on in (True, False))
    assert cached.depth.tolist() == computed.depth.tolist()
    torch.testing.assert_close(cached.outputs, computed.outputs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_bf16_runs_and_stays_near(model, executor):
    ours = Engine(model, AtDepth(5), executor, 4, precision="bf16").predict(images(6))
    torch.testing.assert_close(ours.outputs, Engine(model, AtDepth(5)).predict(images(6)).outputs, rtol=0.1, atol=0.1)


@pytest.mark.slow
def test_a_compiled_step_gives_the_same_answers():
    model = build(MODELS["conv"], seed=0).eval()
    rule = middle(model)
    compiled = Engine(model, rule, slots=4, backend="compile").predict(images())
    plain = Engine(model, rule, slots=4).predict(images())
    assert compiled.depth.tolist() == plain.depth.tolist()
    torch.testing.assert_close(compiled.outputs, plain.outputs, rtol=1e-4, atol=1e-4)


def test_a_ladder_of_compiled_shapes_is_short_enough_to_be_compiled():
    model = build(MODELS["conv"], seed=0).eval()
    engine = Engine(model, middle(model), slots=4096, ladder=True, backend="compile")
    assert engine.shapes == tuple(2**power for power in range(13))
    assert len(engine.shapes) < torch._dynamo.config.recompile_limit    # beyond it, steps run uncompiled


def test_a_watch_sees_every_image_until_it_stops(model):
    with torch.no_grad():
        scores = model(images(21)).score_logits
    rule = Rule("rank", (float(scores.median()),))
    watch = Watch(Calibration.gather(scores, weights_hash=""), rule)
    depths = Engine(model, rule, slots=4, watch=watch).predict(images()).depth
    seen = {line.step: line.now for line in watch.drifts()}
    assert seen[1] == 21
    assert sum(sketch.count for sketch in watch._now) == depths.sum()
    assert not watch.has_drifted


def test_vanilla_is_refused_where_depths_mix():
    model = build(replace(MODELS["conv"], architecture="vanilla"), seed=0).eval()
    with pytest.raises(ValueError, match="weights of its own for each step"):
        Engine(model, AtDepth(2))
    rule = middle(model)
    expected = predict_slowly(model, rule, images())
    for executor in ("masked", "compact"):
        assert Engine(model, rule, executor, 4).predict(images()).depth.tolist() == expected.depth.tolist()


@pytest.mark.parametrize("architecture", ["recurrent", "basic-ssm"])
def test_other_stationary_models_refill_too(architecture):
    model = build(replace(MODELS["conv"], architecture=architecture), seed=0).eval()
    rule = middle(model)
    assert Engine(model, rule, slots=4).predict(images()).depth.tolist() == predict_slowly(
        model, rule, images()).depth.tolist()


def test_an_engine_puts_its_model_into_evaluation_mode_and_insists(model):
    engine = Engine(model.train(), AtDepth(2))
    assert not model.training
    model.train()
    with pytest.raises(ValueError, match=r"model\.eval"):
        engine.predict(images(2))


@pytest.mark.parametrize(("options", "sentence"), [
    ({"executor": "fast"}, "executor is one of"), ({"slots": 0}, "slots"), ({"sync_every": 0}, "sync_every"),
    ({"backend": "compile", "executor": "compact"}, "needs a known shape"), ({"backend": "tpu"}, "backend is one of"),
    ({"precision": "fp8"}, "precision is one of"),
    ({"signals": ["luck"]}, "there is no signal 'luck'")])
def test_bad_options_are_refused(model, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        Engine(model, AtDepth(2), **options)


def test_bad_requests_are_refused(model):
    engine = Engine(model, AtDepth(2), "compact")
    with pytest.raises(ValueError, match="has a queue"):
        engine.open()
    with pytest.raises(ValueError, match="order is one of"):
        list(engine.run([], order="random"))
    session = Engine(model, AtDepth(2)).open()
    for request, sentence in (({"depth": 9}, "between 1 and 5"), ({"seconds": -1.0}, "negative")):
        with pytest.raises(ValueError, match=sentence):
            session.submit(images(1)[0], **request)
    session.submit(images(1)[0])
    with pytest.raises(ValueError, match="images of 8×8"):
        session.submit(torch.rand(1, 9, 9))


@pytest.mark.parametrize("executor", EXECUTORS)
def test_images_of_another_precision_are_converted_one_by_one(model, executor):
    plain = Engine(model, middle(model), executor, 4).predict(images(6))
    mixed = [image.double() if place % 2 else image.numpy() for place, image in enumerate(images(6))]
    results = list(Engine(model, middle(model), executor, 4).run(mixed))
    assert [result.error for result in results] == [None] * 6
    assert torch.equal(torch.stack([result.output for result in results]), plain.outputs)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_stream_may_reuse_its_memory(model, executor):
    buffer = torch.empty(1, 8, 8)

    def stream():
        for image in images(9):
            yield buffer.copy_(image)

    expected = Engine(model, middle(model), executor, 4).predict(images(9))
    results = list(Engine(model, middle(model), executor, 4).run(stream()))
    assert torch.equal(torch.stack([result.output for result in results]), expected.outputs)


def test_a_small_room_does_not_lose_images_of_a_stream(model):
    assert not Engine(model, middle(model), slots=8, max_queue=2).predict(images()).errors


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_long_run_of_bad_images_does_not_hold_up_the_good_ones(model, executor):
    read = []

    def stream():
        yield images(1)[0]
        for place in range(500):
            read.append(place)
            yield "no image"

    first = next(Engine(model, AtDepth(1), executor, 2).run(stream()))
    assert first.error is None
    assert len(read) < 20


def test_an_error_in_the_model_leaves_the_queue_as_it_was(model):
    rule = middle(model)
    expected = Engine(model, rule, slots=2).predict(images(4))
    fails = [True]

    def out_of_memory(*_):
        if fails[0]:
            raise MemoryError

    model.stem.register_forward_pre_hook(out_of_memory)
    session = Engine(model, rule, slots=2).open()
    for place, image in enumerate(images(4)):
        session.submit(image, place)
    with pytest.raises(MemoryError):
        session.advance()
    fails[0] = False
    results = sorted(session.drained(), key=lambda result: result.key)
    torch.testing.assert_close(torch.stack([result.output for result in results]), expected.outputs, rtol=1e-5,
                               atol=1e-5)


@pytest.mark.parametrize("sync_every", [2, 9])
def test_vanilla_is_not_stepped_beyond_its_blocks(sync_every):
    model = build(replace(MODELS["conv"], architecture="vanilla"), seed=0).eval()
    ours = Engine(model, AtDepth(5), "compact", 4, sync_every=sync_every).predict(images(6))
    assert ours.depth.tolist() == [5] * 6


def test_free_rows_repeat_one_in_use(model):
    session = Engine(model, Rule("rank", (math.inf,)), slots=4).open()
    session.submit(images(1)[0])
    for _ in range(3):
        session.advance()
        session._fill([])
        hidden = session._live.state.hidden
        assert hidden[0].any()
        assert torch.equal(hidden[1:], hidden[:1].expand(3, *hidden.shape[1:]))


def test_a_watch_is_not_shown_what_has_stopped(model):
    with torch.no_grad():
        scores = model(images(21)).score_logits
    rule = Rule("rank", (float(scores.median()),))
    watch = Watch(Calibration.gather(scores, weights_hash=""), rule)
    depths = Engine(model, rule, slots=4, watch=watch, sync_every=3).predict(images()).depth
    assert sum(sketch.count for sketch in watch._now) <= depths.sum()
