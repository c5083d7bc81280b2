"""Answers from a cluster of several machines, simulated on this one, that loses what a cluster can lose."""

import json
import subprocess
import sys

import pytest

from cluster_extras import needs

needs("ray", "cluster")

import cluster_serving as campaign_serving  # noqa: E402

import cluster as campaign  # noqa: E402 - after Ray is known to be there

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
COUNT, SLOTS = 2_000, 32


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(scope="module")
def listed(place):
    return campaign.images(place / "images", COUNT, 0)


@pytest.fixture(scope="module")
def expected(place, listed):
    return campaign.alone(listed, SLOTS, place / "alone.csv")


@pytest.fixture(scope="module")
def machines():
    with campaign.machines() as found:
        yield found


def test_every_key_comes_once_when_a_machine_dies_and_an_actor_later(machines, listed, expected, tmp_path):
    assert campaign.losing_machines(machines, listed, expected, SLOTS, tmp_path) == ""


def test_a_job_killed_whole_goes_on_where_it_was(machines, listed, expected, tmp_path):
    wrong, twice = campaign.losing_the_job(machines, listed, expected, SLOTS, tmp_path)
    assert wrong == ""
    assert twice <= 0.1    # blocks that fill the slots are large beside a job as small as this


def test_a_service_loses_no_request_when_replicas_go():
    done = subprocess.run([sys.executable, campaign_serving.__file__, "--seconds", "4"], capture_output=True, text=True,
                          timeout=280, check=False)
    assert done.returncode == 0, done.stdout[-500:] + done.stderr[-1500:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert set(found["one taken away"]) == {"200"}
    assert found["full"]["429"] >= 1


ANY_DATASET = """
import json, logging, sys
import ray
import frost

ray.init(sys.argv[1], log_to_driver=False, logging_level=logging.ERROR)
names = open(sys.argv[2]).read().split()[:40]
rows = [{"id": name, "picture": open(name, "rb").read()} for name in names] + [{"id": "none", "picture": b"no image"}]
answers = frost.cluster.predict(ray.data.from_items(rows), "cifar100-cpu", column="picture", key="id", slots=32,
                                mean_depth=2.1)
print(json.dumps([{name: row[name] for name in ("id", "label", "confidence", "depth", "score", "error")}
                  for row in answers.take_all()]))
"""


def test_any_data_set_of_rays_is_answered_under_its_key(machines, listed, expected):
    done = subprocess.run([sys.executable, "-c", ANY_DATASET, machines.address, str(listed)], capture_output=True,
                          text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr[-1500:]
    rows = {row["id"]: row for row in json.loads(done.stdout.splitlines()[-1])}
    assert len(rows) == 41
    assert "no PNG, JPEG or WebP" in rows.pop("none")["error"]
    for name, row in rows.items():
        label, _, *numbers = expected[name]
        assert [str(row["label"]), repr(row["confidence"]), str(row["depth"]), repr(row["score"])] == [label, *numbers]
