"""Choose landmarks, the points z_1..z_m at which the Nystrom method evaluates a kernel.

With W = k(Z, Z), the kernel matrix is replaced by k(X, Z) W^+ k(Z, X), which is exact at the
landmarks and poor far from them.  There are three ways to choose them:

    uniform     rows drawn without replacement
    kmeans      centroids of Lloyd's algorithm (Zhang, Tsang & Kwok 2008): the error of the
                approximation is bounded by the squared distances to the nearest landmark
    leverage    rows drawn by their ridge leverage l_i = (K (K + lambda I)^-1)_ii, the weight of an
                item in its own fit, which prefers unusual items (Musco & Musco 2017)

K is never formed.  The leverages are estimated as in one level of the recursion of Musco & Musco,
from a uniform pilot sample S of p of the n items, with mu = lambda p / n:

    l_i  ~  (k_ii - k_iS (K_SS + mu I)^-1 k_Si) / lambda

where mu is the sum of all but the p / 8 largest eigenvalues of K_SS, divided by p / 8: the ridge
for an approximation of that rank.  For large data sets, centroids and leverages are computed from a
random sample (``MOST_ROWS``), in blocks of rows, so the time does not grow further with n.

The choice depends only on the seed, the items and the kernel: all long products are computed by the
native kernels, which are bitwise identical for any number of threads.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from ranksvm._checks import check_choice, check_integer
from ranksvm._messages import MessageWarning, Param
from ranksvm._sparse import is_sparse
from ranksvm._vectors import Array, Rows
from ranksvm.maps.kernels import (
    LINEAR,
    Kernel,
    kernel_diagonal,
    kernel_matrix,
    value_blocks,
)

Seed = int | np.random.Generator | np.random.RandomState | None

# Centroids and leverages are computed from at most this many items, or ten per landmark if that is
# more.
MOST_ROWS = 20_000
ROWS_PER_LANDMARK = 10
# Lloyd's algorithm: maximum number of steps, and the relative gain that justifies another step.
LLOYD_STEPS = 6
LLOYD_GAIN = 1e-3
# Maximum number of items in the pilot sample for the leverages.
MOST_PILOTS = 1_000
PILOTS_PER_RANK = 8
# Eigenvalues and leverages below this fraction of the largest are rounding errors.
NOISE = 1e-8
# Kernel values held at a time; more make it no faster.
BLOCK_VALUES = 1 << 21


def choose_landmarks(
    X: Any,
    kernel: Kernel,
    n_landmarks: int,
    how: str = "uniform",
    *,
    seed: Seed = None,
    n_threads: int = 1,
) -> Any:
    """Choose landmarks for a set of items.

    Parameters
    ----------
    X : ndarray or CSR of shape (n_items, n_features)
        Items.
    kernel : Kernel
        The kernel; only used by "leverage".
    n_landmarks : int
        Number of landmarks.  If there are fewer items, all of them are used, with a warning.
    how : {"uniform", "kmeans", "leverage"}, default="uniform"
        How to choose them; see the module docstring.
    seed : int, Generator, RandomState or None, default=None
        Seed or random number generator.
    n_threads : int, default=1
        Number of threads.

    Returns
    -------
    ndarray or CSR of shape (min(n_landmarks, n_items), n_features), like X
        Rows of X in their order, or centroids in float64.  The centroids of sparse items are
        sparse: together they have no more entries than the items that they are the means of.
    """
    check_choice("landmarks", how, LANDMARKS)
    check_integer("n_components", n_landmarks)
    n_items = int(X.shape[0])
    if n_landmarks > n_items:
        warnings.warn(
            MessageWarning(
                "{asked} exceeds the {n_items} items; using {used}.",
                asked=Param("n_components", n_landmarks),
                n_items=n_items,
                used=Param("n_components", n_items),
            ),
            stacklevel=2,
        )
    rng = as_generator(seed)
    return LANDMARKS[how](X, kernel, min(int(n_landmarks), n_items), rng, n_threads)


def as_generator(seed: Seed) -> np.random.Generator:
    """Return a NumPy Generator for any kind of seed; a given generator is advanced."""
    if isinstance(seed, np.random.RandomState):
        return np.random.default_rng(seed.randint(0, 2**32, size=4, dtype=np.uint32))
    return np.random.default_rng(seed)


def _uniform(
    X: Any, kernel: Kernel, n_landmarks: int, rng: np.random.Generator, n_threads: int
) -> Any:
    del kernel, n_threads
    return X[_draw(X.shape[0], n_landmarks, rng)]


def _kmeans(
    X: Any, kernel: Kernel, n_landmarks: int, rng: np.random.Generator, n_threads: int
) -> Any:
    """Return centroids of a sample of the items; dense items are centered meanwhile."""
    del kernel
    items = X[_part(X.shape[0], n_landmarks, rng)].astype(np.float64)
    middle = 0.0
    if not is_sparse(items):
        middle = items.mean(axis=0)
        items -= middle
    squares = kernel_diagonal(LINEAR, items)

    def nearest(centres: Any) -> tuple[Rows, Array]:
        return _nearest(items, squares, centres, n_threads)

    centres = items[_spread_rows(items, n_landmarks, rng, nearest)]
    last = np.inf
    for _ in range(LLOYD_STEPS):
        label, distance = nearest(centres)
        inertia = float(distance.sum())
        if not inertia < (1.0 - LLOYD_GAIN) * last:
            break
        last = inertia
        centres = _means(items, _fill_empty(label, distance, n_landmarks), centres)
    return centres if is_sparse(centres) else centres + middle


def _leverage(
    X: Any, kernel: Kernel, n_landmarks: int, rng: np.random.Generator, n_threads: int
) -> Any:
    """Draw rows one after the other, each with probability proportional to its leverage."""
    part = _part(X.shape[0], n_landmarks, rng)
    items = X[part]
    pilots = items[_draw(len(part), min(n_landmarks, MOST_PILOTS), rng)]
    leverage = _leverages(items, kernel, pilots, n_threads)
    return items[_draw_weighted(leverage, n_landmarks, rng)]


LANDMARKS: dict[str, Callable[[Any, Kernel, int, np.random.Generator, int], Any]] = {
    "uniform": _uniform,
    "kmeans": _kmeans,
    "leverage": _leverage,
}


def _draw(n: int, size: int, rng: np.random.Generator) -> Rows:
    """Draw numbers below n without replacement, in ascending order."""
    rows: Rows = np.sort(rng.choice(n, size, replace=False, shuffle=False))
    return rows


def _draw_weighted(weight: Array, size: int, rng: np.random.Generator) -> Rows:
    """Draw one after the other without replacement, with probabilities proportional to weights.

    Each item gets an exponential time with rate w; the items with the smallest times are such a
    draw (Efraimidis & Spirakis 2006).  Items of weight zero come last, in random order.
    """
    time = rng.standard_exponential(len(weight))
    some = weight > 0.0
    with np.errstate(over="ignore"):
        np.divide(time, weight, out=time, where=some)
    order = np.lexsort((time, ~some))
    rows: Rows = np.sort(order[:size])
    return rows


def _part(n_items: int, n_landmarks: int, rng: np.random.Generator) -> Rows:
    """Draw the items from which centroids and leverages are computed."""
    size = min(n_items, max(MOST_ROWS, ROWS_PER_LANDMARK * n_landmarks))
    return np.arange(n_items) if size == n_items else _draw(n_items, size, rng)


def _nearest(items: Any, squares: Array, centres: Any, n_threads: int) -> tuple[Rows, Array]:
    """Return the nearest center of every item (the first if tied) and its squared distance."""
    n_items = items.shape[0]
    half = 0.5 * kernel_diagonal(LINEAR, centres)
    label = np.empty(n_items, dtype=np.int64)
    distance = np.empty(n_items)
    for part in value_blocks(n_items, len(half), BLOCK_VALUES):
        likeness = kernel_matrix(LINEAR, items[part], centres, n_threads=n_threads)
        likeness -= half
        best = label[part] = likeness.argmax(axis=1)
        distance[part] = squares[part] - 2.0 * likeness[np.arange(len(best)), best]
    return label, np.maximum(0.0, distance, out=distance)


def _spread_rows(
    items: Any,
    n_centres: int,
    rng: np.random.Generator,
    nearest: Callable[[Any], tuple[Rows, Array]],
) -> Rows:
    """Draw initial rows that are far from each other.

    As in k-means++, the probability of an item is proportional to its squared distance from the
    nearest row drawn so far.  But each round draws a quarter as many rows as there are, so there
    are few rounds, and all distances together cost as much as one step of Lloyd's algorithm.
    """
    rows = new = rng.integers(items.shape[0], size=1)
    distance = np.full(items.shape[0], np.inf)
    while len(rows) < n_centres:
        np.minimum(distance, nearest(items[new])[1], out=distance)
        left = np.delete(np.arange(len(distance)), rows)
        size = min(max(1, len(rows) // 4), n_centres - len(rows))
        new = left[_draw_weighted(distance[left], size, rng)]
        rows = np.concatenate([rows, new])
    return rows


def _fill_empty(label: Rows, distance: Array, n_centres: int) -> Rows:
    """Assign to every empty center an item that is farthest from its own center."""
    empty = np.flatnonzero(np.bincount(label, minlength=n_centres) == 0)
    if len(empty):
        label = label.copy()
        far = np.argsort(-distance, kind="stable")[: len(empty)]
        label[far] = empty
    return label


def _means(items: Any, label: Rows, centres: Any) -> Any:
    """Return the means of the items with the same label; a center without items is kept."""
    import scipy.sparse as sp

    n_items, n_centres = len(label), centres.shape[0]
    count = np.bincount(label, minlength=n_centres)
    share = 1.0 / np.maximum(1, count)
    member = sp.csr_array((share[label], label, np.arange(n_items + 1)), (n_items, n_centres))
    stays = sp.diags_array((count == 0).astype(np.float64), format="csr")
    means = member.T.tocsr() @ items + stays @ centres
    if is_sparse(means):
        means.sort_indices()
    return means


def _leverages(items: Any, kernel: Kernel, pilots: Any, n_threads: int) -> Array:
    """Estimate the ridge leverage of every item, up to a common factor."""
    diagonal = kernel_diagonal(kernel, items)
    eigenvalues, vectors = np.linalg.eigh(
        kernel_matrix(kernel, pilots, pilots, n_threads=n_threads)
    )
    n_pilots = len(eigenvalues)
    rank = max(1, n_pilots // PILOTS_PER_RANK)
    tail = float(eigenvalues[: n_pilots - rank].sum()) / rank
    ridge = max(tail, NOISE * float(eigenvalues[-1]), np.finfo(np.float64).tiny)
    root = (vectors / np.sqrt(np.maximum(eigenvalues, 0.0) + ridge)).T
    leverage = np.empty(items.shape[0])
    for part in value_blocks(items.shape[0], 2 * n_pilots, BLOCK_VALUES):
        values = kernel_matrix(kernel, items[part], pilots, n_threads=n_threads)
        seen = kernel_matrix(LINEAR, values, root, n_threads=n_threads)
        leverage[part] = diagonal[part] - np.einsum("ij,ij->i", seen, seen)
    leverage[leverage < NOISE * diagonal.max()] = 0.0
    return leverage
