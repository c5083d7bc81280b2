"""One test for each numbered equation of the paper that can be computed, against values worked out by hand or an
independent loop. Numbers are those of the source, in order, from 1. `make campaigns` flips signs and exponents in the
package and expects this file alone to notice every flip.
"""

import math

import pytest
import torch
from torch import nn

from conftest import small_frost
from frost.core.block import branch
from frost.core.model import Frost, FrostConfig
from frost.core.scaling import (
    Scale,
    scaled_feedthrough,
    scaled_input,
    scaled_input_process,
    scaled_linear_input,
    scaled_readout,
    scaled_state_process,
    scaled_transition,
)
from frost.core.trajectory import State, Trajectory
from frost.core.update_rules import (
    Contractive,
    Gated,
    Residual,
    Theorem,
    descend,
    euler_step,
    interpolate,
    refine,
    refine_as_printed,
)
from frost.data.augment import Mixed
from frost.halting.calibration import Calibration
from frost.halting.ranking import HaltingConfig, batch_time_ranks, difficulty, easy_and_hard
from frost.halting.score import LinearScore, OutputScore, class_features, score_of, threshold_of
from frost.halting.stopping import Rule, first_passage
from frost.paper.measurements import contraction_and_jacobian as stability
from frost.paper.measurements.dimension_and_exponent import increments_exponent
from frost.paper.sections.appendix_d_collapse import gradient_conflict
from frost.training import refit
from frost.training.losses import (
    anchoring_loss,
    objective,
    pondering_loss,
    relative_loss,
    step_losses,
    step_weights,
    task_loss,
)
from frost.training.optim import learning_rate_at
from frost.zoo.baselines import BasicSSM, Recurrent, Vanilla
from frost.zoo.fold import fold

assert_close = torch.testing.assert_close
SCALE, HURST = 0.25, 0.5      # λ = 1/4 and H = 1/2: every power of λ is a power of 2


def scale_at(value: float = SCALE, hurst: float = HURST) -> Scale:
    return Scale(value, hurst).double()


def linear(*rows: list[float]) -> nn.Linear:
    """A linear map with these rows, in double precision."""
    map_ = nn.Linear(len(rows[0]), len(rows), bias=False).double()
    map_.weight.data = torch.tensor(rows, dtype=torch.float64)
    return map_


def vector(*values: float) -> torch.Tensor:
    return torch.tensor([values], dtype=torch.float64)


def two_channel_frost(rule: str = "residual", depth: int = 3) -> Frost:
    """A FROST on vectors of two channels whose operators are known: stem = id, A = tanh, no normalisation."""
    model = Frost(nn.Identity(), nn.Tanh(), channels=2, classes=2,
                  config=FrostConfig(depth=depth, hurst=HURST, scale_init=SCALE, update=rule)).double()
    model.norm = nn.Identity()
    model.input_map.weight.data = torch.tensor([[1.0, 2.0], [3.0, 4.0]]).double()
    model.head.readout.weight.data = torch.tensor([[1.0, -1.0], [0.5, 2.0]]).double()
    model.head.readout.bias.data = torch.tensor([0.25, -0.5]).double()
    model.head.feedthrough.weight.data = torch.tensor([[2.0, 0.0], [1.0, 1.0]]).double()
    return model.eval()


# --- §2: state-space models ------------------------------------------------------------------------------------------

def test_eq01_the_vector_field_is_transition_plus_input():
    hidden, x = vector(1.0, 2.0), vector(0.5, -1.0)
    length = 2.0**-20
    field = (euler_step(hidden, x, linear([2, 0], [0, 3]), linear([1, 1], [0, 4]), length) - hidden) / length
    assert_close(field, vector(2 * 1.0 + 0.5 - 1.0, 3 * 2.0 - 4.0), rtol=0, atol=1e-8)


def test_eq02_the_output_is_readout_plus_feedthrough():
    hidden, x = vector(1.0, 2.0), vector(3.0, 5.0)
    model = BasicSSM(nn.Identity(), nn.Tanh(), channels=2, classes=2, depth=1).double()
    model.norm = nn.Identity()
    model.head.readout.weight.data = torch.tensor([[1.0, -1.0], [0.5, 2.0]]).double()
    model.head.readout.bias.data = torch.zeros(2).double()
    model.head.feedthrough.weight.data = torch.tensor([[2.0, 0.0], [1.0, 1.0]]).double()
    output, _ = model.read(State(hidden, None, model.head.feedthrough(x), 1))
    assert_close(output, vector(1 - 2 + 2 * 3, 0.5 + 4 + 3 + 5))


