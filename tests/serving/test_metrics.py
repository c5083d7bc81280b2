import re
import time

import numpy as np
import pytest
import torch
from prometheus_client.parser import text_string_to_metric_families
from running import NPY, digits, npy, png, running

from frost.serving.drift import LEAST, TURN, FirstStep


@pytest.fixture(scope="module")
def server():
    with running("digits") as found:
        for seed in range(6):
            found.post(png(seed), params={"depth": 1 + seed % 3})
        found.post(png(), params={"depth": 99})
        found.get("/nothing")
        yield found


def samples(server):
    return {(sample.name, *sorted(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(server.get("/metrics").text) for sample in family.samples}


def test_requests_are_counted_by_route_and_code(server):
    found = samples(server)
    assert found["frost_requests_total", ("code", "200"), ("route", "/predict"), ("run", "digits")] == 6
    assert found["frost_requests_total", ("code", "422"), ("route", "/predict"), ("run", "digits")] == 1
    assert found["frost_requests_total", ("code", "404"), ("route", "unknown"), ("run", "")] == 1
    assert found["frost_request_seconds_count", ("route", "/predict")] == 7


def test_depths_are_a_histogram_up_to_full_depth(server):
    found = samples(server)
    buckets = {name[1][1]: value for name, value in found.items() if name[0] == "frost_depth_bucket"}
    assert list(buckets) == ["1", "2", "3", "4", "5", "6", "7", "8", "+Inf"]
    assert [buckets[edge] for edge in ("1", "2", "3", "7", "8", "+Inf")] == [2, 4, 6, 6, 6, 6]
    assert found["frost_depth_sum", ("run", "digits")] == 2 * (1 + 2 + 3)


def test_engines_say_how_they_are(server):
    found = {name[0]: value for name, value in samples(server).items() if ("run", "digits") in name}
    assert (found["frost_ready"], found["frost_slots"], found["frost_slots_occupied"]) == (1, 8, 0)
    assert (found["frost_queue_steps"], found["frost_queue_inputs"]) == (0, 0)
    assert found["frost_answers_total"] == 6
    assert 0 < found["frost_efficiency"] <= 1
    assert found["frost_step_seconds_count"] == found["frost_engine_steps_total"] >= 6


def test_the_live_view_has_plain_numbers(server):
    stats = server.get("/stats").json()["runs"]["digits"]
    assert stats["depths"] == [2, 2, 2, 0, 0, 0, 0, 0]
    assert stats["mean_depth"] == 2
    assert (stats["state"], stats["drift"], stats["budget"]) == ("running", None, "full depth")


def test_pages_ask_the_network_for_nothing(server):
    for path in ("/", "/docs"):
        page = server.get(path)
        assert page.headers["content-type"].startswith("text/html")
        assert not re.search(r"(src|href)=['\"]?(https?:)?//", page.text)
    assert "POST /predict" in server.get("/docs").text


def test_the_schema_names_every_status_that_comes(server):
    paths = server.get("/openapi.json").json()["paths"]
    assert set(paths["/predict"]["post"]["requestBody"]["content"]) == {
        "image/png", "image/jpeg", "image/webp", "application/x-npy", "application/json"}
    for status in (200, 400, 401, 408, 413, 415, 422, 429, 431, 503, 504):
        assert str(status) in paths["/predict"]["post"]["responses"]
    assert "/v2/models/{name}/infer" in paths


@pytest.fixture(scope="module")
def first_signal():
    run = digits()
    return run, run.calibration.signals[next(iter(run.calibration.signals))][:, 0]


def test_scores_of_the_calibration_are_no_drift(first_signal):
    run, values = first_signal
    watch, chance = FirstStep(run.calibration), np.random.default_rng(0)
    assert watch.drift is None
    for _ in range(2 * TURN // 8):
        watch.see(np.array([1, 1, 2, 1, 1, 1, 1, 1, 1]), chance.choice(values, 9).astype(float))
        assert watch.drift is None or not watch.drift.has_drifted


def test_other_scores_are_drift_and_those_of_the_calibration_end_it(first_signal):
    run, values = first_signal
    watch, chance = FirstStep(run.calibration), np.random.default_rng(0)
    watch.see(np.ones(LEAST, dtype=int), chance.choice(values, LEAST) + 3.0)
    assert watch.drift.has_drifted
    for _ in range(4 * TURN // LEAST):
        watch.see(np.ones(LEAST, dtype=int), chance.choice(values, LEAST).astype(float))
    assert not watch.drift.has_drifted


def test_drift_is_in_the_log_and_in_the_metrics_with_the_command(server):
    noise = torch.rand(3, 50, 1, 8, 8).numpy()
    for part in noise:
        server.post(npy(part), headers=NPY, params={"depth": 2})
    for _ in range(100):
        lines = [line for line in server.lines() if line["event"] == "drift"]
        if lines:
            break
        time.sleep(0.05)
    assert "frost calibrate" in lines[0]["advice"]
    found = samples(server)
    assert found["frost_drift", ("run", "digits")] == 1
    assert found["frost_drift_distance", ("run", "digits")] > found["frost_drift_limit", ("run", "digits")]
