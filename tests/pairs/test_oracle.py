"""The pairwise oracle: every counting against the definition, and every loss against its pairs.

Counts are compared exactly: the weights drawn here are small multiples of 1/8, so their sums are
exact in any order.  Sums of a payload x over partners may differ by rounding.  The tolerance for
item i of query q is

    1e-13 * query weight * w_i * (sum of the w_j of the query) * max |x - c|

with c = 0 for ``sums``, and the middle of the query for the Laplacian, whose rounding errors have
to go with the spread of x and not with its size.
"""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ranksvm import _core
from ranksvm._vectors import Array
from ranksvm.backends.native import COUNTINGS, NativeBackend
from ranksvm.backends.reference import ReferenceBackend
from ranksvm.data.queries import QueryGroups
from ranksvm.maps.matrix import MatrixMap
from ranksvm.objective import RankObjective
from ranksvm.pairs.oracle import LOSSES, Hinge, PairLoss, SmoothedHinge, SquaredHinge
from ranksvm.pairs.order import PairBackend, PairOrder, PairPlan

THREADS = (1, 2, 3)
every_counting = pytest.mark.parametrize("counting", COUNTINGS)


@dataclass(frozen=True)
class Case:
    """Items with everything that decides what the oracle says of them."""

    utility: Array
    qid: list | np.ndarray | None
    scores: Array
    item_weight: Array | None = None
    query_weight: Array | None = None
    margin: float = 1.0

    @property
    def n(self) -> int:
        return len(self.utility)

    @property
    def groups(self) -> QueryGroups:
        return QueryGroups.from_qid(self.qid, self.n)

    @property
    def weights(self) -> Array:
        return np.ones(self.n) if self.item_weight is None else self.item_weight

    def order(self) -> PairOrder:
        return PairOrder(self.utility, self.groups, self.item_weight)

    def native(self, counting: str = "auto", n_threads: int = 1) -> NativeBackend:
        return self._weighted(NativeBackend(self.order(), counting=counting, n_threads=n_threads))

    def reference(self) -> ReferenceBackend:
        return self._weighted(ReferenceBackend(self.order()))

    def _weighted(self, backend):
        if self.query_weight is not None:
            backend.set_query_weight(self.query_weight)
        return backend

    def tolerance(self, x: Array, *, centred: bool) -> Array:
        """By item; see the head of this file."""
        groups = self.groups
        query = np.ones(groups.n_queries) if self.query_weight is None else self.query_weight
        out = np.zeros(self.n)
        for q in range(groups.n_queries):
            rows = groups.rows[groups.offsets[q] : groups.offsets[q + 1]]
            values = x[rows]
            size = (values.max() * 0.5 - values.min() * 0.5) * 2.0 if centred else abs(values).max()
            w = self.weights[rows]
            out[rows] = 1e-13 * query[q] * w * w.sum() * size
        return out + 1e-307  # denormals have no relative precision

    def pairs(self) -> list[tuple[int, int, float]]:
        """(better, worse, weight) of every comparable pair, by the definition."""
        index = self.groups.index
        w, y = self.weights, self.utility
        query = np.ones(self.groups.n_queries) if self.query_weight is None else self.query_weight
        return [
            (b, c, query[index[b]] * w[b] * w[c])
            for b in range(self.n)
            for c in range(self.n)
            if index[b] == index[c] and y[b] > y[c]
        ]


def check_statistics(case: Case, plan: PairPlan, truth: PairPlan, x: Array) -> None:
    """All that a plan tells, against the truth."""
    assert plan.total == truth.total
    np.testing.assert_array_equal(plan.imbalance, truth.imbalance)
    for got, expected in zip(plan.counts(), truth.counts(), strict=True):
        np.testing.assert_array_equal(got, expected)
    if np.abs(case.scores).max() <= 1e304:  # else the sums overflow, whoever adds them up
        close(
            plan.score_laplacian(),
            truth.score_laplacian(),
            case.tolerance(case.scores, centred=True),
        )
        close(
            plan.laplacian(case.scores),
            truth.score_laplacian(),
            case.tolerance(case.scores, centred=True),
        )
    if np.abs(x).max() <= 1e304:
        close(plan.laplacian(x), truth.laplacian(x), case.tolerance(x, centred=True))
        for got, expected in zip(plan.sums(x), truth.sums(x), strict=True):
            close(got, expected, case.tolerance(x, centred=False))


