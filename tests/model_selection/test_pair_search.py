"""Searches over explicit pairs: folds that keep them together, their metric, the estimators."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

from ranksvm import KernelRankSVM, KernelRankSVMCV, LinearRankSVM, LinearRankSVMCV, load
from ranksvm.data.pair_groups import connected_groups
from ranksvm.data.preferences import Preferences, pairs_by_query
from ranksvm.data.ranking_data import RankingData
from ranksvm.learners import LinearSettings, make_problem, total_pair_weight
from ranksvm.model_selection import QueryKFold, search
from ranksvm.model_selection.choice import choose_metric
from ranksvm.model_selection.judges import PairJudge, judge_named
from ranksvm.model_selection.pair_folds import pair_folds
from ranksvm.model_selection.splits import make_splits
from ranksvm.model_selection.splitters import folds_of
from ranksvm.pairs.accuracy import preference_accuracy

CS = [0.01, 0.1, 1.0, 10.0]


def sample(seed: int = 0, *, n: int = 240, per_query: int = 6) -> RankingData:
    """Items in queries, with labels and pairs inside queries that disagree with some labels."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    value = X @ rng.normal(size=5)
    y = np.round(value + rng.normal(size=n))
    qid = rng.permutation(np.arange(n) // per_query)
    place = rng.integers(0, n, n)
    other = place // per_query * per_query + (place + rng.integers(1, per_query, n)) % per_query
    by_query = np.argsort(qid, kind="stable")
    first, second = by_query[place], by_query[other]
    assert (qid[first] == qid[second]).all()
    noisy = value[first] - value[second] + rng.normal(size=first.size) > 0.0
    better, worse = np.where(noisy, first, second), np.where(noisy, second, first)
    data = RankingData(X, y, qid)
    pairs = Preferences(better, worse, rng.integers(1, 5, better.size) / 2.0)
    return replace(data, preferences=pairs_by_query(pairs, data.groups))


def without_labels(data: RankingData) -> RankingData:
    return replace(data, y=None)


def without_queries(data: RankingData) -> RankingData:
    return replace(data, qid=None, preferences=replace(data.preferences, query=None))


def fit_quietly(model, *arguments, **options):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*preferred both ways")
        warnings.filterwarnings("ignore", message=".*from the labels as well")
        warnings.filterwarnings("ignore", message=".* of the grid, and a ")
        return model.fit_pairs(*arguments, **options)


# --- Folds ---------------------------------------------------------------------------------------


@st.composite
def connected(draw: st.DrawFn) -> RankingData:
    n = draw(st.integers(2, 12))
    qid = np.array(draw(st.lists(st.integers(0, 5), min_size=n, max_size=n)))
    one = st.tuples(st.integers(0, n - 1), st.integers(1, n - 1), st.sampled_from([0.0, 1.0]))
    pairs = draw(st.lists(one, min_size=1, max_size=8))
    better = np.array([b for b, *_ in pairs])
    worse = np.array([(b + step) % n for b, step, _ in pairs])
    listed = Preferences(better, worse, np.array([v for *_, v in pairs]))
    y = np.arange(float(n)) if draw(st.booleans()) else None
    data = RankingData(np.zeros((n, 1)), y, qid if draw(st.booleans()) else None)
    if data.qid is not None:
        listed = pairs_by_query(listed, data.groups)
    return replace(data, preferences=listed)


@given(data=connected(), n_splits=st.integers(2, 4))
def test_folds_keep_queries_and_pairs_together(data: RankingData, n_splits: int) -> None:
    n, listed = data.n_items, data.preferences
    label = list(range(n))

    def join(i: int, j: int) -> None:
        label[:] = [label[i] if one == label[j] else one for one in label]

    for i in range(n):
        for j in range(n):
            if data.qid is not None and data.qid[i] == data.qid[j]:
                join(i, j)
    counting = [
        (b, w) for b, w, v in zip(listed.better, listed.worse, listed.weight, strict=True) if v
    ]
    for b, w in counting:
        join(b, w)
    index = connected_groups(data).index
    for i in range(n):
        for j in range(n):
            assert (index[i] == index[j]) == (label[i] == label[j])
    named = {label[b] for b, _ in counting}
    units = named if data.y is None else set(label)
    if len(units) < n_splits:
        with pytest.raises(ValueError, match=f"cannot make {n_splits} folds: (the|all) pairs "):
            pair_folds(data, n_splits)
        return
    folds = pair_folds(data, n_splits)
    tests = [test for _, test in folds]
    held_out = np.concatenate(tests)
    assert sorted(held_out) == [i for i in range(n) if label[i] in units]
    for train, test in folds:
        assert sorted([*train, *test]) == sorted(held_out)
        assert not {label[i] for i in train} & {label[i] for i in test}
        if data.y is None:
            assert any(b in test for b, _ in counting)
    if data.y is not None:  # as folds of labels, if queries are what pairs connect
        again = QueryKFold(n_splits).split(qid=index)
        for one, other in zip(folds, again, strict=True):
            np.testing.assert_array_equal(one[0], other[0])
            np.testing.assert_array_equal(one[1], other[1])


def test_folds_have_about_as_many_pairs() -> None:
    better = np.concatenate([np.zeros(40, np.int64), 2 * np.arange(1, 41)])
    data = RankingData(np.zeros((100, 1)), preferences=Preferences(better, better + 1))
    folds = pair_folds(data, 3)
    sizes = [np.isin(better, test).sum() for _, test in folds]
    assert sorted(sizes) == [20, 20, 40]


def test_what_cv_may_be() -> None:
    data = sample()
    by_number = folds_of(data, 4)
    by_splitter = folds_of(data, QueryKFold(4))
    listed = folds_of(data, by_number)
    for one, other, third in zip(by_number, by_splitter, listed, strict=True):
        np.testing.assert_array_equal(one[1], other[1])
        assert one is third
    # A splitter is told what is connected.
    across = np.array([0]), np.array([np.flatnonzero(data.qid != data.qid[0])[0]])
    joined = replace(data, preferences=pairs_by_query(Preferences(*across), data.groups))
    for test in (test for _, test in folds_of(joined, QueryKFold(4))):
        assert (across[0][0] in test) == (across[1][0] in test)
    with pytest.raises(ValueError, match="n_splits must be at least 2"):
        folds_of(data, 1)


@pytest.mark.parametrize(
    ("qid", "message"),
    [
        (None, "cannot make 5 folds: the pairs connect all items that they name with each other, "),
        ([0, 0, 1, 1, 2], "cannot make 5 folds: the pairs connect all queries that they name with"),
        ([0, 1, 2, 3, 4], "the pairs connect all queries that they name"),
    ],
)
def test_pairs_that_connect_everything(qid, message: str) -> None:
    X = np.random.default_rng(0).normal(size=(5, 2))
    model = LinearRankSVMCV(scaling=None)
    with pytest.raises(ValueError, match=message) as error:
        model.fit_pairs(X, [0, 1, 2, 3], [1, 2, 3, 4], qid=qid)
    assert "Choose on a validation set (validation). In Python, cv can also be" in str(error.value)
    with pytest.raises(
        ValueError, match=r"leave only 2 groups .* Use at most 2 folds, or choose on a validation"
    ):
        model.fit_pairs(X, [0, 2], [1, 3])
    with pytest.raises(ValueError, match="the pairs connect all queries with each other"):
        model.fit_pairs(X, [0], [4], y=[0, 1, 1, 0, 1], qid=[0, 0, 0, 1, 1])


@pytest.mark.parametrize("model", [LinearRankSVM(scaling=None), LinearRankSVMCV(scaling=None)])
def test_what_other_libraries_call_a_validation_set(model) -> None:
    X = np.zeros((3, 2))
    with pytest.raises(
        TypeError, match=r"pass validation=\(X, better, worse\) to fit_pairs of Lin"
    ):
        model.fit_pairs(X, [0], [1], eval_set=(X, [0], [1]))


def test_pairs_of_one_query_cannot_be_divided() -> None:
    X = np.random.default_rng(0).normal(size=(4, 2))
    for qid, extra in (([0, 0, 0, 0], {"y": [0, 1, 0, 0]}), ([5, 5, 5, 5], {}), ([7, 7, 7, 2], {})):
        with pytest.raises(ValueError, match="all pairs are of one query, and a fold has whole"):
            LinearRankSVMCV(cv=2, scaling=None).fit_pairs(X, [0, 2], [1, 1], qid=qid, **extra)


def test_too_few_queries_have_pairs() -> None:
    X, qid = np.random.default_rng(0).normal(size=(8, 2)), np.repeat(range(4), 2)
    message = "there are only 2 queries with pairs, and a fold has whole queries. Use at most 2"
    with pytest.raises(ValueError, match=message):
        LinearRankSVMCV(cv=3).fit_pairs(X, [0, 2], [1, 3], qid=qid)
    with pytest.raises(ValueError, match="there are only 4 queries, and a fold has whole queries"):
        LinearRankSVMCV(cv=5).fit_pairs(X, [0, 2], [1, 3], qid=qid, y=[0, 1] * 4)
    with pytest.raises(ValueError, match="pairs connect the queries, and leave only 3 groups"):
        LinearRankSVMCV(cv=5).fit_pairs(X, [0, 2], [2, 3], qid=qid, y=[0, 1] * 4)


def test_a_name_close_to_that_of_the_metric_of_pairs() -> None:
    message = r"unknown metric 'pair_acuracy'. Did you mean 'pair_accuracy'\?.* pair_accuracy\.$"
    with pytest.raises(ValueError, match=message):
        judge_named("pair_acuracy")


# --- The metric ----------------------------------------------------------------------------------


def test_the_metric_of_a_search() -> None:
    data = sample()
    bare = without_labels(data)
    assert choose_metric("auto", bare) == (PairJudge(), "pairs without labels")
    assert choose_metric(None, bare)[0].name == "pair_accuracy"
    assert choose_metric(None, data)[0].name == "pairwise_accuracy"
    graded = replace(data, y=np.abs(data.y))
    assert choose_metric(None, graded)[0].name == "ndcg@10"
    assert choose_metric(None, bare, graded)[0].name == "ndcg@10"  # pairs, judged by labels
    assert choose_metric(None, graded, bare)[0].name == "pair_accuracy"
    assert choose_metric("pair_accuracy", graded)[0] == PairJudge()
    assert choose_metric("map", graded)[0].name == "map"
    for metric, judged, message in (
        ("map", bare, "metric='map' needs labels .* Use metric='pair_accuracy'"),
        ("pair_accuracy", replace(data, preferences=None), "needs explicit pairs"),
        ("nonsense", bare, "nonsense"),
    ):
        with pytest.raises(ValueError, match=message):
            choose_metric(metric, judged)


def test_what_a_split_must_have() -> None:
    data = without_labels(without_queries(sample()))
    listed = data.preferences
    everything = np.arange(data.n_items)
    few = np.array([listed.better[0], listed.worse[0]])
    rest = np.setdiff1d(everything, few)
    judge = judge_named("pair_accuracy")
    one = np.array([listed.better[0]])
    with pytest.raises(
        ValueError, match=r"no split to compute pair_accuracy on\. fold 1, held-out"
    ):
        make_splits(data, [(rest, one)], None, judge)
    splits = make_splits(data, [(rest, one), (rest, few)], None, judge)
    assert [split.undefined is None for split in splits] == [False, True]
    with pytest.raises(ValueError, match="1 items are in the training and in the held-out part"):
        make_splits(data, [(everything[1:], np.array([0, 1]))], None, judge)


def brute(data: RankingData, settings: LinearSettings, folds) -> np.ndarray:
    """Scores of all C on all folds, each fit alone."""
    table = []
    for train, test in folds:
        part, held_out = data.take(np.asarray(train)), data.take(np.asarray(test))
        row = []
        for C in CS:
            fit = make_problem(part, replace(settings, C=C)).solve()
            row.append(preference_accuracy(held_out.preferences, held_out.X @ fit.coef))
        table.append(row)
    return np.array(table)


@pytest.mark.parametrize("reduction", ["sum", "mean", "query_mean"])
@pytest.mark.parametrize("loss", ["squared_hinge", "hinge"])
@pytest.mark.parametrize("queries", [True, False])
@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array])
def test_a_search_is_a_fit_for_every_fold_and_candidate(layout, queries, loss, reduction) -> None:
    data = without_labels(sample(n=120))
    if not queries:
        data = without_queries(data)
    settings = LinearSettings(loss=loss, reduction=reduction, tol=1e-9, scaling=None)
    folds = folds_of(data, 3)
    expected = brute(data, settings, folds)
    data = replace(data, X=layout(data.X))
    found = [
        search(data, settings, CS, folds=folds, n_threads=n_threads) for n_threads in (1, 2, 4)
    ]
    for one in found:
        assert (one.metric, one.metric_default_for) == ("pair_accuracy", "pairs without labels")
        np.testing.assert_allclose(one.scores, expected, atol=1e-12)
        np.testing.assert_array_equal(one.objectives, found[0].objectives)
        np.testing.assert_array_equal(one.mean_coef, found[0].mean_coef)
        assert one.separated == one.undefined == one.shortfalls == ()


