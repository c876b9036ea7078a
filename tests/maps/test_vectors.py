"""Operations on vectors: right, and the same bits for any number of threads."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ranksvm import _core
from ranksvm._rounding import roundings
from ranksvm._vectors import (
    LONG,
    add_scaled,
    add_scaled_to,
    all_finite,
    any_nonzero,
    combined,
    dot,
    dot_depth,
    power_sums,
    scale,
    scaled,
    vector_threads,
)

THREADS = (1, 2, 3, 5, 16)
SIZES = (1, 7, 511, 512, 1025, LONG - 1, LONG, LONG + 1, 3 * LONG + 5, 200_003)


def vectors(n: int, seed: int = 0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal(n) * 10.0 ** rng.uniform(-3, 3, n), rng.standard_normal(n)


@pytest.mark.parametrize("n", SIZES)
def test_the_error_of_a_dot_product_is_within_its_bound(n: int) -> None:
    u, v = vectors(n)
    exact = math.fsum(math.fsum(split_product(a, b)) for a, b in zip(u, v, strict=True))
    size = math.fsum(np.abs(u * v))
    assert abs(dot(u, v) - exact) <= roundings(dot_depth(n)) * size + 1e-300


def split_product(a: float, b: float) -> tuple[float, float]:
    """Return the product and its rounding error (Dekker 1971)."""
    factor = 2.0**27 + 1.0

    def halves(x: float) -> tuple[float, float]:
        high = factor * x - (factor * x - x)
        return high, x - high

    (a1, a2), (b1, b2), product = halves(a), halves(b), a * b
    return product, a2 * b2 - (((product - a1 * b1) - a2 * b1) - a1 * b2)


@pytest.mark.parametrize("n", SIZES)
def test_vectors_have_the_bits_of_numpy(n: int) -> None:
    u, v = vectors(n)
    np.testing.assert_array_equal(add_scaled(u, -1.7, v), u + -1.7 * v)
    np.testing.assert_array_equal(scaled(0.3, v), 0.3 * v)
    changed = u.copy()
    add_scaled_to(changed, 2.5, v)
    np.testing.assert_array_equal(changed, u + 2.5 * v)
    scale(1.0 / 3.0, changed)
    np.testing.assert_array_equal(changed, (u + 2.5 * v) * (1.0 / 3.0))


@pytest.mark.parametrize("n", SIZES)
def test_thread_counts_do_not_change_a_bit(n: int) -> None:
    u, v = vectors(n, 1)
    found = []
    for n_threads in THREADS:
        with vector_threads(n_threads):
            found.append((dot(u, v), add_scaled(u, 0.1, v).tobytes(), scaled(0.1, v).tobytes()))
    assert len(set(found)) == 1


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("count", [1, 2, 5, 8, 9, 12])
def test_combinations_are_added_from_the_left(n: int, count: int) -> None:
    parts = [vectors(n, seed)[0] for seed in range(count)]
    factors = [1.0, -1.0, 0.3, -2.7, 1e-9, 0.0, 7.0, 1e5, 0.1, -0.2, 3.0, 4.0][:count]
    expected = factors[0] * parts[0]
    for factor, part in zip(factors[1:], parts[1:], strict=True):
        expected = expected + factor * part
    for n_threads in THREADS:
        with vector_threads(n_threads):
            assert combined(factors, parts).tobytes() == expected.tobytes()


def test_combinations_of_anything_that_can_be_added() -> None:
    class Number:
        def __init__(self, value: float) -> None:
            self.value = value

        def __rmul__(self, factor: float) -> Number:
            return Number(factor * self.value)

        def __add__(self, other: Number) -> Number:
            return Number(self.value + other.value)

    assert combined([2.0, -3.0], [Number(5.0), Number(1.0)]).value == 7.0


def test_combinations_of_vectors_that_differ_in_length() -> None:
    with pytest.raises(ValueError, match="elements"):
        combined([1.0, 1.0], [np.zeros(LONG), np.zeros(LONG + 1)])
    with pytest.raises(ValueError, match="no vector"):
        _core.combined([], [], 1)


@pytest.mark.parametrize("n", SIZES)
def test_power_sums_have_the_bits_of_the_single_steps(n: int) -> None:
    (net, centred), product = vectors(n, 2), vectors(n, 3)[0]
    expected = dot(net, centred), dot(centred, product)
    gradient = 2.0 * (product + 0.7 * net)
    for n_threads in THREADS:
        changed = product.copy()
        with vector_threads(n_threads):
            assert power_sums(net, centred, 0.7, changed) == expected
        assert changed.tobytes() == gradient.tobytes()


def test_strided_vectors() -> None:
    u, v = vectors(4 * LONG)
    np.testing.assert_allclose(dot(u[::2], v[::2]), dot(u[::2].copy(), v[::2].copy()), rtol=1e-9)
    np.testing.assert_array_equal(add_scaled(u[::2], 2.0, v[::2]), u[::2] + 2.0 * v[::2])


def test_any_nonzero() -> None:
    v = np.zeros(3 * LONG)
    assert not any_nonzero(v)
    assert not any_nonzero(np.empty(0))
    for at in (0, 600, -1):
        v[at] = 1e-320
        assert any_nonzero(v)
        v[at] = 0.0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [0, 1, 9, 100_003])
def test_all_finite(dtype: type, n: int) -> None:
    v = np.full(n, np.finfo(dtype).max, dtype=dtype)
    for n_threads in (1, 2, 16):
        assert _core.all_finite(v, n_threads)
        assert all_finite(v)
        for at in {0, n // 2, n - 1} if n else ():
            for bad in (np.nan, np.inf, -np.inf):
                v[at] = bad
                assert not _core.all_finite(v, n_threads)
                v[at] = 1.0


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("n", [0, 1, 9, 100_003])
def test_all_indices(dtype: type, n: int) -> None:
    v = np.full(n, 6, dtype=dtype)
    for n_threads in (1, 2, 16):
        assert _core.all_indices(v, 7, n_threads)
        for at in {0, n // 2, n - 1} if n else ():
            for bad in (7, -1, np.iinfo(dtype).min, np.iinfo(dtype).max):
                v[at] = bad
                assert not _core.all_indices(v, 7, n_threads)
                v[at] = 0


def test_blocks_can_be_nested_and_left_by_an_error() -> None:
    u, v = vectors(2 * LONG)
    with vector_threads(2):
        first = add_scaled(u, 1.0, v)
        with pytest.raises(RuntimeError), vector_threads(3):
            raise RuntimeError
        np.testing.assert_array_equal(add_scaled(u, 1.0, v), first)
    np.testing.assert_array_equal(first, u + v)  # it outlives the block
