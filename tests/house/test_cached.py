"""Cached properties: computed once, and never waiting for another object."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from ranksvm._cached import cached_property


@dataclass(frozen=True)
class Waiting:
    """Its value is known when both of two objects are asked at the same time."""

    both: threading.Barrier

    @cached_property
    def value(self) -> object:
        self.both.wait(timeout=30.0)
        return object()


def test_two_objects_compute_their_values_at_the_same_time() -> None:
    both = threading.Barrier(2)
    one, other = Waiting(both), Waiting(both)
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda each: each.value, (one, other))
    assert first is one.value
    assert second is other.value
    assert first is not second