def test_eq03_the_field_is_frozen_on_each_interval():
    hidden, x = vector(1.0, -2.0), vector(0.5, 0.25)
    transition, input_map = nn.Tanh(), linear([1, 0], [0, 2])
    frozen = torch.tanh(hidden) + input_map(x)
    for length in (0.1, 0.5, 0.9):
        assert_close(euler_step(hidden, x, transition, input_map, length), hidden + length * frozen)


def test_eq04_exact_discretisation_equals_many_small_steps_of_the_frozen_field():
    hidden, x = vector(1.0, -2.0), vector(0.5, 0.25)
    transition, input_map = nn.Tanh(), linear([1, 0], [0, 2])
    tau = hidden.clone()
    for _ in range(10_000):
        tau = tau + (torch.tanh(hidden) + input_map(x)) / 10_000
    assert_close(euler_step(hidden, x, transition, input_map), tau)


def test_eq04_basic_ssm_takes_the_exact_step():
    model = BasicSSM(nn.Identity(), nn.Tanh(), channels=2, classes=2, depth=1).double()
    x, hidden = vector(3.0, 5.0), vector(0.3, -0.2)
    state = model.begin(x)
    assert_close(state.hidden, torch.zeros(1, 2).double())
    moved = model.step(state._replace(hidden=hidden, step=None)).hidden    # not h_0, of which A is known
    assert_close(moved, euler_step(hidden, x, nn.Tanh(), model.input_map))
    assert_close(moved, hidden + torch.tanh(hidden) + x @ model.input_map.weight.t())


def test_eq04_blocks_of_the_baselines_add_their_input():
    block = linear([2, 0], [0, 3])
    recurrent = Recurrent(nn.Identity(), block, channels=2, classes=2, depth=2).double()
    vanilla = Vanilla(nn.Identity(), lambda: block, channels=2, classes=2, depth=2).double()
    for model in (recurrent, vanilla):
        state = model.step(model.begin(vector(1.0, 1.0)))
        assert_close(state.hidden, vector(3.0, 4.0))
        assert_close(model.step(state).hidden, vector(9.0, 16.0))
        assert model.step(state).step == 2


# --- §3: FROST -------------------------------------------------------------------------------------------------------

def test_eq05_the_exponent_of_increments_by_hand():
    time = torch.arange(1, 10).double()
    lines = torch.stack([3 * time, -4 * time], dim=1)[None]                   # ‖h_t − h_s‖ = 5 |t − s|
    assert_close(increments_exponent(lines), torch.ones(1).double())
    path = torch.tensor([0.0, 1.0, 3.0, 2.0, 5.0]).double()[None, :, None]    # T = 5: lags 1 and 2
    lengths = [(1 + 2 + 1 + 3) / 4, (3 + 1 + 2) / 3]
    assert_close(increments_exponent(path), torch.tensor([math.log(lengths[1] / lengths[0]) / math.log(2)]).double())
    path = torch.tensor([0.0, 1.0, 0.0, 4.0, 4.0, 9.0]).double()[None, :, None]    # T = 6: lags 1, 2 and 3
    logs = [math.log(sum(abs(path[0, t + lag, 0] - path[0, t, 0]) for t in range(6 - lag)) / (6 - lag))
            for lag in (1, 2, 3)]
    at = [math.log(lag) - math.log(6) / 3 for lag in (1, 2, 3)]
    assert_close(increments_exponent(path), torch.tensor([sum(a * b for a, b in zip(at, logs, strict=True))
                                                          / sum(a * a for a in at)]).double())
    with pytest.raises(ValueError, match="at least 4 steps"):
        increments_exponent(path[:, :3])


def test_eq06_the_field_of_the_base_system_drives_the_interpolation():
    hidden, x = vector(1.0, -2.0), vector(0.5, 0.25)
    transition, input_map = nn.Tanh(), linear([1, 0], [0, 2])
    field = torch.tanh(hidden) + input_map(x)
    assert_close(interpolate(hidden, field, scale_at()), euler_step(hidden, x, transition, input_map, SCALE))


def test_eq07_a_transition_that_is_a_negative_gradient_descends():
    hidden = vector(3.0, -4.0)                     # E(h) = ‖h‖² / 2, ∇E = h
    moved = refine(hidden, -hidden, torch.zeros_like(hidden), scale_at())
    assert_close(moved, vector(2.25, -3.0))
    assert_close(descend(hidden, hidden, scale_at()), moved)
    assert moved.norm() < hidden.norm()


def test_eq08_interpolation_by_hand():
    assert_close(interpolate(vector(8.0, 4.0), vector(2.0, -6.0), scale_at()), vector(8.5, 2.5))


