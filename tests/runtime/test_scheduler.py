"""One place at a time, one outcome each, no slot lost, none used twice."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from frost.runtime.scheduler import QueueFull, Scheduler


class Life(RuleBasedStateMachine):
    """Submit, stage, place, finish, cancel and expire in any order (F17)."""

    def __init__(self) -> None:
        super().__init__()
        self.scheduler = Scheduler(slots=3, max_queue=5)
        self.inside: dict[int, object] = {}
        self.gone: set[int] = set()
        self.expired: set[int] = set()
        self.now = 0.0

    @rule(deadline=st.none() | st.floats(0, 10), limit=st.integers(1, 8))
    def submit(self, deadline, limit):
        if self.scheduler.waiting == 5:
            with pytest.raises(QueueFull):
                self.scheduler.submit("x", None, limit, deadline)
            return
        item = self.scheduler.submit("x", None, limit, deadline)
        assert item.ticket not in self.inside
        assert item.ticket not in self.gone
        self.inside[item.ticket] = item

    @precondition(lambda self: not self.scheduler.staged)
    @rule()
    def stage(self):
        expected = [item.ticket for item in self.scheduler.next_waiting()]
        assert [item.ticket for item in self.scheduler.stage()] == expected

    @rule()
    def place(self):
        before = {slot for slot, item in enumerate(self.scheduler.running) if item is not None}
        moves = self.scheduler.place()
        slots = [slot for _, slot in moves]
        assert len(set(slots)) == len(slots)
        assert not before & set(slots)
        # no slot idle while an item is staged
        assert not self.scheduler.staged or self.scheduler.occupied == 3

    @precondition(lambda self: self.inside)
    @rule(data=st.data())
    def leave(self, data):
        ticket = data.draw(st.sampled_from(sorted(self.inside)))
        item = self.inside.pop(ticket)
        self.scheduler.remove(item)
        self.gone.add(ticket)
        with pytest.raises(ValueError, match="left already"):
            self.scheduler.remove(item)

    @rule(passed=st.floats(0, 3))
    def expire(self, passed):
        self.now += passed
        for item in self.scheduler.expired(self.now):
            assert item.ticket in self.inside
            assert item.deadline <= self.now
            assert item.ticket not in self.expired
            self.expired.add(item.ticket)

    @invariant()
    def every_item_is_in_one_place(self):
        ours = self.scheduler
        assert len(ours) == len(self.inside) == ours.waiting + ours.staged + ours.occupied
        running = [item for item in ours.running if item is not None]
        assert len(running) == ours.occupied
        assert all(item.place == "running" and ours.running[item.index] is item for item in running)


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=60, stateful_step_count=40, derandomize=True, deadline=None)


def test_first_come_first_served():
    ours = Scheduler(2)
    items = [ours.submit(key, None, 4) for key in "abcd"]
    ours.stage()
    assert ours.place() == [(0, 0), (1, 1)]
    ours.stage()
    ours.remove(items[1])
    assert ours.place() == [(0, 1)]
    assert ours.running[1] is items[2]
    assert items[3].place == "staged"


def test_bad_sizes_are_refused():
    for arguments in ({"slots": 0}, {"slots": 1, "max_queue": 0}):
        with pytest.raises(ValueError, match="at least 1"):
            Scheduler(**arguments)
    with pytest.raises(ValueError, match="limit"):
        Scheduler(1).submit("a", None, 0)