def close(got: Array, expected: Array, tolerance: Array) -> None:
    error = np.abs(got - expected)
    assert np.all(error <= tolerance), f"{got} instead of {expected}, off by {error / tolerance}"


def check_counting(case: Case, counting: str, x: Array, threads=THREADS) -> None:
    reference = case.reference()
    with np.errstate(all="ignore"):
        truth = reference.at(case.scores).plan(case.margin, products=True)
        for n_threads in threads:
            backend = case.native(counting, n_threads)
            assert list(backend.pairs) == list(reference.pairs)
            np.testing.assert_array_equal(backend.pair_weights, reference.pair_weights)
            snapshot = backend.at(case.scores)
            for products in (True, False):
                plan = snapshot.plan(case.margin, products=products)
                check_statistics(case, plan, truth, x)


# --- Every counting against the definition -------------------------------------------------------

GRID = st.integers(-6, 6).map(lambda k: k / 4)  # differences that meet the margins exactly
SCORES = st.one_of(
    GRID,
    st.floats(-3, 3),
    st.sampled_from([0.0, -0.0, 1e300, -1e300, 1e-300, -1e-300, 5e-324, 1.7e308, -1.7e308]),
    GRID.map(lambda s: 1e12 + s),
    st.floats(allow_nan=False, allow_infinity=False, width=64),
)
MODERATE = st.one_of(GRID, st.floats(-3, 3))
WEIGHTS = st.sampled_from([0.0, 0.125, 0.5, 1.0, 1.0, 2.0, 3.0])
UTILITIES = st.one_of(
    st.integers(0, 2).map(float),
    st.floats(-2, 2),
    st.sampled_from([0.0, -0.0, 1e300, -1e300, 1e-300, 5e-324, 1.0, np.nextafter(1.0, 2.0)]),
)
QUERIES = st.one_of(
    st.just(["q"]),
    st.just([3, -1, 2**40]),
    st.just(["a", "b", "a longer name", ""]),
)


@st.composite
def cases(draw, scores=SCORES, max_size: int = 14, max_margin: float = 1.0) -> Case:
    n = draw(st.integers(1, max_size))

    def column(values) -> list:
        return draw(st.lists(values, min_size=n, max_size=n))

    ids = draw(QUERIES)
    qid = draw(st.one_of(st.none(), st.lists(st.sampled_from(ids), min_size=n, max_size=n)))
    n_queries = QueryGroups.from_qid(qid, n).n_queries
    return Case(
        utility=np.array(column(UTILITIES)),
        qid=qid,
        scores=np.array(column(scores)),
        item_weight=np.array(column(WEIGHTS)) if draw(st.booleans()) else None,
        query_weight=np.array(draw(st.lists(WEIGHTS, min_size=n_queries, max_size=n_queries)))
        if draw(st.booleans())
        else None,
        margin=draw(st.sampled_from([m for m in (1.0, 0.5, 1e-3) if m <= max_margin])),
    )


@every_counting
@given(case=cases(), data=st.data())
def test_counting_is_brute_force_on_small_queries(counting: str, case: Case, data) -> None:
    payload = st.lists(SCORES, min_size=case.n, max_size=case.n)
    check_counting(case, counting, np.array(data.draw(payload)))


def spread(kind: str, rng: np.random.Generator, n: int) -> Array:
    """Scores of one kind."""
    if kind == "ties":
        return rng.integers(-4, 5, n) / 4
    if kind == "equal":
        return np.full(n, 0.3)
    if kind == "tiny":
        return rng.normal(size=n) * 1e-300
    if kind == "denormal":
        return rng.integers(-5, 6, n) * 5e-324
    if kind == "huge":
        return rng.normal(size=n) * 1e300
    if kind == "outliers":
        return np.where(
            rng.random(n) < 0.1, rng.choice([-1e300, 1e300, 1e15], n), rng.normal(size=n)
        )
    if kind == "offset":
        return 1e12 + rng.normal(size=n)
    if kind == "coarse":  # the distance of neighbouring doubles is 2 here
        return 1e16 + rng.integers(0, 6, n) * 2.0
    return rng.normal(size=n)