def test_eq08_is_the_residual_rule_at_hurst_zero():
    hidden, x, scale = vector(1.0, -2.0), vector(0.5, 0.25), scale_at(hurst=0.0)
    input_map, change = linear([1, 0], [0, 2]), torch.tanh(hidden)
    drive = Residual().drive(input_map, x, scale)
    assert_close(Residual()(hidden, change, drive, scale), interpolate(hidden, change + input_map(x), scale))


def test_eq09_the_input_process_is_slowed_and_enlarged():
    scaled = scaled_input_process(lambda time: 3 * time, scale_at())
    assert_close(scaled(torch.tensor(8.0).double()), torch.tensor(2.0 * 6.0).double())    # λ^{−H} = 2, x(8/4) = 6


def test_eq10_the_state_process_is_slowed():
    scaled = scaled_state_process(lambda time: time**2, scale_at())
    assert_close(scaled(torch.tensor(8.0).double()), torch.tensor(4.0).double())


def linear_system() -> tuple:
    """h(t) = e^{−t} + t solves ḣ = −h + x with x(t) = t + 1: A = −id, B = id."""
    return (lambda t: torch.exp(-t) + t), (lambda t: t + 1)


def test_eq11_the_scaled_state_moves_by_the_scaled_field():
    hidden, x = linear_system()
    time = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    (velocity,) = torch.autograd.grad(scaled_state_process(hidden, scale_at())(time), time)
    later = SCALE * time.detach()
    assert_close(velocity, SCALE * (-hidden(later) + x(later)))


def test_eq12_the_scaled_system_has_the_form_of_the_base_system():
    hidden, x = linear_system()
    scale = scale_at()
    time = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    state = scaled_state_process(hidden, scale)(time)
    (velocity,) = torch.autograd.grad(state, time, retain_graph=True)
    pushed = scaled_input_process(x, scale)(time)
    assert_close(velocity, (scaled_transition(lambda h: -h, state, scale) + scaled_input(lambda u: u, pushed, scale)))


def test_eq13_scaled_transition_by_hand():
    assert_close(scaled_transition(linear([2, 0], [0, -4]), vector(1.0, 3.0), scale_at()), vector(0.5, -3.0))


def test_eq13_scaled_input_by_hand():
    assert_close(scaled_input(torch.square, vector(4.0, 6.0), scale_at()), vector(1.0, 2.25))   # ¼ · (½ x)²


def test_eq13_short_form_for_a_linear_input_map():
    input_map, x = linear([1, 2], [3, 4]), vector(8.0, 16.0)
    assert_close(scaled_linear_input(input_map, x, scale_at()), input_map(x) / 8)               # λ^{1+H} = 1/8
    assert_close(scaled_linear_input(input_map, x, scale_at()), scaled_input(input_map, x, scale_at()))


@pytest.mark.parametrize(("form", "value"), [("exp", 1.75), ("exp", 0.3), ("sigmoid", 0.3)])
def test_eq13_powers_of_the_scale(form, value):
    scale = Scale(value, HURST, form=form).double()
    for exponent in (1, 1 + HURST, -HURST, 0):
        assert scale.power(exponent).item() == pytest.approx(value**exponent, rel=1e-6)
    assert scale.value.item() == pytest.approx(value, rel=1e-6)


def test_eq14_eq15_every_term_as_printed_by_hand():
    hidden, change, drive = vector(8.0, 4.0), vector(2.0, -4.0), vector(1.0, 0.5)
    # ¾·8 + (¼·8 + ¼·2 + 1) and ¾·4 + (¼·4 − ¼·4 + ½)
    assert_close(refine_as_printed(hidden, change, drive, scale_at()), vector(9.5, 3.5))


def test_eq14_eq15_the_short_form_equals_the_printed_one():
    hidden, change, drive = torch.randn(3, 4, 5).double(), torch.randn(3, 4, 5).double(), torch.randn(3, 4, 5).double()
    assert_close(refine(hidden, change, drive, scale_at()), refine_as_printed(hidden, change, drive, scale_at()))


def test_eq14_the_gate_interpolates():
    hidden, change, drive = vector(8.0, 4.0), vector(2.0, -4.0), vector(1.0, 0.5)
    rule = Gated(2).double()
    rule.gate.weight.data.zero_()
    rule.gate.bias.data.fill_(math.log(3))          # σ = 3/4
    expected = vector(0.25 * 8 + 0.75 * 1.5, 0.25 * 4 - 0.75 * 0.5)
    assert_close(rule(hidden, change, drive, scale_at()), expected)


