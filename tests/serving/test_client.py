import asyncio
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from running import GATE, gated_run, png, running

import frost

KEY = "a-key-of-this-team"


@pytest.fixture(scope="module")
def server():
    with running("digits", "mazes", keys=[KEY.encode()]) as found:
        yield found


def test_images_arrays_and_lists_of_them(server, tmp_path):
    file = Path(tmp_path / "one.png")
    file.write_bytes(png(1))
    with frost.Client(server.url, key=KEY) as client:
        one = client.predict(png(1), mean_depth=3)
        assert one == client.predict(file, mean_depth=3)
        many = client.predict([file, png(2)], mean_depth=3)
        assert (len(many), many[0]["label"]) == (2, one["label"])
        assert client.predict(torch.rand(1, 8, 8), depth=2)["depth"] == 2
        assert len(client.predict(np.zeros((3, 1, 8, 8), np.float32), depth=2, deadline=5)) == 3
        assert client.is_ready()
        assert client.stats()["digits"]["answered"] > 5
    with frost.Client(server.url, key=KEY, run="mazes") as client:
        assert client.predict(np.zeros((6, 9, 9), np.float32))["run"] == "mazes"


def test_the_same_with_asyncio(server):
    async def main():
        async with frost.Client(server.url, key=KEY) as client:
            answers = await asyncio.gather(*(client.predict_async(png(seed), depth=3) for seed in range(20)))
            return [answer["depth"] for answer in answers]

    assert asyncio.run(main()) == [3] * 20


@pytest.mark.parametrize("inputs", [b"hello", [], "one.png", None, {"a": 1}, [png(), 3]])
def test_what_is_no_input_is_refused(server, inputs):
    with frost.Client(server.url, key=KEY) as client, pytest.raises(ValueError, match=r"input|image|predict|array"):
        client.predict(inputs)


def test_refusals_are_exceptions_of_ours(server):
    with frost.Client(server.url, key=KEY) as client:
        with pytest.raises(ValueError, match="from 1 to 8"):
            client.predict(png(), depth=20)
        with pytest.raises(ValueError, match="choose one"):
            client.predict(png(), depth=2, quantile=0.5)
    with frost.Client(server.url) as client, pytest.raises(PermissionError, match="a key is needed"):
        client.predict(png())


def test_a_server_that_is_not_there_is_not_ready():
    with frost.Client("http://127.0.0.1:9") as client:
        assert not client.is_ready()


def test_a_full_queue_says_how_long_to_wait_and_a_cancelled_call_is_given_up():
    async def main(server):
        engine = server.service.runs["gated"].engine
        array = torch.zeros(10, 1, 8, 8)
        async with frost.Client(server.url) as client:
            GATE.clear()
            task = asyncio.create_task(client.predict_async(array))
            while not engine.progress.occupied:
                await asyncio.sleep(0.01)
            with pytest.raises(frost.QueueFull) as full:
                await client.predict_async(array)
            assert full.value.seconds >= 1
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            while b'code="499"' not in server.service.metrics.text():
                await asyncio.sleep(0.01)
            GATE.set()
            while engine.progress.occupied or engine.queued_steps:
                await asyncio.sleep(0.01)
            assert engine.counts.cancelled == 10

    with running(gated_run(slots=1, max_queue=40)) as server:
        asyncio.run(asyncio.wait_for(main(server), 20))


def test_a_deadline_and_an_end_are_exceptions_of_their_own():
    with running(gated_run(slots=1)) as server, frost.Client(server.url) as client:
        GATE.clear()
        thread = threading.Thread(target=client.predict, args=(torch.zeros(2, 1, 8, 8),))
        thread.start()
        while not server.service.runs["gated"].engine.progress.occupied:
            time.sleep(0.01)
        threading.Timer(0.3, GATE.set).start()
        with pytest.raises(TimeoutError, match="deadline"):
            client.predict(torch.zeros(1, 8, 8), deadline=0.05)
        thread.join()
        server.service.is_draining = True
        with pytest.raises(RuntimeError, match="ending"):
            client.predict(torch.zeros(1, 8, 8))
        assert not client.is_ready()