SPREADS = (
    "normal", "ties", "equal", "tiny", "denormal", "huge", "outliers", "offset", "coarse",
)  # fmt: skip
LEVELS = (1, 2, 5, 40, None)  # None: distinct utilities


def utilities(levels: int | None, rng: np.random.Generator, n: int) -> Array:
    return rng.permutation(n).astype(float) if levels is None else rng.integers(0, levels, n) * 0.1


# On both sides of the sizes where the native code changes its way of working: one or two words of
# bits an item (64 and 128 items), and one node of the tree of radix counting, which has at most 15
# children.
SIZES = (1, 2, 3, 15, 16, 17, 63, 64, 65, 66, 127, 128, 129, 130, 200)


@every_counting
@given(
    sizes=st.lists(st.sampled_from(SIZES), min_size=1, max_size=3),
    levels=st.sampled_from(LEVELS),
    kind=st.sampled_from(SPREADS),
    margin=st.sampled_from([1.0, 0.5]),
    item_weights=st.booleans(),
    query_weights=st.booleans(),
    seed=st.integers(0, 2**32),
)
def test_counting_is_brute_force_on_larger_queries(
    counting: str, sizes, levels, kind, margin, item_weights, query_weights, seed
) -> None:
    rng = np.random.default_rng(seed)
    n = sum(sizes)
    case = Case(
        utility=utilities(levels, rng, n),
        qid=rng.permutation(np.repeat(np.arange(len(sizes)), sizes)),
        scores=spread(kind, rng, n),
        item_weight=rng.choice([0.0, 0.125, 1.0, 3.0], n) if item_weights else None,
        query_weight=rng.choice([0.0, 0.25, 2.0], len(sizes)) if query_weights else None,
        margin=margin,
    )
    check_counting(case, counting, rng.normal(size=n), threads=(1, 2))


@every_counting
@pytest.mark.parametrize("levels", LEVELS)
@pytest.mark.parametrize("size", [63, 64, 65, 66, 127, 128, 129, 1000])
def test_counting_is_brute_force_at_the_thresholds(counting: str, size: int, levels) -> None:
    rng = np.random.default_rng(size)
    for kind in ("normal", "ties"):
        for weight in (None, rng.choice([0.0, 0.125, 1.0, 3.0], size)):
            case = Case(utilities(levels, rng, size), None, spread(kind, rng, size), weight)
            check_counting(case, counting, rng.normal(size=size), threads=(2,))


@every_counting
def test_rows_in_any_order(counting: str) -> None:
    """Shuffled rows give shuffled statistics, whatever the ids are made of."""
    rng = np.random.default_rng(1)
    sizes = [1, 70, 5, 64, 1, 130]
    names = np.array(["one", "two", "three", "four", "five", "six"])
    n = sum(sizes)
    index = np.repeat(np.arange(len(sizes)), sizes)
    grouped = Case(utilities(5, rng, n), index, spread("ties", rng, n), rng.choice([0.5, 1.0], n))
    x = rng.normal(size=n)
    shuffle = rng.permutation(n)
    shuffled = Case(
        grouped.utility[shuffle],
        names[index[shuffle]].tolist(),
        grouped.scores[shuffle],
        grouped.item_weight[shuffle],
    )
    here = grouped.native(counting, 2).at(grouped.scores).plan(1.0, products=True)
    there = shuffled.native(counting, 2).at(shuffled.scores).plan(1.0, products=True)
    assert here.total == there.total
    np.testing.assert_array_equal(here.imbalance[shuffle], there.imbalance)
    for a, b in zip(here.counts(), there.counts(), strict=True):
        np.testing.assert_array_equal(a[shuffle], b)
    products = zip(
        (*here.sums(x), here.laplacian(x), here.score_laplacian()),
        (*there.sums(x[shuffle]), there.laplacian(x[shuffle]), there.score_laplacian()),
        strict=True,
    )
    for a, b in products:
        np.testing.assert_allclose(a[shuffle], b, rtol=0, atol=1e-12)