def test_items_in_no_pair_do_not_keep_a_path_from_guiding_others() -> None:
    """Most training items are in no pair, so a fit knows the scores of a few items only."""
    whole = without_labels(sample())
    few = whole.preferences.take(np.arange(0, len(whole.preferences), 8))
    data = replace(whole, preferences=few)
    settings = LinearSettings(tol=1e-9, scaling=None)
    rows = np.arange(data.n_items)
    folds = [(rows[data.qid % 3 != k], rows[data.qid % 3 == k]) for k in range(3)]
    part = data.take(folds[0][0])
    assert make_problem(part, settings).data.n_items < 0.5 * part.n_items
    found = search(data, settings, CS, folds=folds)
    np.testing.assert_allclose(found.scores, brute(data, settings, folds), atol=1e-12)
    # One fold uses all its items, the others a few: both may lead.
    all_in_pairs = np.unique(np.concatenate([few.better, few.worse]))
    mixed = [(np.setdiff1d(all_in_pairs, test), test) for _, test in folds[:1]] + folds[1:]
    for order in (mixed, mixed[::-1]):
        found = search(data, settings, CS, folds=order, n_threads=2)
        np.testing.assert_allclose(found.scores, brute(data, settings, order), atol=1e-12)


def test_folds_that_separate_pairs_are_told() -> None:
    data = without_labels(without_queries(sample(n=60)))
    rows = np.arange(60)
    folds = [(rows[rows % 3 != k], rows[rows % 3 == k]) for k in range(3)]
    listed = data.preferences
    apart = [(listed.better % 3 == k) != (listed.worse % 3 == k) for k in range(3)]
    found = search(data, LinearSettings(tol=1e-9, scaling=None), CS, folds=folds)
    assert len(found.separated) == 3
    assert found.separated[0] == (
        f"fold 1 has {apart[0].sum()} pairs with one item in the training part and one in the "
        "held-out part, which count in neither."
    )
    np.testing.assert_allclose(
        found.scores, brute(data, LinearSettings(tol=1e-9, scaling=None), folds)
    )
    (message, early), *_ = found.warnings()
    assert not early
    assert str(message).startswith("3 of 3 splits separate items of pairs, the first of them: fold")