def test_eq14_the_contractive_rule_is_the_printed_update_with_a_pull():
    hidden, target, drive = vector(8.0, 4.0), vector(2.0, -4.0), vector(1.0, 0.5)
    moved = Contractive()(hidden, target, drive, scale_at())
    assert_close(moved, refine_as_printed(hidden, target - hidden, drive, scale_at()))
    assert_close(moved, 0.75 * hidden + 0.25 * target + drive)


def test_eq14_the_contractive_rule_states_its_constant():
    assert Contractive().lipschitz(0.5, scale_at()) == pytest.approx(0.75 + 0.125)
    assert Contractive().lipschitz(0.5, scale_at(1.5)) == pytest.approx(0.5 + 0.75)


def test_eq14_a_branch_is_the_block_without_its_input():
    hidden = vector(8.0, 4.0)
    assert_close(branch(linear([3, 0], [0, 5]))(hidden), vector(16.0, 16.0))


def test_eq14_steps_are_counted():
    model = two_channel_frost()
    state = model.step(model.step(model.begin(vector(3.0, -5.0))))
    assert state.step == 2


def test_lemma33_a_scaled_step_on_scaled_input_is_an_euler_step_of_the_base_system():
    model = two_channel_frost()
    x, hidden = vector(3.0, -5.0), vector(0.3, -0.2)
    state = model.begin(SCALE**-HURST * x)
    assert_close(state.hidden, torch.zeros(1, 2).double())
    moved = model.step(state._replace(hidden=hidden, step=1)).hidden
    assert_close(moved, euler_step(hidden, x, nn.Tanh(), model.input_map, SCALE), rtol=1e-6, atol=1e-6)


def test_eq16_the_scaled_output_satisfies_the_output_equation():
    model = two_channel_frost()
    x, hidden = vector(3.0, -5.0), vector(0.3, -0.2)
    state = model.begin(x)
    output, _ = model.read(state._replace(hidden=hidden))
    assert_close(SCALE**HURST * output, model.head.readout(hidden) + model.head.feedthrough(SCALE**HURST * x))


def test_eq17_scaled_readout_by_hand():
    assert_close(scaled_readout(linear([1, 2]), vector(3.0, 5.0), scale_at()), torch.tensor([[26.0]]).double())


def test_eq17_scaled_feedthrough_by_hand():
    assert_close(scaled_feedthrough(torch.square, vector(4.0, 6.0), scale_at()), vector(8.0, 18.0))   # 2 · (½ x)²


def test_eq17_a_linear_feedthrough_does_not_change():
    feedthrough, x = linear([1, 2], [3, 4]), vector(3.0, 5.0)
    assert_close(scaled_feedthrough(feedthrough, x, scale_at()), feedthrough(x))


@pytest.mark.parametrize("hurst", [0.0, 0.8])
def test_eq17_a_folded_model_gives_the_same_outputs(hurst, images):
    model = small_frost(FrostConfig(depth=6, hurst=hurst, scale_init=0.4)).eval()
    with torch.no_grad():
        ours, folded = model(images), fold(model)(images)
    assert_close(folded.outputs, ours.outputs, rtol=1e-5, atol=1e-5)
    assert_close(folded.score_logits, ours.score_logits, rtol=1e-5, atol=1e-5)


def test_eq17_a_transition_that_ends_in_no_linear_map_folds_too(images):
    model = small_frost(FrostConfig(depth=4, scale_init=0.4), transition=nn.Tanh()).eval()
    with torch.no_grad():
        assert_close(fold(model)(images).outputs, model(images).outputs, rtol=1e-5, atol=1e-5)


# --- §4: halting -----------------------------------------------------------------------------------------------------

LOSSES = torch.tensor([[0.9, 0.2, 0.1], [3.0, 2.5, 0.4]])


def test_eq18_ranks_by_hand():
    assert batch_time_ranks(LOSSES).tolist() == [[4, 2, 1], [6, 5, 3]]


def test_eq18_ranks_ignore_monotone_rescaling_of_losses():
    losses = torch.rand(6, 4)
    assert torch.equal(batch_time_ranks(losses), batch_time_ranks(3 * losses.exp() + 1))


def test_eq18_equal_losses_still_get_distinct_ranks():
    assert batch_time_ranks(torch.zeros(2, 3)).tolist() == [[1, 2, 3], [4, 5, 6]]


def test_eq18_the_gain_that_is_left_leaves_out_the_last_step():
    assert_close(difficulty(LOSSES, "gain"), torch.tensor([[0.8, 0.1], [2.6, 2.1]]))


def test_eq18_easy_and_hard_sets_by_hand():
    easy, hard = easy_and_hard(LOSSES, HaltingConfig(fraction=1 / 3))
    assert easy.tolist() == [[False, True, True], [False, False, False]]
    assert hard.tolist() == [[False, False, False], [True, True, False]]
    easy, hard = easy_and_hard(LOSSES, HaltingConfig(rank_by="gain"))
    assert easy.tolist() == [[False, True, False], [False, False, False]]
    assert hard.tolist() == [[False, False, False], [True, False, False]]


