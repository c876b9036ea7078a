"""How much memory a fit on shards takes beside its rows, before anything of it is made.

All are upper bounds in bytes, at the moment when most is in memory.  Rows that are taken from
shards are there three times for a moment: by shard, one after the other, and in the right order.
"""

from __future__ import annotations

from ranksvm.data.shard_memory import TAKEN_TIMES
from ranksvm.maps.feature_map import FEWEST_FEATURES, MOST_DIRECTIONS, MOST_ITEMS, MOST_LANDMARKS
from ranksvm.maps.landmarks import BLOCK_VALUES, MOST_PILOTS, MOST_ROWS, ROWS_PER_LANDMARK
from ranksvm.maps.matrix import MOST_COLUMNS
from ranksvm.maps.sample import MOST_TIMES, scatter_step

NUMBERS = 64  # bytes a row of a sample: its number, query, degree and group
PIECES = 16  # partial sums of a scatter


def sample_bytes(n_items: int, n_features: int, itemsize: int, *, is_sparse: bool = False) -> int:
    """Return the bytes of the sample that the preconditioner is computed from.

    Parameters
    ----------
    n_items, n_features : int
        Shape of X, or of the kernel features.
    itemsize : int
        Bytes of a value.
    is_sparse : bool, default=False
        Whether X is sparse; then there is no sample.
    """
    if is_sparse or n_features > MOST_COLUMNS:
        return 0
    step = scatter_step(n_items, n_features)
    n_rows = n_items if step == 1 else min(n_items, MOST_TIMES * (n_items // step))
    return n_rows * (TAKEN_TIMES * n_features * itemsize + NUMBERS) + _scatter_bytes(n_features)


def kernel_bytes(
    n_items: int,
    n_features: int,
    itemsize: int,
    n_components: int,
    *,
    approximation: str,
    landmarks: str = "uniform",
) -> int:
    """Return the bytes that kernel features take beside the features of a block.

    Parameters
    ----------
    n_items, n_features : int
        Shape of X.
    itemsize : int
        Bytes of a value of X.
    n_components : int
        Number of kernel features.
    approximation : {"nystroem", "fourier"}
    landmarks : {"uniform", "kmeans", "leverage"}, default="uniform"
        How Nystrom landmarks are chosen.
    """
    m = n_components
    points = m * n_features * 8
    making = 0
    if approximation == "nystroem":
        m = min(m, n_items)
        points = m * n_features * max(8, itemsize)
        making = (
            TAKEN_TIMES * m * n_features * itemsize + 6 * 8 * m * m
        )  # kernel matrix and factors
        if landmarks != "uniform":
            n_rows = min(n_items, max(MOST_ROWS, ROWS_PER_LANDMARK * m))
            pilots = min(m, MOST_PILOTS)
            making += n_rows * (TAKEN_TIMES * n_features * itemsize + 2 * n_features * 8 + NUMBERS)
            making += 2 * 8 * BLOCK_VALUES + 4 * 8 * pilots * pilots
    kept = 2 * points + (2 * 8 * m * m if approximation == "nystroem" else 0)
    return kept + max(making, _subspace_bytes(n_items, n_features, itemsize, m, approximation))


def _subspace_bytes(
    n_items: int, n_features: int, itemsize: int, n_components: int, approximation: str
) -> int:
    """Return the bytes of the sample of items in a subspace of the kernel features."""
    if approximation == "fourier" and n_components < FEWEST_FEATURES:
        return sample_bytes(n_items, n_components, 8)
    k = min(n_components, MOST_DIRECTIONS)
    n_rows = min(n_items, 2 * MOST_TIMES * MOST_ITEMS)
    found = n_rows * (8 * k + NUMBERS) + _scatter_bytes(k)
    of_block = TAKEN_TIMES * n_features * itemsize + 3 * n_components * 8
    found += min(n_items, MOST_ITEMS) * of_block
    if approximation == "fourier":  # the principal directions
        some = min(n_items, MOST_LANDMARKS)
        found += 4 * 8 * some * some + 8 * n_components * (some + 2 * k)
    return found


def _scatter_bytes(n_columns: int) -> int:
    return (PIECES + 4) * 8 * (n_columns + 7) ** 2