@pytest.mark.parametrize("make", [LinearRankSVMCV, KernelRankSVMCV])
def test_a_fold_may_have_all_pairs_of_the_list(make) -> None:
    """The others then learn from labels alone."""
    data = sample(n=90)
    few = {} if make is LinearRankSVMCV else {"gammas": [0.1]}
    (rows,) = np.nonzero(data.qid == 3)
    better, worse = rows[:2], rows[2:4]
    model = make([0.1, 1.0, 10.0], cv=3, reduction="query_mean", tol=1e-8, **few)
    fit_quietly(model, data.X, better, worse, y=data.y, qid=data.qid)
    folds = folds_of(replace(data, preferences=Preferences(better, worse)), 3)
    (k,) = (k for k, (_, test) in enumerate(folds) if rows[0] in test)
    train, test = folds[k]
    plain = LinearRankSVM if make is LinearRankSVMCV else KernelRankSVM
    gamma = {} if make is LinearRankSVMCV else {"gamma": 0.1}
    one = plain(1.0, reduction="query_mean", tol=1e-8, **gamma)
    one.fit(data.X[train], data.y[train], qid=data.qid[train])
    assert model.cv_results_[f"split{k}_objective"][1] == pytest.approx(one.objective_, rel=1e-7)
    score = one.score(data.X[test], data.y[test], data.qid[test])
    assert model.cv_results_[f"split{k}_test_score"][1] == pytest.approx(score, abs=1e-9)