@every_counting
def test_many_small_queries(counting: str) -> None:
    """More items than one thread takes at a time, in queries of all small sizes."""
    rng = np.random.default_rng(2)
    sizes = rng.integers(1, 12, 1500)
    n = int(sizes.sum())
    case = Case(
        utilities(3, rng, n),
        rng.permutation(np.repeat(np.arange(1500), sizes)),
        spread("ties", rng, n),
        rng.choice([0.0, 0.5, 1.0], n),
        rng.choice([0.0, 1.0, 0.25], 1500),
    )
    x = rng.normal(size=n)
    # The reference is quadratic in all items: query by query it is not.
    expected = {
        name: np.zeros(n) for name in ("above", "below", "sum_above", "sum_below", "laplacian")
    }
    groups = case.groups
    for q in range(groups.n_queries):
        rows = groups.rows[groups.offsets[q] : groups.offsets[q + 1]]
        part = Case(
            case.utility[rows], None, case.scores[rows], case.item_weight[rows],
            case.query_weight[q : q + 1],
        )  # fmt: skip
        truth = part.reference().at(part.scores).plan(1.0, products=True)
        expected["above"][rows], expected["below"][rows] = truth.counts()
        expected["sum_above"][rows], expected["sum_below"][rows] = truth.sums(x[rows])
        expected["laplacian"][rows] = truth.laplacian(x[rows])
    for n_threads in THREADS:
        plan = case.native(counting, n_threads).at(case.scores).plan(1.0, products=True)
        above, below = plan.counts()
        np.testing.assert_array_equal(above, expected["above"])
        np.testing.assert_array_equal(below, expected["below"])
        assert plan.total == expected["above"].sum()
        sum_above, sum_below = plan.sums(x)
        np.testing.assert_allclose(sum_above, expected["sum_above"], rtol=0, atol=1e-12)
        np.testing.assert_allclose(sum_below, expected["sum_below"], rtol=0, atol=1e-12)
        np.testing.assert_allclose(plan.laplacian(x), expected["laplacian"], rtol=0, atol=1e-12)


# --- Large queries: threads inside one query -----------------------------------------------------


def large_case(n: int, kind: str, weighted: bool) -> Case:
    rng = np.random.default_rng(n)
    utility = {
        "distinct": lambda: rng.permutation(n).astype(float),
        "few levels": lambda: rng.integers(0, 5, n).astype(float),
        # One level that no child of a node can share, between many small ones.
        "giant level": lambda: np.where(rng.random(n) < 0.7, 0.5, rng.random(n)),
    }[kind]()
    scores = rng.normal(size=n)
    scores[::3] = np.round(scores[::3], 1)
    weight = rng.choice([0.0, 0.125, 1.0, 3.0], n) if weighted else None
    return Case(utility, None, scores, weight)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["distinct", "few levels", "giant level"])
@pytest.mark.parametrize(
    "n", [65_536, 65_537, 70_000, pytest.param(200_000, marks=pytest.mark.slow)]
)
def test_auto_is_the_tree_on_large_queries(n: int, kind: str, weighted: bool) -> None:
    case = large_case(n, kind, weighted)
    x = np.random.default_rng(3).normal(size=n)
    truth = case.native("tree").at(case.scores).plan(1.0, products=True)
    plan = case.native("auto", 2).at(case.scores).plan(1.0, products=True)
    assert plan.total == truth.total
    for got, expected in zip(plan.counts(), truth.counts(), strict=True):
        np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(plan.imbalance, truth.imbalance)
    # n times as many additions as a small query has.
    scale = case.weights * case.weights.sum() * np.abs(x).max()
    for got, expected in zip(plan.sums(x), truth.sums(x), strict=True):
        close(got, expected, 1e-12 * scale + 1e-300)
    close(plan.laplacian(x), truth.laplacian(x), 1e-12 * scale + 1e-300)
    scale = case.weights * case.weights.sum() * np.abs(case.scores).max()
    close(plan.score_laplacian(), truth.score_laplacian(), 1e-12 * scale + 1e-300)


@pytest.mark.parametrize("kind", ["ties", "equal", "outliers", "huge", "coarse", "offset"])
def test_auto_is_the_tree_on_large_queries_with_odd_scores(kind: str) -> None:
    n = 70_001
    rng = np.random.default_rng(4)
    case = Case(rng.permutation(n).astype(float), None, spread(kind, rng, n))
    for scores in (case.scores, np.sort(case.scores), -np.sort(case.scores)):
        case = replace(case, scores=scores)
        truth = case.native("tree").at(scores).plan(0.5, products=False)
        plan = case.native("auto", 2).at(scores).plan(0.5, products=True)
        assert plan.total == truth.total
        for got, expected in zip(plan.counts(), truth.counts(), strict=True):
            np.testing.assert_array_equal(got, expected)