def test_eq18_wins_are_counted_in_right_answers():
    correct = torch.tensor([[False, True, True], [True, False, False], [False, False, True]])
    losses = torch.rand(3, 3)
    assert difficulty(losses, "wins", correct).tolist() == [[1, 0], [-1, 0], [1, 1]]
    easy, hard = easy_and_hard(losses, HaltingConfig(rank_by="wins"), correct)
    assert hard.tolist() == [[True, False, False], [False, False, False], [True, True, False]]
    assert easy.tolist() == [[False, True, False], [True, True, False], [False, False, False]]


def test_eq19_the_score_is_the_sigmoid_of_a_linear_map():
    score = LinearScore(2)
    score.linear.weight.data = torch.tensor([[1.0, -2.0]])
    score.linear.bias.data = torch.tensor([0.5])
    logit = score(torch.tensor([[3.0, 1.0]]))
    assert_close(logit, torch.tensor([1.5]))
    assert_close(score_of(logit), torch.tensor([1 / (1 + math.exp(-1.5))]))


def test_eq19_a_score_may_see_how_decided_the_output_is():
    score = OutputScore(2)
    score.linear.weight.data = torch.tensor([[1.0, -2.0]])
    score.linear.bias.data = torch.tensor([0.5])
    state, output = torch.tensor([[3.0, 1.0]]), torch.log(torch.tensor([[0.75, 0.25]]))
    seen = class_features(output)
    assert_close(score(state, seen), torch.tensor([1.5]))                       # it starts as the paper's
    score.decided.weight.data = torch.tensor([[1.0, 10.0, 100.0]])
    minus_entropy = 0.75 * math.log(0.75) + 0.25 * math.log(0.25)
    assert_close(score(state, seen), torch.tensor([1.5 + 0.5 + 10 * math.log(0.75) + 100 * minus_entropy]))


@pytest.mark.parametrize("logit", [-3.0, 0.0, 2.0])
def test_eq19_a_threshold_is_shown_as_a_score(logit):
    assert threshold_of(logit) == pytest.approx(1 / (1 + math.exp(-logit)))
    assert (threshold_of(-math.inf), threshold_of(math.inf), threshold_of(-800.0)) == (0.0, 1.0, 0.0)


@pytest.mark.parametrize("quantile", [0.125, 0.5, 0.9])
def test_eq20_the_share_of_scores_at_or_below_the_threshold_is_the_quantile(quantile):
    logits = torch.randn(100, 8)
    rule = Calibration.gather(logits, weights_hash="").at_quantile(quantile)
    assert (logits <= rule.thresholds[0]).double().mean().item() == pytest.approx(quantile, abs=1 / 800)
    assert torch.equal(rule.stops(logits), logits > rule.thresholds[0])


def test_eq20_the_ends_of_the_range_are_the_first_and_the_last_step():
    logits = torch.randn(20, 8)
    ours = Calibration.gather(logits, weights_hash="")
    assert first_passage(ours.at_quantile(0.0).stops(logits)).tolist() == [1] * 20
    assert first_passage(ours.at_quantile(1.0).stops(logits)).tolist() == [8] * 20


def test_eq20_the_first_score_above_the_threshold_stops_an_image():
    stops = torch.tensor([[False, True, False, True], [False, False, False, False], [True, True, True, True]])
    assert first_passage(stops).tolist() == [2, 4, 1]


def test_eq20_a_threshold_for_each_step():
    rule = Rule("rank", (1.0, 2.0))
    values = torch.tensor([[1.5, 1.5, 1.5], [0.5, 2.5, 0.5], [1.0, 2.0, 2.5]])
    assert rule.stops(values).tolist() == [[True, False, False], [False, True, False], [False, False, True]]
    assert rule.stops(values[:, 1], torch.tensor([1, 2, 3])).tolist() == [True, True, False]
    assert rule.threshold is None                                              # it has several
    assert Rule("rank", (0.0,)).threshold == pytest.approx(0.5)
    assert Rule("rank", (math.inf,)).threshold is None


# --- §5: the objective -----------------------------------------------------------------------------------------------

def random_scores(images: int = 7, steps: int = 5):
    logits, losses = torch.randn(images, steps).double(), torch.rand(images, steps)
    return logits, *easy_and_hard(losses, HaltingConfig())


def test_eq21_the_task_loss_is_the_mean_of_the_last_step():
    assert_close(task_loss(LOSSES), torch.tensor(0.25))