def test_the_default_grid_knows_the_weight_of_all_pairs() -> None:
    data = sample()
    own = np.random.default_rng(0).random(data.groups.n_queries)
    listed = data.preferences
    labels = total_pair_weight(replace(data, preferences=None))
    assert total_pair_weight(without_labels(data)) == pytest.approx(listed.weight.sum())
    assert total_pair_weight(data) == pytest.approx(labels + listed.weight.sum())
    weighted = replace(without_labels(data), query_weight=own)
    assert total_pair_weight(weighted) == pytest.approx(listed.weight @ own[listed.query])
    alone = without_queries(without_labels(data))
    assert total_pair_weight(alone) == pytest.approx(listed.weight.sum())
    across = replace(listed, query=np.full(len(listed), data.groups.n_queries))
    weighted = replace(weighted, preferences=across)
    assert total_pair_weight(weighted) == pytest.approx(listed.weight.sum())


# --- Estimators ----------------------------------------------------------------------------------


def arguments_of(data: RankingData) -> dict[str, np.ndarray]:
    better, worse, weight = data.preferences
    return {"X": data.X, "better": better, "worse": worse, "weight": weight}


@pytest.mark.parametrize("with_labels", [False, True])
def test_linear_models(with_labels: bool, tmp_path) -> None:
    data = sample()
    extra = {"y": data.y, "qid": data.qid} if with_labels else {"qid": data.qid}
    model = fit_quietly(LinearRankSVMCV(CS, cv=3, scaling=None), **arguments_of(data), **extra)
    assert model.metric_ == ("pairwise_accuracy" if with_labels else "pair_accuracy")
    given = data if with_labels else without_labels(data)
    found = search(given, LinearSettings(scaling=None), CS, folds=folds_of(given, 3))
    np.testing.assert_array_equal(model.cv_results_["mean_test_score"], found.means)
    assert found.best["C"] == model.C_
    plain = fit_quietly(LinearRankSVM(model.C_, scaling=None), **arguments_of(data), **extra)
    apart = np.sqrt(2 * plain.gap_) + np.sqrt(2 * model.gap_)
    assert np.linalg.norm(model.coef_ - plain.coef_) <= apart
    model.save(tmp_path / "m.safetensors")
    again = load(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(again.predict(data.X), model.predict(data.X))
    assert model.score_pairs(data.X, data.preferences.better, data.preferences.worse) > 0.6


def test_a_metric_that_is_named() -> None:
    data = sample()
    extra = {"y": np.abs(data.y), "qid": data.qid}
    for metric in ("pair_accuracy", "map"):
        model = fit_quietly(
            LinearRankSVMCV(CS, cv=3, metric=metric, scaling=None), **arguments_of(data), **extra
        )
        assert model.metric_ == metric
    with pytest.raises(ValueError, match="metric='map' needs labels"):
        fit_quietly(
            LinearRankSVMCV(CS, metric="map", scaling=None), **arguments_of(data), qid=data.qid
        )
    with pytest.raises(ValueError, match="metric='pair_accuracy' needs explicit pairs"):
        LinearRankSVMCV(CS, metric="pair_accuracy", scaling=None).fit(data.X, data.y, data.qid)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"approximation": "nystroem", "n_components": 15, "random_state": 0},
        {"kernel": "precomputed"},
    ],
)
def test_kernel_models(options) -> None:
    data = sample(n=90)
    options = {"tol": 1e-8, "scaling": None, **options}
    arguments = arguments_of(data)
    K = np.exp(-0.3 * ((data.X[:, None] - data.X[None]) ** 2).sum(axis=2))
    gammas = {} if "kernel" in options else {"gammas": [0.03, 0.3]}
    if "kernel" in options:
        arguments["X"] = K
    model = fit_quietly(
        KernelRankSVMCV([0.1, 1.0], cv=3, **gammas, **options),
        **arguments,
        qid=data.qid,
    )
    assert model.metric_ == "pair_accuracy"
    folds = folds_of(without_labels(data), 3)
    better, worse, weight = data.preferences
    place = np.empty(90, dtype=np.int64)
    for k, (train, test) in enumerate(folds):
        place[train], place[test] = np.arange(train.size), np.arange(test.size)
        here, there = np.isin(better, train), np.isin(better, test)
        for number, params in enumerate(model.cv_results_["params"]):
            one = KernelRankSVM(**params, **options)
            X = K[np.ix_(train, train)] if "kernel" in options else data.X[train]
            part = place[better[here]], place[worse[here]]
            fit_quietly(one, X, *part, weight=weight[here], qid=data.qid[train])
            X = K[np.ix_(test, train)] if "kernel" in options else data.X[test]
            held_out = place[better[there]], place[worse[there]], weight[there]
            score = model.cv_results_[f"split{k}_test_score"][number]
            assert one.score_pairs(X, *held_out) == pytest.approx(score, abs=1e-9)


