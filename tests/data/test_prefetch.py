import threading

import pytest

from frost.data.prefetch import read_ahead


@pytest.mark.parametrize("threads", [1, 3])
def test_items_come_in_their_order(threads):
    assert list(read_ahead(lambda number: number**2, range(50), threads, 4)) == [number**2 for number in range(50)]


def test_no_more_is_read_than_the_limit():
    taken = []

    def items():
        for number in range(100):
            taken.append(number)
            yield number

    stream = read_ahead(lambda number: number, items(), 2, 5)
    assert next(stream) == 0
    assert taken == list(range(6))     # the first, and five that wait
    stream.close()
    assert taken == list(range(6))


def test_an_error_comes_where_its_item_would():
    def read(number):
        if number == 3:
            raise OSError("cannot read 3")
        return number

    stream = read_ahead(read, range(10), 2, 4)
    assert [next(stream) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(OSError, match="cannot read 3"):
        next(stream)


def test_no_thread_is_left_when_the_stream_is_closed():
    stream = read_ahead(lambda number: number, range(100), 2, 5)
    next(stream)
    assert any(thread.name.startswith("frost-read") for thread in threading.enumerate())
    stream.close()
    assert not any(thread.name.startswith("frost-read") for thread in threading.enumerate())