def test_eq21_the_last_step_has_all_the_weight():
    assert step_weights(4, "last").tolist() == [0.0, 0.0, 0.0, 1.0]


def test_eq21_step_losses_are_cross_entropies():
    outputs, labels = torch.randn(4, 3, 5), torch.tensor([0, 4, 2, 1])
    for i in range(4):
        for t in range(3):
            expected = outputs[i, t].exp().sum().log() - outputs[i, t, labels[i]]
            assert_close(step_losses(outputs, labels)[i, t], expected)


def test_eq22_relative_loss_equals_a_double_loop():
    logits, easy, hard = random_scores()
    scores, total = torch.sigmoid(logits), 0.0
    for t in range(5):
        members = [(i, j) for i in range(7) for j in range(7) if easy[i, t] and hard[j, t]]
        if members:
            total += sum(max(0.0, (scores[j, t] - scores[i, t]).item() + 0.2) for i, j in members) / len(members)
    assert relative_loss(logits, easy, hard, 0.2, reduce="sum").item() == pytest.approx(total)
    assert relative_loss(logits, easy, hard, 0.2).item() == pytest.approx(total / 5)


def test_eq22_relative_loss_by_hand():
    logits = torch.tensor([[0.0], [math.log(4)]]).double()           # s = 1/2 and 4/5
    easy, hard = torch.tensor([[True], [False]]), torch.tensor([[False], [True]])
    assert relative_loss(logits, easy, hard, 0.2).item() == pytest.approx(0.8 - 0.5 + 0.2)


def test_eq23_anchoring_loss_equals_a_loop():
    logits, easy, hard = random_scores()
    scores, total = torch.sigmoid(logits), 0.0
    for t in range(5):
        if easy[:, t].any():
            total -= scores[easy[:, t], t].log().mean().item()
        if hard[:, t].any():
            total -= (1 - scores[hard[:, t], t]).log().mean().item()
    assert anchoring_loss(logits, easy, hard, reduce="sum").item() == pytest.approx(total)
    assert anchoring_loss(logits, easy, hard).item() == pytest.approx(total / 5)


def test_eq23_anchoring_loss_is_finite_at_extreme_logits():
    logits = torch.tensor([[100.0, -100.0], [-100.0, 100.0]], requires_grad=True)
    everything = torch.ones(2, 2, dtype=torch.bool)
    loss = anchoring_loss(logits, everything, everything)
    loss.backward()
    assert loss.item() == pytest.approx(100.0)
    assert torch.isfinite(logits.grad).all()


def test_eq24_the_total_is_the_weighted_sum():
    trajectory = Trajectory(None, torch.randn(6, 4, 3), torch.randn(6, 4))
    labels = torch.tensor([0, 1, 2, 0, 1, 2])
    config = HaltingConfig(relative_weight=0.7, anchoring_weight=0.3)
    parts = objective(trajectory, labels, config)
    assert_close(parts.total, parts.task + 0.7 * parts.relative + 0.3 * parts.anchoring)
    losses = step_losses(trajectory.outputs, labels)
    assert_close(parts.task, losses[:, -1].mean())
    assert_close(parts.relative, relative_loss(trajectory.score_logits, parts.easy, parts.hard, config.margin))
    assert_close(parts.anchoring, anchoring_loss(trajectory.score_logits, parts.easy, parts.hard))
    every = objective(trajectory, labels, config, supervision="all")
    weights = torch.tensor([0.1, 0.2, 0.3, 0.4])
    assert_close(every.total - every.task, parts.total - parts.task)
    assert_close(every.task, (weights * losses.mean(dim=0)).sum())


def test_eq24_a_mixed_image_is_held_against_both_of_its_labels():
    trajectory = Trajectory(None, torch.randn(4, 3, 5), torch.randn(4, 3))
    labels, partners = torch.tensor([0, 1, 2, 3]), torch.tensor([4, 3, 2, 1])
    parts = objective(trajectory, labels, HaltingConfig(), mixed=Mixed(partners, 0.3))
    losses = (0.3 * step_losses(trajectory.outputs, labels) + 0.7 * step_losses(trajectory.outputs, partners))
    assert_close(parts.total, losses[:, -1].mean())


def test_eq24_what_takes_its_place_where_others_teach_the_score():
    trajectory, labels = Trajectory(None, torch.randn(4, 3, 5), torch.randn(4, 3)), torch.tensor([0, 1, 2, 3])
    config = HaltingConfig(objective="ponder", ponder_weight=0.25)
    parts = objective(trajectory, labels, config)
    losses = step_losses(trajectory.outputs, labels)
    task, price = pondering_loss("ponder", losses, trajectory.score_logits)
    assert_close(parts.total, task + 0.25 * price)