@pytest.mark.parametrize("make", [LinearRankSVMCV, KernelRankSVMCV])
def test_a_validation_set_of_pairs(make) -> None:
    data, other = sample(n=90), sample(seed=0, n=60)
    arguments, held_out = arguments_of(data), arguments_of(other)
    few = {} if make is LinearRankSVMCV else {"gammas": [0.1]}
    for names in (("X", "better", "worse"), ("X", "better", "worse", "weight")):
        validation = tuple(held_out[name] for name in names)
        for extra in ({}, {"qid": data.qid}, {"y": data.y, "qid": data.qid}):
            model = fit_quietly(
                make([0.1, 1.0], **few), **arguments, validation=validation, **extra
            )
            assert (model.metric_, model.n_splits_) == ("pair_accuracy", 1)
            value = model.score_pairs(*validation)
            assert value == pytest.approx(model.best_score_, abs=1e-3)


def test_a_validation_set_of_pairs_with_features_of_the_query() -> None:
    data, other = without_labels(sample()), without_labels(sample(1))
    better, worse, weight = other.preferences
    model = LinearRankSVMCV(CS, query_features=("rank",), keep_features=False, scaling=None)
    known = (other.X, better, worse, weight, other.qid)
    arguments = {**arguments_of(data), "qid": data.qid}
    found = fit_quietly(model, **arguments, validation=known)
    value = found.score_pairs(other.X, better, worse, weight, qid=other.qid)
    assert found.best_score_ == pytest.approx(value, rel=1e-12)
    as_one = fit_quietly(clone(model), **arguments, validation=(*known[:4], [0] * 240))
    means = [one.cv_results_["mean_test_score"].tolist() for one in (found, as_one)]
    assert means[0] != means[1]

    # A frame has them in the column of the training frame.
    names = list("abcde")
    frame, others = (
        pd.DataFrame(one.X, columns=names).assign(query=one.qid) for one in (data, other)
    )
    named = {**arguments, "X": frame, "qid": "query"}
    again = fit_quietly(clone(model), **named, validation=(others, better, worse, weight))
    assert again.best_score_ == found.best_score_

    unknown = "validation has no query ids, while the training set has 40 queries"
    for training, validation in ((arguments, known[:4]), (named, (others[names], better, worse))):
        with pytest.raises(ValueError, match=unknown):
            fit_quietly(clone(model), **training, validation=validation)
    with pytest.raises(ValueError, match="qid of validation must have one query id per row"):
        fit_quietly(model, **arguments, validation=(*known[:4], [1, 2]))


