"""The card of a run that is shared: front matter that the hub reads, and the same figures in tables."""

import re

import pytest

import frost
from cluster_extras import needs
from frost.checkpoint import load
from frost.data.digits import load_digits
from frost.directory import read_json
from frost.evaluation.model_card import Origin, adaptive_rows, model_card

needs("huggingface_hub", "hub")


def card_of(name, **changes):
    run = load(name)
    origin = Origin(run.config, run.calibration, read_json(run.path / "origin.json"))
    return model_card(origin._replace(**changes), f"me/{name}")


def front_of(card):
    import yaml

    return yaml.safe_load(re.match(r"---\n(.*?)\n---\n", card, re.S)[1])


def test_there_is_one_result_a_budget_and_one_at_full_depth():
    from huggingface_hub.repocard_data import model_index_to_eval_results

    name, results = model_index_to_eval_results(front_of(card_of("addition"))["model-index"])
    rows = adaptive_rows(load("addition").calibration)
    assert name == "addition"
    assert [result.metric_value for result in results] == [*(round(row.quality, 4) for row in rows), 1.0]
    assert [result.metric_args["rule"] for result in results] == [*(row.form for row in rows), "fixed"]


def test_the_tables_show_the_figures_of_the_results():
    card = card_of("addition")
    for row in adaptive_rows(load("addition").calibration):
        gain = 100 * (row.quality - row.fixed_depth)
        assert f"| {row.mean_depth:.2f} | `{row.form}` | {100 * row.quality:.2f} % | " in card
        assert f" | {gain:+.2f} | " in card


def test_it_says_how_the_run_was_made_and_how_it_is_loaded():
    card = card_of("cifar100-cpu")
    assert "frost train cifar100-cpu --out RUN --data DIR" in card
    assert 'frost.load("hf://me/cifar100-cpu")' in card
    assert "it tells 100 classes apart" in card.lower()
    assert front_of(card)["pipeline_tag"] == "image-classification"


def test_its_python_runs(monkeypatch):
    run = load("digits")
    monkeypatch.setattr(frost, "load", lambda _: run)
    code = re.search(r"```python\n(.*?)```", card_of("digits"), re.S)[1]
    exec(code, {"inputs": load_digits().test[:3][0]})


def test_a_run_without_calibration_claims_nothing():
    card = card_of("digits", calibration=None)
    assert "nothing is claimed" in card
    assert "model-index" not in front_of(card)


@pytest.mark.parametrize("training", [{}, {"command": None}])
def test_what_is_not_recorded_is_not_made_up(training):
    assert "The command that made it is not recorded." in card_of("digits", training=training)