def test_large_and_small_queries_together() -> None:
    rng = np.random.default_rng(5)
    sizes = [3, 66_000, 64, 900, 1, 70_000, 40]
    n = sum(sizes)
    case = Case(
        utilities(300, rng, n),
        rng.permutation(np.repeat(np.arange(len(sizes)), sizes)),
        rng.normal(size=n),
        query_weight=np.array([1.0, 0.5, 2.0, 1.0, 1.0, 0.0, 4.0]),
    )
    truth = case.native("tree").at(case.scores).plan(1.0, products=True)
    plan = case.native("auto", 2).at(case.scores).plan(1.0, products=True)
    assert plan.total == truth.total
    for got, expected in zip(plan.counts(), truth.counts(), strict=True):
        np.testing.assert_array_equal(got, expected)
    x = rng.normal(size=n)
    np.testing.assert_allclose(plan.laplacian(x), truth.laplacian(x), rtol=0, atol=1e-7)


@pytest.mark.parametrize("kind", ["distinct", "few levels", "giant level"])
@pytest.mark.parametrize("n", [1000, 200_000])
def test_auto_gives_the_same_bits_for_every_thread_count(n: int, kind: str) -> None:
    case = large_case(n, kind, weighted=True)
    case = replace(case, item_weight=np.random.default_rng(6).random(n))  # not exact at all
    x = np.random.default_rng(7).normal(size=n)

    def everything(n_threads: int) -> list[Array]:
        snapshot = case.native("auto", n_threads).at(case.scores)
        plan = snapshot.plan(0.5, products=True)
        return [
            np.array([plan.total]), plan.imbalance, *plan.counts(), *plan.sums(x),
            plan.laplacian(x), plan.score_laplacian(), snapshot.centred,
        ]  # fmt: skip

    one = everything(1)
    for n_threads in (2, 3, 8):
        for a, b in zip(one, everything(n_threads), strict=True):
            np.testing.assert_array_equal(a, b)


def test_a_plan_outlives_its_snapshot_and_changes_nothing() -> None:
    """Scores are read once; later products and other plans do not disturb each other."""
    case = large_case(3000, "distinct", weighted=False)
    for counting in COUNTINGS:
        scores = case.scores.copy()
        backend = case.native(counting)
        plan = backend.at(scores).plan(1.0, products=True)
        first = plan.laplacian(case.scores)
        other = backend.at(-case.scores).plan(0.5, products=True)
        other.laplacian(case.scores)
        np.testing.assert_array_equal(plan.laplacian(case.scores), first)
        np.testing.assert_array_equal(scores, case.scores)


