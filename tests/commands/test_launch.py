import pytest

from frost.commands import launch as module
from frost.commands.launch import launch


@pytest.mark.parametrize(("processes", "words", "retries"), [(0, ["train"], 3), (2, [], 3), (2, ["predict"], 3),
                                                            (2, ["train"], -1), (1025, ["train"], 3)])
def test_a_mistake_is_explained_before_anything_is_started(processes, words, retries, monkeypatch):
    monkeypatch.setattr(module, "_once", lambda *_: pytest.fail("started"))
    with pytest.raises(ValueError, match=r"-n|--retries|frost launch"):
        launch(processes, words, retries)


@pytest.mark.parametrize(("lives", "expected"), [
    ([[0, 0]], (0, 0)),
    ([[-9, 75], [0, 0]], (0, 1)),                 # killed: gone on with
    ([[75, -9], [75, 75], [0, 0]], (0, 2)),
    ([[2, 2]], (2, 0)),                           # a user's mistake is not tried again
    ([[2, 75]], (2, 0)),
    ([[143, 143]], (143, 0)),
])
def test_accidents_are_gone_on_with_and_mistakes_are_not(lives, expected, monkeypatch):
    started = []

    def once(processes, words):
        started.append(list(words))
        return lives[len(started) - 1]

    monkeypatch.setattr(module, "_once", once)
    assert launch(2, ["train", "digits"]) == expected
    assert started == [["train", "digits"], *[["train", "digits", "--resume"]] * expected[1]]


def test_it_gives_up_after_so_many_accidents(monkeypatch):
    monkeypatch.setattr(module, "_once", lambda *_: [-9, 75])
    with pytest.raises(ValueError, match="3 times in a row"):
        launch(2, ["train"], retries=2)
