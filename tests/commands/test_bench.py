"""The shape of the answer, and the numbers that do not depend on the clock."""

import json
from argparse import Namespace
from dataclasses import replace

import pytest

from frost.checkpoint import save
from frost.commands.bench import as_json, run, text
from frost.config import to_dict
from frost.evaluation.throughput import bench
from frost.zoo.registry import SIZES, build


@pytest.fixture(scope="module")
def result():
    return bench("frost-vit-8px", batches=[1, 4], rounds=1)


def test_every_candidate_has_a_row(result):
    found = {(row.model, row.executor, row.batch) for row in result.rows}
    for batch in (1, 4):
        assert {("frost-vit-8px", executor, batch) for executor in
                ("full", "masked", "compact", "refill", "refill ladder", "refill uncached")} <= found
        assert {("vanilla", "full", batch), ("recurrent", "full", batch)} <= found


def test_the_json_has_the_agreed_keys(result):
    printed = json.loads(json.dumps(as_json(result), allow_nan=False))
    for row in printed["rows"]:
        assert {"model", "executor", "batch", "images_per_second", "speedup", "ideal", "efficiency",
                "efficiency_whole", "p50", "p95", "p99", "flops_per_image", "backend", "share_of_peak"} <= set(row)
        assert row["images_per_second"] > 0
        assert row["efficiency_whole"] == pytest.approx(row["speedup"] / row["ideal"])
    assert printed["depths"].startswith("normal, 3.02 ± 1.56 of 8")


def test_the_stream_is_ten_batches_long(result):
    assert all(row.images >= 40 for row in result.rows if row.executor != "full")


def test_flops_that_ran_follow_from_the_depths(result):
    """One slot wastes nothing: masked, compact and refill run the same rows, those that the depths need."""
    rows = {row.executor: row for row in result.rows if row.batch == 1 and row.model == "frost-vit-8px"}
    assert rows["masked"].flops_per_image == rows["compact"].flops_per_image == rows["refill"].flops_per_image
    saved = rows["full"].flops_per_image / rows["refill"].flops_per_image
    assert saved == pytest.approx(rows["refill"].ideal, rel=0.02)
    many = {row.executor: row for row in result.rows if row.batch == 4 and row.model == "frost-vit-8px"}
    assert many["masked"].flops_per_image > many["compact"].flops_per_image
    assert many["refill"].flops_per_image < many["masked"].flops_per_image


def test_the_text_has_a_line_for_each_row(result):
    lines = text(result).splitlines()
    models = ("frost-vit-8px  ", "vanilla", "recurrent", "basic-ssm")
    assert sum(line.startswith(models) for line in lines) == len(result.rows)


def test_a_run_takes_its_depths_from_its_calibration():
    ours = bench("digits", batches=[2], executors=["refill"], rounds=1)
    assert ours.depths == "the run's calibration"
    assert ours.mean_depth == pytest.approx(4.0, abs=1.0)


def test_what_cannot_be_timed_is_refused(tmp_path):
    config = replace(SIZES["resnet-8px"], depth=2)
    save(tmp_path / "run", build(config), {"model": to_dict(config)})
    with pytest.raises(ValueError, match="frost calibrate"):
        bench(tmp_path / "run")
    with pytest.raises(ValueError, match="weights of its own"):
        bench("vanilla-vit-8px")
    with pytest.raises(ValueError, match="--batch must be at least 1"):
        run(Namespace(model="frost-vit-8px", batch=[0], rounds=1, seed=0))
    with pytest.raises(ValueError, match="Did you mean"):
        bench("frost-vit-b61")
    with pytest.raises(ValueError, match="mean depth"):
        bench("frost-vit-8px", mean_depth=9.0)