def test_comparable_pairs_are_counted_exactly() -> None:
    n = 200_000
    assert list(Case(np.arange(n, dtype=float), None, np.zeros(n)).native().pairs) == [
        n * (n - 1) // 2
    ]
    case = Case(np.repeat([0.0, 1.0], n // 2), None, np.zeros(n))
    assert list(case.native().pairs) == [(n // 2) ** 2]
    # At equal scores every pair is violated; the total is exact below 2^53.
    assert case.native().at(case.scores).plan(1.0, products=False).total == (n // 2) ** 2


def test_more_items_than_the_index_type_holds_are_refused(untouched) -> None:
    n = 2**32
    utility, rows = untouched(n, np.float64), untouched(n, np.int64)
    with pytest.raises(ValueError, match=r"2\^32 - 2\^18 items .* got 4294967296"):
        _core.Order(utility, rows, np.array([0, n]), None, None, 1)


NOT_FINITE = """
import numpy as np
from ranksvm.backends.native import NativeBackend
from ranksvm.data.queries import QueryGroups
from ranksvm.pairs.order import PairOrder

for n in (3, 600, 10_000):  # one for each way of sorting
    order = PairOrder(np.arange(n, dtype=float), QueryGroups.from_qid(None, n))
    for counting in ("auto", "tree"):
        for value in (np.nan, np.inf, -np.inf):
            scores = np.arange(n, dtype=float)
            scores[n // 2] = value
            print(n, counting, value, end=": ", flush=True)
            try:
                NativeBackend(order, counting=counting).at(scores).plan(1.0, products=True)
                print("taken as they are", flush=True)
            except (ValueError, OverflowError) as error:
                print(error, flush=True)
"""


def test_scores_that_are_not_finite_are_refused() -> None:
    """In a process of its own: there is no order in which such scores could be sorted."""
    run = subprocess.run([sys.executable, "-c", NOT_FINITE], capture_output=True, text=True)
    assert run.returncode == 0, f"ended with {run.returncode} after {run.stdout}{run.stderr}"
    lines = run.stdout.splitlines()
    assert len(lines) == 18
    for line in lines:
        assert re.search("not finite|must be finite|infinit|NaN or|too large|overflow", line), line


@pytest.mark.parametrize("margin", [0.0, -1.0, np.nan])
def test_margins_that_mean_nothing_are_refused(margin: float) -> None:
    case = Case(np.array([0.0, 1.0]), None, np.zeros(2))
    with pytest.raises(ValueError, match="margin must be positive"):
        case.native().at(case.scores).plan(margin, products=False)


def test_unknown_counting_lists_the_valid_ones() -> None:
    listed = "'auto', 'tree', 'direct', 'joachims', 'pairs'; got 'quick'"
    with pytest.raises(ValueError, match=listed):
        NativeBackend(Case(np.zeros(1), None, np.zeros(1)).order(), counting="quick")


# --- Losses against a loop over pairs ------------------------------------------------------------


def loop_power(case: Case, power: int, margin: float = 1.0) -> tuple[float, Array, Array]:
    """Value, gradient and Hessian of sum weight * max(0, margin - s_b + s_w)^power."""
    s = case.scores
    value, grad, hess = 0.0, np.zeros(case.n), np.zeros((case.n, case.n))
    for b, w, weight in case.pairs():
        slack = margin - (s[b] - s[w])
        if s[b] - s[w] < margin:
            value += weight * slack**power
            slope = weight * power * slack ** (power - 1)
            grad[b] -= slope
            grad[w] += slope
            edge = np.zeros(case.n)
            edge[b], edge[w] = -1.0, 1.0
            hess += weight * power * (power - 1) * np.outer(edge, edge)
    return value, grad, hess


def loop_smoothed(case: Case, mu: float) -> tuple[float, Array, Array, float]:
    """Value, gradient, Hessian of the smoothed hinge, and the sum of its multipliers."""
    s = case.scores
    value, multipliers = 0.0, 0.0
    grad, hess = np.zeros(case.n), np.zeros((case.n, case.n))
    for b, w, weight in case.pairs():
        slack = 1.0 - s[b] + s[w]
        slope = min(1.0, max(0.0, slack / mu))
        value += weight * (max(0.0, slack) ** 2 - max(0.0, slack - mu) ** 2) / (2.0 * mu)
        multipliers += weight * slope
        grad[b] -= weight * slope
        grad[w] += weight * slope
        if s[b] - s[w] < 1.0 and not s[b] - s[w] < 1.0 - mu:
            edge = np.zeros(case.n)
            edge[b], edge[w] = -1.0, 1.0
            hess += weight / mu * np.outer(edge, edge)
    return value, grad, hess, multipliers


def backends(case: Case) -> list[PairBackend]:
    return [case.reference(), *(case.native(c, t) for c in COUNTINGS for t in (1, 2))]


@given(case=cases(scores=MODERATE, max_size=10))
def test_hinge_is_the_sum_over_pairs(case: Case) -> None:
    value, grad, _ = loop_power(case, 1)
    for backend in backends(case):
        at = Hinge(backend).at(case.scores)
        assert at.value == pytest.approx(value, rel=1e-12, abs=1e-11)
        assert at.stated == at.value
        np.testing.assert_allclose(at.grad, grad, rtol=0, atol=1e-11)
        weight = sum(w for b, c, w in case.pairs() if case.scores[b] - case.scores[c] < 1.0)
        assert (at.dual_linear, at.dual_quadratic, at.dual_scale) == (weight, 0.0, 1.0)
        assert at.hessp is None


@given(case=cases(scores=MODERATE, max_size=10), data=st.data())
def test_squared_hinge_is_the_sum_over_pairs(case: Case, data) -> None:
    x = np.array(data.draw(st.lists(st.floats(-2, 2), min_size=case.n, max_size=case.n)))
    value, grad, hess = loop_power(case, 2)
    linear = loop_power(case, 1)[0]
    for backend in backends(case):
        at = SquaredHinge(backend).at(case.scores)
        assert at.value == pytest.approx(value, rel=1e-12, abs=1e-10)
        assert at.stated == at.value
        np.testing.assert_allclose(at.grad, grad, rtol=0, atol=1e-10)
        np.testing.assert_allclose(at.hessp(x), hess @ x, rtol=0, atol=1e-10)
        ((degree, groups),) = at.degrees()
        assert groups is backend.groups
        np.testing.assert_allclose(degree, np.diag(hess), rtol=0, atol=1e-10)
        assert at.dual_linear == pytest.approx(2.0 * linear, rel=1e-12, abs=1e-10)
        assert at.dual_quadratic == pytest.approx(value, rel=1e-12, abs=1e-10)
        assert at.dual_scale == np.inf


@pytest.mark.parametrize("mu", [0.5, 0.125, 2.0**-10])
@given(case=cases(scores=MODERATE, max_size=10), data=st.data())
def test_smoothed_hinge_is_the_sum_over_pairs(mu: float, case: Case, data) -> None:
    x = np.array(data.draw(st.lists(st.floats(-2, 2), min_size=case.n, max_size=case.n)))
    # The Hessian jumps where a slack is 0 or mu, and scores may be rounded to a grid.
    slacks = np.array([1.0 - case.scores[b] + case.scores[w] for b, w, _ in case.pairs()])
    jumps = np.abs(np.append(slacks, slacks - mu))
    assume(((jumps == 0.0) | (jumps > 1e-12)).all())
    value, grad, hess, multipliers = loop_smoothed(case, mu)
    stated = loop_power(case, 1)[0]
    atol = 1e-10 / mu  # differences of nearly equal sums
    for backend in backends(case):
        at = SmoothedHinge(backend, mu).at(case.scores)
        assert at.value == pytest.approx(value, abs=atol)
        assert at.stated == pytest.approx(stated, abs=1e-10)
        np.testing.assert_allclose(at.grad, grad, rtol=0, atol=atol)
        np.testing.assert_allclose(at.hessp(x), hess @ x, rtol=0, atol=atol)
        ((degree, groups),) = at.degrees()
        assert groups is backend.groups
        np.testing.assert_allclose(degree, np.diag(hess), rtol=0, atol=atol)
        assert at.dual_linear == pytest.approx(multipliers, abs=atol)
        assert at.dual_quadratic == 0.0
        assert 1.0 - 1e-14 / mu <= at.dual_scale <= 1.0
        assert at.value <= at.stated + atol  # a stand-in from below


@pytest.mark.parametrize("mu", [0.0, 1.0, -0.5, np.nan])
def test_smoothing_outside_its_range_is_refused(mu: float) -> None:
    with pytest.raises(ValueError, match=r"mu must lie in \(0, 1\)"):
        SmoothedHinge(Case(np.zeros(1), None, np.zeros(1)).native(), mu)


@pytest.mark.parametrize("loss", LOSSES)
@every_counting
def test_losses_do_not_see_the_offset_of_a_query(counting: str, loss: str) -> None:
    """Scores far from zero lose what their own rounding costs, and no more."""
    rng = np.random.default_rng(8)
    n = 300
    qid = rng.integers(0, 4, n)
    scores = np.round(rng.normal(size=n), 3)
    offset = np.array([0.0, 1e6, -1e9, 3e3])[qid]
    case = Case(utilities(4, rng, n), qid, scores + offset)
    back = case.scores - offset  # exactly what is left of the scores
    near = LOSSES[loss](case.native(counting)).at(back)
    far = LOSSES[loss](case.native(counting)).at(case.scores)
    assert far.value == pytest.approx(near.value, rel=1e-9)
    np.testing.assert_allclose(far.grad, near.grad, rtol=0, atol=1e-7)


# --- Derivatives ---------------------------------------------------------------------------------


def smooth_case(seed: int, n: int, kinks: tuple[float, ...]) -> Case:
    """A case none of whose pairs has its margin near one of the kinks."""
    rng = np.random.default_rng(seed)
    while True:
        case = Case(
            utilities(4, rng, n),
            rng.integers(0, 3, n),
            rng.normal(size=n),
            rng.random(n),
            rng.random(3) + 0.5,
        )
        slack = np.array([1.0 - case.scores[b] + case.scores[w] for b, w, _ in case.pairs()])
        if case.groups.n_queries == 3 and all(abs(slack - kink).min() > 1e-4 for kink in kinks):
            return case


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", ["hinge", "squared_hinge", "smoothed"])
@every_counting
def test_numeric_derivatives(counting: str, name: str, seed: int) -> None:
    mu = 0.3
    case = smooth_case(seed, 24, (0.0, mu))
    backend = case.native(counting, 2)
    loss: PairLoss = SmoothedHinge(backend, mu) if name == "smoothed" else LOSSES[name](backend)
    at = loss.at(case.scores)
    step = 1e-5
    directions = [*np.eye(case.n)[::5], np.random.default_rng(seed).normal(size=case.n)]
    for d in directions:
        d = d / np.abs(d).max()
        ahead, behind = loss.at(case.scores + step * d), loss.at(case.scores - step * d)
        slope = (ahead.value - behind.value) / (2 * step)
        assert float(at.grad @ d) == pytest.approx(slope, rel=1e-6, abs=1e-6)
        if at.hessp is not None:
            change = (ahead.grad - behind.grad) / (2 * step)
            np.testing.assert_allclose(at.hessp(d), change, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", ["hinge", "squared_hinge"])
def test_objective_has_the_derivatives_of_its_value(name: str) -> None:
    """1/2 |w|^2 + C loss(X w), with all its parts, on the way from w to the value."""
    case = smooth_case(11, 24, ())
    rng = np.random.default_rng(12)
    X = rng.normal(size=(case.n, 5))
    objective = RankObjective(MatrixMap(X), LOSSES[name](case.native()), 0.7)
    if name == "hinge":
        objective = objective.smoothed(0.2)
    w, d = rng.normal(size=5), rng.normal(size=5)
    at = objective.at(objective.point(w))
    truth = 0.5 * w @ w + 0.7 * objective.loss.at(X @ w).value
    assert at.value == pytest.approx(truth, rel=1e-13)
    assert objective.C * at.loss.value == pytest.approx(truth - 0.5 * w @ w, rel=1e-13)
    np.testing.assert_allclose(at.grad, w + at.risk_slope.w, rtol=1e-15)
    step = 1e-6
    ahead, behind = (objective.at(objective.point(w + t * d)) for t in (step, -step))
    assert float(at.grad @ d) == pytest.approx((ahead.value - behind.value) / (2 * step), rel=1e-6)
    direction = objective.point(d)
    change = (ahead.grad - behind.grad) / (2 * step)
    np.testing.assert_allclose(at.hessp(direction), change, rtol=1e-4, atol=1e-4)
    # Along a line: the same numbers without a product with X.
    before = objective.n_products
    trial = at.line(direction)(0.3)
    assert objective.n_products == before
    there = objective.at(objective.point(w + 0.3 * d))
    assert trial.value == pytest.approx(there.value, rel=1e-12)
    assert trial.slope == pytest.approx(float(there.grad @ d), rel=1e-9)
    accepted = trial.accept()
    np.testing.assert_allclose(accepted.grad, there.grad, rtol=0, atol=1e-10)
    assert accepted.dual == pytest.approx(there.dual, rel=1e-9)


# --- Certificates --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["hinge", "squared_hinge", "smoothed"])
@given(case=cases(scores=MODERATE, max_size=10), data=st.data(), share=st.floats(0.0, 1.0))
def test_multipliers_are_feasible_for_the_dual(name: str, case: Case, data, share: float) -> None:
    """Fenchel and Young: theta <g, s'> + theta A1 - theta^2 A2 is below the loss at every s'."""
    backend = case.native()
    loss: PairLoss = SmoothedHinge(backend, 0.25) if name == "smoothed" else LOSSES[name](backend)
    stated = LOSSES["squared_hinge" if name == "squared_hinge" else "hinge"](backend)
    at = loss.at(case.scores)
    theta = share * min(at.dual_scale, 3.0)
    elsewhere = np.array(data.draw(st.lists(MODERATE, min_size=case.n, max_size=case.n)))
    bound = (
        theta * float(at.grad @ elsewhere) + theta * at.dual_linear - theta**2 * at.dual_quadratic
    )
    assert bound <= stated.at(elsewhere).value + 1e-9
