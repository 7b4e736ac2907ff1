"""The metrics of the catalogue, registered with prometheus_client and rendered as text.

Invariants: what is not in the catalogue cannot be counted; the number of series is bounded; a counter is there at
zero before its first event; the text is rendered again only after something changed.
"""

import itertools
import threading
from typing import TypeVar

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)

from secureproto.metrics.catalogue import CATALOGUE, MAX_OPEN_VALUES, OVERFLOW, OVERFLOWS, Label, Metric, Type

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Collector = Counter | Gauge | Histogram
C = TypeVar("C", Counter, Gauge, Histogram)


class Exposition:
    """A registry of its own: nothing of the process or of another library gets in."""

    def __init__(self) -> None:
        # a `_created` series beside each counter would double them; the switch is the library's, and global
        disable_created_metrics()  # type: ignore[no-untyped-call]  # the library's one untyped function
        self._registry = CollectorRegistry(auto_describe=True)
        self._collectors = {metric.name: _collector(metric, self._registry) for metric in CATALOGUE}
        self._known: dict[str, set[str]] = {}
        self._lock = threading.Lock()
        self._changed = True
        self._text = b""
        for metric in CATALOGUE:
            if all(label.values for label in metric.labels):
                self._zero(metric, {})

    def add(self, metric: Metric, **labels: str) -> None:
        """Add one to a counter."""
        self._child(metric, Counter, labels).inc()
        self._changed = True

    def set(self, metric: Metric, value: float, **labels: str) -> None:
        """Set a gauge."""
        self._child(metric, Gauge, labels).set(value)
        self._changed = True

    def observe(self, metric: Metric, value: float, **labels: str) -> None:
        """Enter a value into a histogram."""
        self._child(metric, Histogram, labels).observe(value)
        self._changed = True

    def know(self, label: Label, value: str) -> str:
        """Bring a value of an open label into being, with its counters at zero; returns the value that counts.

        Over the bound that is OVERFLOW.
        """
        with self._lock:
            known = self._known.setdefault(label.name, set())
            if value in known:
                return value
            full = len(known) >= MAX_OPEN_VALUES
            if not full:
                known.add(value)
        if full:
            self.add(OVERFLOWS, label=label.name)
            return OVERFLOW
        for metric in CATALOGUE:
            if [one for one in metric.labels if not one.values] == [label]:
                self._zero(metric, {label.name: value})
        return value

    def forget(self, label: Label, value: str) -> None:
        """Drop every series of a value: a closed study, a withdrawn site."""
        with self._lock:
            self._known.get(label.name, set()).discard(value)
        for metric in CATALOGUE:
            if label in metric.labels:
                self._collectors[metric.name].remove_by_labels({label.name: value})
        self._changed = True

    def text(self) -> bytes:
        """Everything, in Prometheus' text format."""
        if self._changed:
            self._changed = False  # before rendering: a change meanwhile is rendered the next time
            self._text = generate_latest(self._registry)
        return self._text

    def _child(self, metric: Metric, kind: type[C], labels: dict[str, str]) -> C:
        collector = self._collectors[metric.name]
        if not isinstance(collector, kind):
            raise ValueError(f"{metric.name} is a {metric.type}")  # noqa: TRY004 - misuse, as every other here
        values = self._values(metric, labels)
        return collector.labels(**values) if values else collector

    def _values(self, metric: Metric, labels: dict[str, str]) -> dict[str, str]:
        if set(labels) != {label.name for label in metric.labels}:
            raise ValueError(f"{metric.name} has the labels {[label.name for label in metric.labels]}")
        return {label.name: self._value(label, labels[label.name]) for label in metric.labels}

    def _value(self, label: Label, value: str) -> str:
        if not label.values:
            return self.know(label, value)
        if value in label.values:
            return value
        if not label.other:
            raise ValueError(f"label {label.name} has no such value")
        return label.other

    def _zero(self, metric: Metric, fixed: dict[str, str]) -> None:
        collector = self._collectors[metric.name]
        if not isinstance(collector, Counter) or not metric.zero:
            return
        enumerated = [label for label in metric.labels if label.values]
        for values in itertools.product(*(label.values for label in enumerated)):
            labels = fixed | {label.name: value for label, value in zip(enumerated, values, strict=True)}
            (collector.labels(**labels) if labels else collector).inc(0)
        self._changed = True


def _collector(metric: Metric, registry: CollectorRegistry) -> Collector:
    names = [label.name for label in metric.labels]
    match metric.type:
        case Type.COUNTER:
            return Counter(metric.name, metric.help, names, registry=registry)
        case Type.GAUGE:
            return Gauge(metric.name, metric.help, names, registry=registry)
        case Type.HISTOGRAM:
            return Histogram(metric.name, metric.help, names, registry=registry, buckets=metric.buckets)