def test_eq22_eq23_a_score_is_taught_once_more_by_their_weighted_sum(monkeypatch):
    monkeypatch.setattr(refit, "BATCH", 4)
    monkeypatch.setattr(refit, "EPOCHS", 2)
    seen = refit.Examples(torch.randn(7, 3, 2), None, torch.rand(7, 3), torch.rand(7, 3).round())
    config = HaltingConfig(rank_by="gain", relative_weight=0.5, anchoring_weight=0.2)
    ours, theirs = LinearScore(2), LinearScore(2)
    theirs.load_state_dict(ours.state_dict())
    refit.fit_score(ours, seen, config, seed=3)
    optimizer = torch.optim.AdamW(theirs.parameters(), lr=refit.RATE)
    generator = torch.Generator().manual_seed(3)
    for epoch in range(2):
        order = torch.randperm(7, generator=generator)
        for batch, rows in enumerate((order[:4], order[4:])):
            optimizer.param_groups[0]["lr"] = learning_rate_at(2 * epoch + batch + 1, 4, 0, refit.RATE)    # of 4 steps
            logits = theirs(seen.features[rows])
            easy, hard = easy_and_hard(seen.losses[rows], config)
            optimizer.zero_grad()
            loss = 0.5 * relative_loss(logits, easy, hard, config.margin) + 0.2 * anchoring_loss(logits, easy, hard)
            loss.backward()
            optimizer.step()
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        assert_close(mine, other)


def test_eq14_eq15_hold_where_one_drive_serves_a_batch():
    hidden, change, drive = torch.randn(3, 2).double(), torch.randn(3, 2).double(), vector(0.5, -1.0)
    assert_close(refine(hidden, change, drive, scale_at()), hidden + SCALE * change + torch.cat([drive] * 3))


def test_eq25_the_bias_of_a_map_is_that_of_its_channels():
    rule = Theorem(2, "maps").double()
    rule.bias.data = torch.tensor([0.5, -2.0]).double()
    hidden, change, drive = (torch.randn(1, 2, 3, 4).double() for _ in range(3))
    expected = torch.stack([torch.relu(SCALE * change[0, c] + drive[0, c] + bias) for c, bias in ((0, 0.5), (1, -2.0))])
    assert_close(rule(hidden, change, drive, scale_at()), expected[None])


# --- App. B: contraction ---------------------------------------------------------------------------------------------

def theorem_map(scale: Scale) -> tuple:
    """Φ(h) = ReLU(λÂh + Bx + b) with an orthogonal Â, on vectors of three channels."""
    rotation = torch.linalg.qr(torch.randn(3, 3).double()).Q
    rule = Theorem(3).double()
    rule.bias.data = torch.tensor([0.1, -0.2, 0.3]).double()
    drive = rule.drive(linear([1, 0, 0], [0, 2, 0], [0, 0, 3]), vector(1.0, 1.0, 1.0), scale)
    return (lambda h: rule(h, h @ rotation.t(), drive.expand_as(h), scale)), rotation, drive, rule


def test_eq25_the_map_of_the_theorem_by_hand():
    rule = Theorem(2).double()
    rule.bias.data = torch.tensor([0.5, -8.0]).double()
    drive = rule.drive(linear([1, 0], [0, 2]), vector(1.0, 1.0), scale_at())
    assert_close(drive, vector(1.0, 2.0))
    assert_close(rule(torch.zeros(1, 2).double(), vector(4.0, 8.0), drive, scale_at()), vector(2.5, 0.0))


def test_eq26_to_eq29_no_pair_is_pulled_apart_by_more_than_the_constant():
    scale = scale_at(0.6)
    step, rotation, _, rule = theorem_map(scale)
    first, second = torch.randn(500, 3).double(), torch.randn(500, 3).double()
    constant = rule.lipschitz(1.0, scale)
    assert constant == pytest.approx(0.6)
    assert rule.lipschitz(0.5, scale) == pytest.approx(0.3)
    moved = (step(first) - step(second)).norm(dim=1)
    linearised = (0.6 * (first - second) @ rotation.t()).norm(dim=1)
    assert (moved <= linearised + 1e-12).all()                                                   # (26)–(28)
    assert_close(linearised, constant * (first - second).norm(dim=1), rtol=1e-6, atol=0)         # (29), Â orthogonal
    assert_close(stability.expansion(step, first, second), moved / (first - second).norm(dim=1))


def contraction(constant: float = 0.5) -> tuple:
    """Φ(h) = L h + 1 on one channel: h_t = h* (1 − L^t), h* = 1 / (1 − L)."""
    return (lambda h: constant * h + 1), torch.tensor([[1 / (1 - constant)]]).double()


