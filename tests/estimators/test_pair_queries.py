"""``fit_pairs`` with query ids, and pairs that the labels imply."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ranksvm import KernelRankSVM, LinearRankSVM
from ranksvm.data.pair_checks import count_implied
from ranksvm.data.preferences import Preferences, pairs_by_query
from ranksvm.data.ranking_data import RankingData

LOSSES = ["squared_hinge", "hinge"]
REDUCTIONS = ["sum", "mean", "query_mean"]


class Data:
    """Queries of one to nine items, not together, with noisy labels; some have one level."""

    def __init__(self, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        sizes = rng.integers(1, 10, 12)
        self.qid = rng.permutation(np.repeat(np.arange(12), sizes))
        self.X = rng.normal(size=(self.qid.size, 4))
        self.y = np.round(self.X @ rng.normal(size=4) + rng.normal(size=self.qid.size))
        self.y[self.qid == 3] = 1.0
        self.item_weight = rng.random(self.qid.size)
        self.query_weight = {q: float(rng.integers(0, 4)) for q in range(12)}
        same = self.qid[:, None] == self.qid[None, :]
        self.better, self.worse = np.nonzero(same & (self.y[:, None] > self.y[None, :]))
        self.weight = self.item_weight[self.better] * self.item_weight[self.worse]


def quietly(model, *arguments, **options):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*preferred both ways")
        warnings.filterwarnings("ignore", message=".*from the labels as well")
        return model.fit_pairs(*arguments, **options)


def check_same(one, other, X) -> None:
    """Two solutions of one problem are equal as far as their gaps tell."""
    assert one.status_ == other.status_ == "converged"
    assert one.n_pairs_ == other.n_pairs_
    assert one.objective_ == pytest.approx(other.objective_, abs=one.gap_ + other.gap_)
    apart = np.sqrt(2 * one.gap_) + np.sqrt(2 * other.gap_) + 1e-7
    reach = 1.5 if isinstance(one, KernelRankSVM) else np.linalg.norm(X, axis=1).max()
    assert np.abs(one.predict(X) - other.predict(X)).max() <= reach * apart


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(
    ("make", "options"),
    [
        (LinearRankSVM, {}),
        (KernelRankSVM, {"gamma": 0.3}),
        (
            KernelRankSVM,
            {"gamma": 0.3, "approximation": "nystroem", "n_components": 20, "random_state": 0},
        ),
    ],
)
def test_all_pairs_of_the_labels_give_the_model_of_the_labels(
    make, options, loss: str, reduction: str, weighted: bool
) -> None:
    data = Data()
    C = 0.1 if reduction == "sum" else 10.0
    model = make(C, loss=loss, reduction=reduction, tol=1e-6, scaling=None, **options)
    extra = {"qid": data.qid}
    if weighted:
        extra["query_weight"] = data.query_weight
    sample_weight = data.item_weight if weighted else None
    weight = data.weight if weighted else None
    fitted = model.fit(data.X, data.y, **extra, sample_weight=sample_weight)
    listed = make(**model.get_params())
    listed.fit_pairs(data.X, data.better, data.worse, weight=weight, **extra)
    check_same(fitted, listed, data.X)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("loss", LOSSES)
def test_pairs_of_labels_and_of_a_list_are_one_query(loss: str, reduction: str) -> None:
    """Half of the pairs of each query are given, and half follow from the labels."""
    data = Data(seed=1)
    model = LinearRankSVM(
        0.1 if reduction == "sum" else 10.0, loss=loss, reduction=reduction, tol=1e-7, scaling=None
    )
    twice = np.tile(data.better, 2), np.tile(data.worse, 2)
    both = quietly(
        LinearRankSVM(**model.get_params()), data.X, data.better, data.worse, y=data.y, qid=data.qid
    )
    listed = model.fit_pairs(data.X, *twice, qid=data.qid)
    check_same(both, listed, data.X)
    if reduction == "query_mean":  # every pair twice: the same means
        plain = LinearRankSVM(**model.get_params()).fit(data.X, data.y, qid=data.qid)
        assert both.objective_ == pytest.approx(plain.objective_, abs=both.gap_ + plain.gap_)


def objective(coef, X, better, worse, weight, C, loss) -> float:
    slack = np.maximum(0.0, 1.0 - (X[better] - X[worse]) @ coef)
    return float(0.5 * coef @ coef + C * weight @ (slack if loss == "hinge" else slack**2))


@pytest.mark.parametrize("with_labels", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
def test_the_objective_is_the_mean_over_queries(loss: str, with_labels: bool) -> None:
    """Spelled out: queries with given pairs, with pairs of labels, with both, and across."""
    data = Data(seed=2)
    rng = np.random.default_rng(3)
    n = data.qid.size
    better = rng.integers(0, n, 60)
    worse = (better + rng.integers(1, n, 60)) % n
    weight = rng.random(60)
    C, query_weight = 5.0, data.query_weight
    model = quietly(
        LinearRankSVM(C, loss=loss, reduction="query_mean", tol=1e-6, scaling=None),
        data.X, better, worse,
        weight=weight, y=data.y if with_labels else None, qid=data.qid, query_weight=query_weight,
    )  # fmt: skip
    lists = {q: [] for q in [*range(12), "across"]}
    for b, w, v in zip(better, worse, weight, strict=True):
        lists[data.qid[b] if data.qid[b] == data.qid[w] else "across"].append((b, w, v))
    if with_labels:
        for b, w in zip(data.better, data.worse, strict=True):
            lists[data.qid[b]].append((b, w, 1.0))
    own = {**query_weight, "across": 1.0}
    total = sum(own[q] for q, pairs in lists.items() if pairs)
    rows = [
        (b, w, own[q] / total * v / sum(one[2] for one in pairs))
        for q, pairs in lists.items()
        for b, w, v in pairs
    ]
    pairs = [np.array(column) for column in zip(*rows, strict=True)]
    value = objective(model.coef_, data.X, *pairs, C, loss)
    assert model.objective_ == pytest.approx(value, rel=1e-10)
    assert model.n_pairs_ == np.count_nonzero(pairs[2])
    plain = quietly(
        LinearRankSVM(C, loss=loss, reduction="sum", tol=1e-6, scaling=None),
        data.X, pairs[0], pairs[1],
        weight=pairs[2],
    )  # fmt: skip
    check_same(model, plain, data.X)


@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_query_ids_alone_change_nothing_but_means_over_queries(reduction: str) -> None:
    """To the last bit, where neither the reduction nor a weight asks for queries."""
    data = Data(seed=5)
    rng = np.random.default_rng(6)
    better = rng.integers(0, data.qid.size, 40)
    worse = (better + 1) % data.qid.size
    models = [
        quietly(LinearRankSVM(reduction=reduction, scaling=None), data.X, better, worse, qid=qid)
        for qid in (None, data.qid)
    ]
    np.testing.assert_array_equal(models[0].coef_, models[1].coef_)
    assert models[0].gap_ == models[1].gap_


@pytest.mark.parametrize("weighted", [False, True])
def test_any_number_of_threads_gives_the_same_bits(weighted: bool) -> None:
    rng = np.random.default_rng(0)
    X, qid = rng.normal(size=(20_000, 3)), np.arange(20_000) // 10
    better = rng.integers(0, 20_000, 60_000)
    worse = np.where(rng.random(60_000) < 0.9, better // 10 * 10 + (better + 3) % 10, better - 1)
    worse %= 20_000
    weight = rng.random(60_000) if weighted else None
    found = []
    for n_jobs in (1, 2):
        model = LinearRankSVM(reduction="query_mean", n_jobs=n_jobs, scaling=None)
        found.append(quietly(model, X, better, worse, weight=weight, qid=qid))
    np.testing.assert_array_equal(found[0].coef_, found[1].coef_)
    assert (found[0].objective_, found[0].gap_) == (found[1].objective_, found[1].gap_)


def test_pairs_in_queries_of_weight_zero_count_for_nothing() -> None:
    X = np.random.default_rng(0).normal(size=(6, 2))
    qid = [0, 0, 1, 1, 2, 2]
    for make in (LinearRankSVM, KernelRankSVM):
        model = make().fit_pairs(X, [0, 2, 4], [1, 3, 5], qid=qid, query_weight=[1.0, 0.0, 2.0])
        few = make().fit_pairs(X, [0, 4], [1, 5], qid=qid, query_weight=[1.0, 5.0, 2.0])
        np.testing.assert_allclose(model.predict(X), few.predict(X), rtol=1e-9)
        assert model.n_pairs_ == few.n_pairs_ == 2
        with pytest.raises(ValueError, match="times its query_weight, every pair has weight zero"):
            make().fit_pairs(X, [0], [1], qid=qid, query_weight=[0.0, 1.0, 1.0])


# --- Pairs that count twice ----------------------------------------------------------------------


@given(
    items=st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 2), st.sampled_from([0.0, 1.0])),
        min_size=2,
        max_size=8,
    ),
    data=st.data(),
)
def test_pairs_that_follow_from_the_labels_are_counted(items, data) -> None:
    y, qid, item_weight = (np.array(column) for column in zip(*items, strict=True))
    n = len(y)
    one = st.tuples(st.integers(0, n - 1), st.integers(1, n - 1), st.sampled_from([None, 0.0, 2.0]))
    pairs = data.draw(st.lists(one, min_size=1, max_size=8))
    better = np.array([b for b, *_ in pairs])
    worse = np.array([(b + step) % n for b, step, _ in pairs])
    weight = np.array([1.0 if v is None else v for *_, v in pairs])
    with_queries = data.draw(st.booleans())
    known = RankingData(np.zeros((n, 1)), y.astype(float), qid if with_queries else None)
    listed = Preferences(better, worse, weight)
    if with_queries:
        listed = pairs_by_query(listed, known.groups)
    own = data.draw(st.lists(st.sampled_from([0.0, 3.0]), min_size=3, max_size=3).map(np.array))[
        : known.groups.n_queries
    ]
    for items_weighted in (False, True):
        for queries_weighted in (False, True):
            weighted = RankingData(
                known.X, known.y, known.qid, preferences=listed,
                item_weight=item_weight if items_weighted else None,
                query_weight=own if queries_weighted else None,
            )  # fmt: skip
            expected = 0
            for b, w, v in zip(better, worse, weight, strict=True):
                query = known.groups.index[b]
                expected += bool(
                    query == known.groups.index[w]
                    and y[b] > y[w]
                    and v > 0.0
                    and (not items_weighted or item_weight[b] * item_weight[w] > 0.0)
                    and (not queries_weighted or own[query] > 0.0)
                )
            assert count_implied(weighted) == expected
    assert count_implied(RankingData(known.X, None, known.qid, preferences=listed)) == 0


@pytest.mark.parametrize("make", [LinearRankSVM, KernelRankSVM])
def test_a_warning_says_how_many_pairs_count_twice(make) -> None:
    X = np.random.default_rng(0).normal(size=(6, 2))
    y, qid = [2, 1, 0, 1, 0, 0], [0, 0, 0, 1, 1, 1]
    with pytest.warns(UserWarning, match="from the labels as well") as found:
        make().fit_pairs(X, [0, 0, 2, 3], [1, 1, 0, 0], y=y, qid=qid)
    (one,) = found
    assert one.filename == __file__
    assert str(one.message) == (
        "2 of 4 pairs follow from the labels as well and count twice. Drop these pairs from better "
        "and worse, unless they are meant to have more weight, or pass no y."
    )
    message = r"1 of 1 pair follows from .* and counts twice\. Drop this pair .* it is meant"
    with pytest.warns(UserWarning, match=message):
        make().fit_pairs(X, [0], [4], y=y)  # one ranking
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make().fit_pairs(X, [0, 1], [4, 0], y=y, qid=qid)
