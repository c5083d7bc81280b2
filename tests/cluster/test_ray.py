"""Answers from a cluster of several machines, simulated on this one, that loses what a cluster can lose."""


import pytest

from cluster_extras import needs

needs("ray", "cluster")

import cluster as campaign  # noqa: E402 - needs ray

pytestmark = pytest.mark.slow
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
