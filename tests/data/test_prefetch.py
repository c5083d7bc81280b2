import threading
from itertools import count

import pytest

from frost.data.prefetch import prefetched


@pytest.mark.parametrize("threads", [0, 1, 3])
def test_results_come_in_the_order_of_the_items(threads):
    assert list(prefetched(range(50), lambda number: number**2, threads, 4)) == [number**2 for number in range(50)]


def test_an_endless_stream_is_read_no_further_than_it_is_needed():
    read = []

    def stream():
        for number in count():
            read.append(number)
            yield number

    results = prefetched(stream(), lambda number: number, 2, 3)
    assert [next(results) for _ in range(5)] == [0, 1, 2, 3, 4]
    results.close()
    assert len(read) <= 5 + 3


def test_what_one_item_raises_comes_in_its_place():
    results = prefetched([1, 0, 2], lambda number: 6 // number, 2, 2)
    assert next(results) == 6
    with pytest.raises(ZeroDivisionError):
        next(results)


def test_leaving_the_loop_ends_the_threads():
    before = threading.active_count()
    results = prefetched(range(100), lambda number: number, 3, 10)
    next(results)
    results.close()
    assert threading.active_count() == before
