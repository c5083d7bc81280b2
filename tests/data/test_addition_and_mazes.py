"""Problems made by code: their answers are right, no problem is in two splits, and a seed gives the same ones."""

import hashlib
from collections import deque

import numpy as np
import pytest
import torch

from frost.data.addition import longest_carry, sums
from frost.data.catalogue import load
from frost.data.mazes import EAST, GOAL, NORTH, SOUTH, START, WEST, mazes
from frost.data.splits import Split, distinct

HASHES = {    # of train, validation and test: images, then answers
    "addition": ["329ec4ba8671bf77", "ea382de2a129d921", "f4238153bdb68e5e"],
    "mazes": ["7a325ca1f4960eed", "40e74d5175de00de", "454702e2600f260d"]}
MOVES = {NORTH: (-1, 0), EAST: (0, 1), SOUTH: (1, 0), WEST: (0, -1)}


def number(bits):
    return sum(int(bit) << place for place, bit in enumerate(bits))


@pytest.mark.parametrize("bits", [1, 2, 64, 100])
def test_a_sum_is_that_of_pythons_integers(bits):
    split = sums(40, bits, np.random.default_rng(0))
    for pair, answer in zip((split.images > 0).tolist(), split.labels.tolist(), strict=True):
        assert number(answer) == (number(pair[0]) + number(pair[1])) % 2**bits


def test_a_carry_is_as_long_as_by_hand():
    # lowest first: 1 + 1 makes a carry, which 1 + 0 and 0 + 1 hand on and 0 + 0 ends
    pairs = torch.tensor([[[1, 1, 0, 0], [1, 0, 1, 0]], [[1, 0, 1, 0], [0, 1, 0, 1]], [[1, 0, 1, 1], [1, 0, 1, 0]]])
    assert longest_carry(Split(2.0 * pairs - 1, torch.zeros(3, 4, dtype=torch.long))).tolist() == [3, 0, 2]


def way_by_search(maze):
    """Breadth-first, the slow and obvious way."""
    start, goal = (tuple(np.argwhere(maze[end] > 0)[0]) for end in (START, GOAL))
    came, queue = {start: None}, deque([start])
    while queue:
        cell = queue.popleft()
        for wall, (down, right) in MOVES.items():
            there = (cell[0] + down, cell[1] + right)
            if not maze[wall][cell] and there not in came:
                came[there] = cell
                queue.append(there)
    way, cell = np.zeros(maze.shape[1:], int), goal
    while cell is not None:
        way[cell] = 1
        cell = came[cell]
    return way, len(came)


@pytest.mark.parametrize("side", [2, 3, 7, 10])
def test_a_way_is_that_of_a_search_and_every_cell_can_be_reached(side):
    split = mazes(30, side, np.random.default_rng(1))
    for maze, answer in zip(split.images.numpy(), split.labels.numpy(), strict=True):
        way, reached = way_by_search(maze)
        assert reached == side * side
        assert np.array_equal(way, answer)


@pytest.mark.parametrize("side", [2, 7])
def test_a_maze_is_a_tree_within_its_border(side):
    walls = mazes(20, side, np.random.default_rng(2)).images[:, :4].numpy()
    assert ((4 * side * side - walls.sum(axis=(1, 2, 3))) / 2 == side * side - 1).all()    # a tree's edges
    assert walls[:, NORTH, 0].all()
    assert walls[:, SOUTH, -1].all()
    assert walls[:, WEST, :, 0].all()
    assert walls[:, EAST, :, -1].all()
    assert np.array_equal(walls[:, EAST, :, :-1], walls[:, WEST, :, 1:])
    assert np.array_equal(walls[:, SOUTH, :-1], walls[:, NORTH, 1:])


@pytest.mark.parametrize("name", ["addition", "mazes"])
def test_splits_share_no_problem(name):
    data = load(name)
    seen = [{image.tobytes() for image in split.images.numpy()} for split in (data.train, data.validation, data.test)]
    assert [len(problems) for problems in seen] == [len(data.train), len(data.validation), len(data.test)]
    assert not seen[0] & seen[1]
    assert not seen[0] & seen[2]
    assert not seen[1] & seen[2]
    assert all(larger.image_shape[1] > data.test.image_shape[1] for larger in data.beyond.values())


@pytest.mark.parametrize(("name", "first"), HASHES.items())
def test_problems_are_those_that_the_shipped_runs_were_made_with(name, first):
    """NumPy may change its generators; then a test problem could be one that was trained on."""
    data = load(name)
    hashes = [hashlib.sha256(split.images.numpy().tobytes() + split.labels.numpy().tobytes()).hexdigest()[:16]
              for split in (data.train, data.validation, data.test)]
    assert hashes == first


def test_more_problems_than_there_are_is_an_error():
    def make(count, size, random):
        values = torch.from_numpy(random.integers(0, size, (count, 1, 1)).astype(np.float32))
        return Split(values, values[:, 0].long())

    with pytest.raises(ValueError, match="were not found"):
        distinct(make, 3, (4,), seed=0)


def test_a_problem_that_is_drawn_twice_is_kept_once():
    def make(count, size, random):
        values = torch.from_numpy(random.integers(0, size, (count, 1, 1)).astype(np.float32))
        return Split(values, values[:, 0].long())

    first, second = distinct(make, 40, (25, 10), seed=0)
    kept = torch.cat([first.images, second.images]).flatten().tolist()
    assert len(kept) == len(set(kept)) == 35
    assert torch.equal(first.images[:, 0].long(), first.labels)