def test_eq30_the_error_bound_is_met_with_equality_by_a_linear_map():
    step, limit = contraction()
    hidden = torch.zeros(1, 1).double()
    for t in range(8):
        assert (hidden - limit).norm().item() == pytest.approx(stability.error_bound(0.5, 1.0, t))
        hidden = step(hidden)


def test_eq31_to_eq33_the_distance_between_two_steps_is_a_finite_geometric_sum():
    step, _ = contraction()
    states = [torch.zeros(1, 1).double()]
    for _ in range(8):
        states.append(step(states[-1]))
    for t in range(8):
        for m in range(t, 9):
            moved = sum((states[k + 1] - states[k]).norm().item() for k in range(t, m))
            assert moved == pytest.approx(sum(0.5**k for k in range(t, m)))
            assert stability.moves_bound(0.5, 1.0, t, m) == pytest.approx(moved)


def test_eq34_the_finite_sum_grows_to_the_error_bound():
    assert stability.moves_bound(0.8, 3.0, 2, 500) == pytest.approx(stability.error_bound(0.8, 3.0, 2))
    assert stability.moves_bound(0.8, 3.0, 2, 6) < stability.error_bound(0.8, 3.0, 2)


def test_eq35_the_bound_decays_by_the_constant_each_step():
    for t in range(5):
        ratio = stability.error_bound(0.7, 2.0, t + 1) / stability.error_bound(0.7, 2.0, t)
        assert ratio == pytest.approx(0.7)


def test_eq35_remaining_travel_is_met_with_equality_by_a_linear_map():
    step, _ = contraction()
    states = [torch.zeros(1, 1).double()]
    for _ in range(8):
        states.append(step(states[-1]))
    for t in range(1, 9):
        travel = (states[8] - states[t]).norm().item()
        last_move = (states[t] - states[t - 1]).norm().item()
        assert stability.remaining_travel(0.5, last_move, 8 - t) == pytest.approx(travel)


def test_eq36_the_jacobian_of_many_steps_is_the_product_of_jacobians():
    scale = scale_at(0.6)
    step, rotation, drive, rule = theorem_map(scale)
    hidden = torch.rand(1, 3).double()

    def three(h):
        return step(step(step(h)))

    whole = torch.autograd.functional.jacobian(three, hidden).reshape(3, 3)
    product = torch.eye(3).double()
    for _ in range(3):
        before = 0.6 * hidden @ rotation.t() + drive + rule.bias
        product = torch.diag((before[0] > 0).double()) @ (0.6 * rotation) @ product
        hidden = step(hidden)
    assert_close(whole, product, rtol=1e-6, atol=1e-9)


def test_eq37_to_eq39_the_jacobian_norm_is_found_and_bounded():
    matrix = torch.tensor([[3.0, 1.0], [0.0, 2.0]]).double()
    exact = torch.linalg.matrix_norm(matrix, 2).item()
    assert stability.jacobian_norm(lambda h: h @ matrix.t(), torch.rand(1, 2).double()) == pytest.approx(exact)
    step, *_ = theorem_map(scale_at(0.6))
    hidden = torch.rand(1, 3).double()
    for steps in (1, 2, 4):
        def many(h, steps=steps):
            for _ in range(steps):
                h = step(h)
            return h
        assert stability.jacobian_norm(many, hidden) <= 0.6**steps + 1e-6


# --- App. D: gradient conflict ---------------------------------------------------------------------------------------

def test_eq40_gradient_conflict_is_a_cosine():
    right, up = [torch.tensor([2.0]), torch.tensor([[0.0]])], [torch.tensor([0.0]), torch.tensor([[5.0]])]
    assert gradient_conflict(right, right) == pytest.approx(1.0)
    assert gradient_conflict(right, up) == pytest.approx(0.0)
    assert gradient_conflict(right, [-part for part in right]) == pytest.approx(-1.0)
    both = [torch.tensor([3.0]), torch.tensor([[4.0]])]
    assert gradient_conflict(both, right) == pytest.approx(0.6)


def test_eq41_states_of_a_contraction_approach_the_fixed_point():
    step, limit = contraction()
    hidden, states = torch.zeros(1, 1).double(), []
    for _ in range(30):
        hidden = step(hidden)
        states.append(hidden)
    found = stability.fixed_point(step, torch.zeros(1, 1).double())
    assert_close(found, limit)
    errors = stability.distances(torch.stack(states, dim=1), found)[0]
    assert_close(errors, limit.item() * 0.5 ** torch.arange(1, 31).double(), rtol=1e-3, atol=1e-9)