@pytest.mark.parametrize(
    ("validation", "message"),
    [
        (7, "validation must be one tuple .* got int"),
        ((np.zeros((3, 5)), [0]), r"validation must be .* got a tuple of 2"),
        ((np.zeros((3, 5)), "better", "worse"), "must be row numbers; got 'better' and 'worse'"),
        ((np.zeros((3, 5)), [0], [3]), "validation: worse has row numbers that X does not have"),
        ((np.zeros((3, 5)), [0], [1], [0.0]), "validation: weight is zero everywhere"),
        ((np.zeros((3, 4)), [0], [1]), "4 features"),
    ],
)
def test_bad_validation_sets(validation, message: str) -> None:
    data = sample()
    with pytest.raises(ValueError, match=message):
        fit_quietly(LinearRankSVMCV(CS, scaling=None), **arguments_of(data), validation=validation)


def test_bad_arguments_leave_the_old_model() -> None:
    data = sample()
    model = fit_quietly(LinearRankSVMCV(CS, cv=3, scaling=None), **arguments_of(data), qid=data.qid)
    before = model.coef_.copy()
    arguments = arguments_of(data)
    for options, message in (
        ({"sample_weight": np.ones(240)}, "sample_weight can only be used with labels"),
        ({"query_weight": [1.0]}, "query_weight needs query ids"),
        ({"better": [0], "worse": [0], "weight": None}, "prefer an item to itself"),
        ({"sample_wieght": 1}, "sample_wieght"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            model.fit_pairs(**{**arguments, **options})
    np.testing.assert_array_equal(model.coef_, before)


def test_warnings_name_the_caller() -> None:
    X = np.random.default_rng(0).normal(size=(12, 2))
    better, worse = [0, 1, 2, 4, 6, 8], [1, 0, 3, 5, 7, 9]
    with pytest.warns(UserWarning, match=r"preferred both ways|smallest of the grid") as found:
        LinearRankSVMCV([0.1, 1.0, 3.0], cv=2, scaling=None).fit_pairs(X, better, worse)
    assert [one.filename for one in found] == [__file__] * 2


# --- Checkpoints ---------------------------------------------------------------------------------


@pytest.mark.parametrize("with_labels", [False, True])
def test_a_search_continues_from_its_file(with_labels: bool, tmp_path) -> None:
    data = sample(n=90) if with_labels else without_labels(sample(n=90))
    folds, path = folds_of(data, 3), tmp_path / "search.db"

    class Stop(Exception):
        pass

    def stop(done: int, total: int, message: str) -> None:
        if done == 6:
            raise Stop

    with pytest.raises(Stop):
        search(data, LinearSettings(scaling=None), CS, folds=folds, checkpoint=path, progress=stop)
    found = search(data, LinearSettings(scaling=None), CS, folds=folds, checkpoint=path)
    assert found.n_resumed == 1
    plain = search(
        data, LinearSettings(scaling=None), CS, folds=folds, checkpoint=tmp_path / "other.db"
    )
    np.testing.assert_array_equal(found.scores, plain.scores)
    np.testing.assert_array_equal(found.objectives, plain.objectives)
    listed = data.preferences
    for changed in (
        listed.take(np.arange(len(listed) - 1)),
        replace(listed, better=listed.worse, worse=listed.better),
        replace(listed, weight=2.0 * listed.weight),
        replace(listed, weight=None),
        replace(listed, query=None),
    ):
        other = replace(data, preferences=changed)
        with pytest.raises(ValueError, match=r"from a different search \(different pairs\)"):
            search(other, LinearSettings(scaling=None), CS, folds=folds, checkpoint=path)
    with pytest.raises(ValueError, match="different search"):
        search(
            replace(data, y=np.arange(90.0), preferences=None), LinearSettings(scaling=None), CS,
            folds=folds,
            checkpoint=path,
        )  # fmt: skip


def test_the_pairs_of_a_validation_set_are_part_of_a_search(tmp_path) -> None:
    data, other = without_labels(sample(n=90)), without_labels(sample(seed=1, n=60))
    path = tmp_path / "search.db"
    search(data, LinearSettings(scaling=None), CS, validation=other, checkpoint=path)
    again = search(data, LinearSettings(scaling=None), CS, validation=other, checkpoint=path)
    assert again.n_resumed == 1
    fewer = replace(other, preferences=other.preferences.take(np.arange(5)))
    with pytest.raises(ValueError, match=r"\(different splits\)"):
        search(data, LinearSettings(scaling=None), CS, validation=fewer, checkpoint=path)
