"""`/metrics`: what Prometheus scrapes. Counts are plain numbers until then, so that a request costs next to nothing."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from frost.runtime.engine_thread import STEP_SECONDS
from frost.serving.served import ServedRun

REQUEST_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
Gauge = tuple[str, str, Callable[[ServedRun], float | None]]
GAUGES: tuple[Gauge, ...] = (
    ("frost_ready", "whether the run takes requests", lambda run: run.engine.progress.is_ready),
    ("frost_slots", "inputs that run together", lambda run: run.engine.progress.slots),
    ("frost_slots_occupied", "slots in use", lambda run: run.engine.progress.occupied),
    ("frost_queue_inputs", "inputs that have not begun", lambda run: run.engine.progress.waiting),
    ("frost_queue_steps", "steps at full depth of the inputs in the queue", lambda run: run.engine.queued_steps),
    ("frost_queue_limit_steps", "most steps in the queue", lambda run: run.engine.max_queue),
    ("frost_efficiency", "share of computed rows that held an input which had not stopped", lambda run: run.efficiency),
    ("frost_drift", "whether inputs are unlike those of the calibration; frost calibrate RUN makes a new one",
     lambda run: None if run.drift is None else run.drift.has_drifted),
    ("frost_drift_distance", "largest difference of the signal's two distribution functions at the first step",
     lambda run: None if run.drift is None else run.drift.distance),
    ("frost_drift_limit", "distance that chance stays below", lambda run: None if run.drift is None else
     run.drift.limit),
)
COUNTERS = (("answers", "answered", "inputs with an answer"), ("failures", "failed", "inputs that the model cannot "
            "answer"), ("late", "late", "answers that a deadline cut short"), ("expired", "expired", "deadlines before "
            "the first step"), ("cancelled", "cancelled", "inputs that were given up"), ("reduced", "reduced",
            "answers with less than was asked for"), ("engine_steps", "steps", "steps of the engine"))


class Metrics(Collector):
    """Requests, counted here, and what the engines say of themselves when they are asked."""

    def __init__(self, runs: Callable[[], Iterable[ServedRun]]) -> None:
        self._runs = runs
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._seconds: dict[str, list[int]] = {}
        self._sums: dict[str, float] = {}
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def count(self, route: str, run: str, status: int, seconds: float) -> None:
        """One request has ended."""
        self._requests[route, run, status] += 1
        buckets = self._seconds.get(route)
        if buckets is None:
            buckets = self._seconds[route] = [0] * (len(REQUEST_SECONDS) + 1)
        buckets[bisect_left(REQUEST_SECONDS, seconds)] += 1
        self._sums[route] = self._sums.get(route, 0.0) + seconds

    def text(self) -> bytes:
        """The exposition format."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """All of it, as it is now."""
        requests = CounterMetricFamily("frost_requests", "requests by code", labels=["route", "run", "code"])
        for (route, run, status), count in list(self._requests.items()):
            requests.add_metric([route, run, str(status)], count)
        yield requests
        seconds = HistogramMetricFamily("frost_request_seconds", "from the headers to the answer", labels=["route"])
        for route, buckets in list(self._seconds.items()):
            _histogram(seconds, route, REQUEST_SECONDS, buckets, self._sums[route])
        yield seconds
        runs = list(self._runs())
        for name, words, read in GAUGES:
            gauge = GaugeMetricFamily(name, words, labels=["run"])
            for served in runs:
                if (value := read(served)) is not None:
                    gauge.add_metric([served.name], float(value))
            yield gauge
        for name, attribute, words in COUNTERS:
            counter = CounterMetricFamily(f"frost_{name}", words, labels=["run"])
            for served in runs:
                counter.add_metric([served.name], getattr(served.engine.counts, attribute))
            yield counter
        yield from _of_engines(runs)


def _of_engines(runs: Sequence[ServedRun]) -> Iterator[Metric]:
    """Histograms of depth and of the seconds of a step."""
    depth = HistogramMetricFamily("frost_depth", "steps of an answer", labels=["run"])
    steps = HistogramMetricFamily("frost_step_seconds", "seconds of a step of the engine", labels=["run"])
    for served in runs:
        counts = served.engine.counts
        depths = list(counts.depths)
        total = sum(place * count for place, count in enumerate(depths, 1))
        _histogram(depth, served.name, range(1, len(depths) + 1), [*depths, 0], total)
        if counts.step_seconds:
            _histogram(steps, served.name, STEP_SECONDS, list(counts.step_seconds), counts.seconds)
    yield depth
    yield steps


def _histogram(family: HistogramMetricFamily, label: str, edges: Sequence[float], buckets: Sequence[int],
               total: float) -> None:
    """Cumulative buckets, as Prometheus wants them."""
    names = [*(str(edge) for edge in edges), "+Inf"]
    family.add_metric([label], list(zip(names, accumulate(buckets), strict=True)), total)
