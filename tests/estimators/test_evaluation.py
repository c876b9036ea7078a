"""The evaluation set of a fit, its callbacks, sizes of queries, and importances of features."""

from __future__ import annotations

import logging
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.inspection import permutation_importance

from ranksvm import FactorizedRankSVM, KernelRankSVM, LinearRankSVM, LinearRankSVMCV, load
from ranksvm.datasets import make_ranking
from ranksvm.maps.expansion import Expansion
from ranksvm.maps.matrix import MatrixMap
from ranksvm.metrics import evaluate

X, y, qid, _ = make_ranking(16, (4, 9), 5, level_shares=[0.4, 0.3, 0.3], random_state=1)
cut = int(np.flatnonzero(qid == 11)[-1]) + 1  # twelve queries to train on
TRAIN, VALID = (X[:cut], y[:cut], qid[:cut]), (X[cut:], y[cut:], qid[cut:])
SIZES_VALID = np.bincount(VALID[2])[12:]


def sizes_of(ids: Any) -> Any:
    return np.unique(ids, return_counts=True)[1]


def has_pairs(query: int) -> bool:
    return len(set(TRAIN[1][TRAIN[2] == query])) > 1


MODELS = [
    LinearRankSVM(),
    LinearRankSVM(scaling=None, loss="hinge"),
    LinearRankSVM(scaling="quantile"),
    LinearRankSVM(query_features=("rank", "zscore")),
    LinearRankSVM(pair_weight="lambda", n_reweight=2),
    KernelRankSVM(),
    KernelRankSVM(kernel="poly", scaling=None, query_features=("minmax",)),
    KernelRankSVM(approximation="nystroem", n_components=12, random_state=0),
    KernelRankSVM(approximation="fourier", n_components=30, random_state=0),
    FactorizedRankSVM(3, tol=1e-2, random_state=0),
]


# --- The metric of every iteration ---------------------------------------------------------------


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_every_row_has_the_metric_of_its_coefficients(model: Any) -> None:
    """Against the predictions of the model that a callback would have stopped at."""
    model = clone(model)
    seen = []
    model.fit(*TRAIN, eval_set=VALID, eval_metric="map", callback=lambda row, _: seen.append(row))
    assert model.eval_metric_ == "map"
    history = model.history_
    assert [row.metric for row in seen] == [row.metric for row in history]
    assert [row.valid for row in history] == [row.metric for row in history]
    assert history == [
        row._replace(metric=at.metric) for row, at in zip(history, seen, strict=True)
    ]
    for row in history[1:] if isinstance(model, FactorizedRankSVM) else history:

        def stop(one: Any, _: Any, row: Any = row) -> bool:
            return (one.iteration, one.round) == (row.iteration, row.round)

        stopped = clone(model).set_params(tol=1e-12) if row is not history[-1] else clone(model)
        options = {} if not hasattr(model, "patience") else {"patience": 1000}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of a fit that ended early
            stopped.set_params(**options).fit(*TRAIN, callback=stop)
        scores = stopped.predict(VALID[0], VALID[2])
        expected = evaluate(VALID[1], scores, VALID[2], ["map"])["map"]
        assert row.metric == pytest.approx(expected, rel=1e-9)


def test_an_evaluation_set_does_not_change_the_fit() -> None:
    for model in (LinearRankSVM(), KernelRankSVM()):
        alone = clone(model).fit(*TRAIN)
        watched = clone(model).fit(*TRAIN, eval_set=VALID)
        np.testing.assert_array_equal(alone.predict(VALID[0]), watched.predict(VALID[0]))
        assert alone.eval_metric_ is None
        assert {row.metric for row in alone.history_} == {None}
        assert len(alone.history_) == len(watched.history_)


def test_kernel_values_are_kept_if_there_is_room(monkeypatch: Any) -> None:
    expected = KernelRankSVM().fit(*TRAIN, eval_set=VALID)
    kept: list[bool] = []
    most: list[int] = []
    scorer = Expansion.scorer

    def looked_at(self: Any, X: Any, memory: int, **options: Any) -> Any:
        found = scorer(self, X, min(memory, most[-1]), **options)
        kept.append(isinstance(getattr(found, "__self__", None), MatrixMap))
        return found

    monkeypatch.setattr(Expansion, "scorer", looked_at)
    points = sum(n for query, n in enumerate(sizes_of(TRAIN[2])) if has_pairs(query))
    needed = 8 * len(VALID[1]) * points
    for limit in (2**40, needed, needed - 1, -1):
        most.append(limit)
        model = KernelRankSVM().fit(*TRAIN, eval_set=VALID)
        for row, known in zip(model.history_, expected.history_, strict=True):
            assert row.metric == pytest.approx(known.metric)
    assert kept == [True, True, False, False]


def test_a_precomputed_kernel_is_evaluated_on_kernel_values() -> None:
    K = TRAIN[0] @ TRAIN[0].T
    values = VALID[0] @ TRAIN[0].T
    given = KernelRankSVM(C=5, kernel="precomputed").fit(
        K, *TRAIN[1:], eval_set=(values, *VALID[1:])
    )
    direct = LinearRankSVM(scaling=None).fit(*TRAIN, eval_set=VALID)
    assert given.history_[-1].metric == pytest.approx(direct.history_[-1].metric)


def test_sparse_items_and_frames() -> None:
    expected = LinearRankSVM(scaling=None).fit(*TRAIN, eval_set=VALID)
    names = [f"f{k}" for k in range(5)]
    train = pd.DataFrame(TRAIN[0], columns=names).assign(label=TRAIN[1], query=TRAIN[2])
    valid = pd.DataFrame(VALID[0], columns=names).assign(label=VALID[1], query=VALID[2])
    for fit in (
        lambda model: model.fit(
            sparse.csr_array(TRAIN[0]),
            *TRAIN[1:],
            eval_set=(sparse.csc_array(VALID[0]), *VALID[1:]),
        ),
        lambda model: model.fit(train, "label", "query", eval_set=valid),
        lambda model: model.fit(train, "label", "query", eval_set=(valid, "label", "query")),
        lambda model: model.fit(
            train, "label", "query", eval_set=(valid, "label"), eval_qid="query"
        ),
        lambda model: model.fit(train, "label", group="query", eval_set=valid),
    ):
        model = fit(LinearRankSVM(scaling=None))
        assert model.history_[-1].metric == pytest.approx(expected.history_[-1].metric)


def test_the_default_metric_is_that_of_a_search() -> None:
    assert LinearRankSVM().fit(*TRAIN, eval_set=VALID).eval_metric_ == "ndcg@10"
    halves = TRAIN[0], TRAIN[1] / 2, TRAIN[2]
    assert LinearRankSVM().fit(*halves, eval_set=VALID).eval_metric_ == "pairwise_accuracy"
    assert LinearRankSVM().fit(*TRAIN[:2], eval_set=VALID[:2]).eval_metric_ == "pairwise_accuracy"

    def mine(y: Any, scores: Any, qid: Any) -> float:
        return float(len(y))

    model = LinearRankSVM().fit(*TRAIN, eval_set=VALID, eval_metric=mine)
    assert model.eval_metric_ == "mine"
    assert model.history_[0].metric == len(VALID[1])


def test_verbose_prints_the_metric(caplog: Any) -> None:
    with caplog.at_level(logging.INFO, logger="ranksvm"):
        model = LinearRankSVM().fit(*TRAIN, eval_set=VALID)
    assert f"ndcg@10 {model.history_[-1].metric:.4f}" in caplog.messages[-1]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"eval_qid": VALID[2]}, "eval_qid needs eval_set"),
        ({"eval_group": SIZES_VALID}, "eval_group needs eval_set"),
        ({"eval_metric": "map"}, "eval_metric needs eval_set"),
        ({"eval_set": [VALID, VALID]}, "got a list of 2. Pass the set to watch"),
        ({"eval_set": VALID, "eval_qid": VALID[2]}, "query ids of eval_set are given twice"),
        (
            {"eval_set": VALID[:2], "eval_qid": VALID[2], "eval_group": SIZES_VALID},
            "given twice",
        ),
        ({"eval_set": VALID[:2]}, "must both have query ids"),
        ({"eval_set": VALID, "eval_metric": "ndgc"}, "eval_metric must be .*Did you mean 'ndcg'"),
        ({"eval_set": VALID, "eval_metric": 7}, "eval_metric must be the name of a metric, or be"),
        ({"eval_set": VALID, "eval_metric": ["map", "mrr"]}, "must be one metric"),
        ({"eval_set": VALID, "eval_metric": lambda *_: np.inf}, "eval_metric returned inf"),
        ({"eval_set": (VALID[0], np.ones(len(VALID[1])), VALID[2])}, "comparable pair"),
        ({"eval_set": (VALID[0][:, :2], *VALID[1:])}, "2 features"),
        (
            {"eval_set": VALID[:2], "eval_group": [SIZES_VALID[:-1]]},
            r"eval_group has 3 values for \d+ rows.*sum is \d+, and their sum is \d+",
        ),
    ],
)
def test_wrong_evaluation_sets(arguments: Any, says: str) -> None:
    model = LinearRankSVM().fit(*TRAIN)
    before = dict(vars(model))
    with pytest.raises(ValueError, match=says):
        model.fit(*TRAIN, **arguments)
    assert vars(model) == before


# --- Sizes of queries ----------------------------------------------------------------------------


@pytest.mark.parametrize("convert", [np.asarray, list, pd.Series, lambda n: np.asarray(n, float)])
def test_sizes_as_group_are_the_same_queries(convert: Any, caplog: Any) -> None:
    expected = LinearRankSVM().fit(*TRAIN)
    with caplog.at_level(logging.INFO, logger="ranksvm"):
        model = LinearRankSVM().fit(*TRAIN[:2], group=convert(sizes_of(TRAIN[2])))
    np.testing.assert_array_equal(model.coef_, expected.coef_)
    assert "group: taken as the sizes of 12 queries, whose sum is" in caplog.messages[0]


@pytest.mark.filterwarnings("ignore:LinearRankSVMCV. the best C")
def test_sizes_for_all_that_take_a_group() -> None:
    sizes, other = sizes_of(TRAIN[2]), sizes_of(VALID[2])
    expected = LinearRankSVM().fit(*TRAIN, eval_set=VALID)
    for eval_set, group in (
        (VALID[:2], other),
        ([VALID[:2]], [other]),
        ([VALID[:2]], [list(other)]),
        (VALID[:2], VALID[2]),
    ):
        model = LinearRankSVM().fit(*TRAIN[:2], group=sizes, eval_set=eval_set, eval_group=group)
        assert [r.metric for r in model.history_] == [r.metric for r in expected.history_]
    by_ids = LinearRankSVMCV(Cs=2, cv=2).fit(*TRAIN)
    by_sizes = LinearRankSVMCV(Cs=2, cv=2).fit(*TRAIN[:2], group=sizes)
    np.testing.assert_array_equal(by_ids.cv_results_["mean_test_score"],
                                  by_sizes.cv_results_["mean_test_score"])  # fmt: skip
    pairs = LinearRankSVM().fit_pairs(TRAIN[0], [0], [1], y=TRAIN[1], group=sizes)
    assert pairs.n_pairs_ == expected.n_pairs_ + 1


@pytest.mark.parametrize(
    ("group", "says"),
    [
        ([3, 4], r"group has 2 values for \d+ rows\. Query ids .* and their sum is 7"),
        ([-1, cut + 1], "sizes of queries must be whole numbers"),
        ([0.5, cut - 0.5], "sizes of queries must be whole numbers"),
        ([np.inf, 1.0], "sizes of queries must be whole numbers"),
        (["a", "b"], "group must have one query id per row; got 2 ids"),
    ],
)
def test_groups_that_are_neither_sizes_nor_ids(group: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        LinearRankSVM().fit(*TRAIN[:2], group=group)


def test_one_value_per_row_is_always_an_id() -> None:
    """Even if the values could be sizes, because their sum is the number of rows."""
    ones = np.ones(cut, dtype=int)
    as_ids, one_query = LinearRankSVM().fit(*TRAIN[:2], group=ones), LinearRankSVM().fit(*TRAIN[:2])
    np.testing.assert_array_equal(as_ids.coef_, one_query.coef_)


# --- Callbacks -----------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", [LinearRankSVM, KernelRankSVM, FactorizedRankSVM])
def test_all_callbacks_are_called_and_one_can_stop(cls: Any) -> None:
    calls: list[str] = []

    def one(row: Any, coef: Any) -> bool:
        calls.append("one")
        return row.iteration == 1

    def other(row: Any, coef: Any) -> None:
        calls.append("other")

    model = cls(tol=1e-9).fit(*TRAIN, callback=one, callbacks=[other, other])
    assert calls == ["one", "other", "other"] * 2
    assert model.status_ == "stopped"
    assert cls().fit(*TRAIN, callbacks=[]).status_ != "stopped"


class Pruned(Exception):
    """As TrialPruned of Optuna is: an exception that ends a fit."""


@pytest.mark.parametrize("cls", [LinearRankSVM, KernelRankSVM, FactorizedRankSVM])
def test_an_exception_passes_through_and_leaves_the_old_model(cls: Any) -> None:
    model = cls().fit(*TRAIN)
    before = dict(vars(model))

    def prune(row: Any, coef: Any) -> None:
        raise Pruned

    with pytest.raises(Pruned):
        model.fit(X[:, :3], y, qid, callbacks=[prune])
    assert vars(model) == before
    with pytest.raises(Pruned):
        model.fit(*TRAIN, eval_set=VALID, eval_metric=prune_metric)
    assert vars(model) == before


def prune_metric(y: Any, scores: Any, qid: Any) -> float:
    raise Pruned


class EarlyStopping:
    """As LightGBM and XGBoost have them: called with something else."""

    __module__ = "lightgbm.callback"

    def __call__(self, env: Any) -> None: ...


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"callbacks": print}, "callbacks must be a list .*Pass one function as callback"),
        ({"callbacks": [3]}, r"callbacks\[0\] must be callable as callback\(row, coef\); got 3"),
        ({"callback": lambda row: None}, r"callback must be callable as callback\(row, coef\)"),
        ({"callbacks": [EarlyStopping()]}, "EarlyStopping of lightgbm.*nothing to stop early"),
    ],
)
def test_wrong_callbacks(arguments: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        LinearRankSVM().fit(*TRAIN, **arguments)


@pytest.mark.parametrize("cls", [LinearRankSVM, KernelRankSVM, FactorizedRankSVM])
@pytest.mark.parametrize("name", ["early_stopping", "early_stopping_rounds"])
def test_early_stopping_is_refused_where_it_means_nothing(cls: Any, name: str) -> None:
    says = "optimum of a convex problem.*smaller C.*RankSVMCV"
    if cls is FactorizedRankSVM:
        says = "With eval_set, fit always uses early stopping.*patience="
    with pytest.raises(TypeError, match=says):
        cls().fit(*TRAIN, eval_set=VALID, **{name: 10})


# --- Importances ---------------------------------------------------------------------------------


@pytest.mark.parametrize("scaling", ["standard", "minmax", "robust", "quantile", None])
@pytest.mark.parametrize("weighted", [False, True])
def test_importances_by_their_definition(scaling: Any, weighted: bool, tmp_path: Any) -> None:
    items = np.column_stack([TRAIN[0] * [1, 10, 100, 0.1, 3], np.full(cut, 7.0)])
    weight = np.random.default_rng(0).uniform(0.5, 2.0, cut) if weighted else None
    model = LinearRankSVM(scaling=scaling).fit(items, *TRAIN[1:], sample_weight=weight)
    seen = items if model.scaling_ is None else model.scaling_.apply(items)
    mean = np.average(seen, axis=0, weights=weight)
    deviation = np.sqrt(np.average((seen - mean) ** 2, axis=0, weights=weight))
    moves = np.abs(model.coef_) * deviation
    np.testing.assert_allclose(model.feature_importances_, moves / moves.sum(), atol=1e-12)
    assert model.feature_importances_.sum() == pytest.approx(1.0)
    assert model.feature_importances_[-1] < 1e-15  # a constant
    model.save(tmp_path / "m.safetensors")
    again = load(tmp_path / "m.safetensors").feature_importances_
    np.testing.assert_array_equal(again, model.feature_importances_)


@pytest.mark.filterwarnings("ignore:LinearRankSVMCV. the best C")
def test_importances_of_other_linear_models(tmp_path: Any) -> None:
    made = LinearRankSVM(query_features=("rank",)).fit(*TRAIN)
    assert made.feature_importances_.shape == (5,)  # a feature and its rank count together
    factorized = FactorizedRankSVM(3, random_state=0, tol=1e-4).fit(*TRAIN)
    linear = LinearRankSVM(loss="hinge").fit(*TRAIN)
    np.testing.assert_allclose(
        factorized.feature_importances_, linear.feature_importances_, atol=0.02
    )
    factorized.save(tmp_path / "f.safetensors")
    assert load(tmp_path / "f.safetensors").feature_importances_.shape == (5,)
    sparse_fit = LinearRankSVM(scaling=None, tol=1e-9).fit(sparse.csr_array(TRAIN[0]), *TRAIN[1:])
    dense_fit = LinearRankSVM(scaling=None, tol=1e-9).fit(*TRAIN)
    np.testing.assert_allclose(
        sparse_fit.feature_importances_, dense_fit.feature_importances_, rtol=1e-3
    )
    search = LinearRankSVMCV(Cs=[0.1, 1.0], cv=2).fit(*TRAIN)
    np.testing.assert_array_equal(
        search.feature_importances_, search.best_estimator_.feature_importances_
    )
    weightless = LinearRankSVM(max_iter=1).fit(np.ones((4, 2)), [0, 1, 0, 1])
    np.testing.assert_array_equal(weightless.feature_importances_, [0.0, 0.0])


def test_importances_after_a_fit_to_files(tmp_path: Any) -> None:
    np.save(tmp_path / "X.npy", TRAIN[0])
    path, vectors = tmp_path / "X.npy", {"y": TRAIN[1], "qid": TRAIN[2]}
    model = LinearRankSVM().fit_files(path, **vectors)
    np.testing.assert_allclose(
        model.feature_importances_, LinearRankSVM().fit(*TRAIN).feature_importances_, rtol=1e-6
    )
    model = LinearRankSVM(scaling=None).fit_files(path, **vectors)
    with pytest.raises(AttributeError, match="deviations of its features are not known"):
        _ = model.feature_importances_


def test_kernels_say_what_to_use_instead() -> None:
    model = KernelRankSVM().fit(*TRAIN)
    assert not hasattr(model, "feature_importances_")
    with pytest.raises(AttributeError, match="permutation_importance") as error:
        _ = model.feature_importances_
    code = str(error.value).rpartition(": permutation")[2].rstrip(".")
    scope = {"permutation_importance": permutation_importance, "model": model}
    names = {"X": TRAIN[0], "y": TRAIN[1], "qid": TRAIN[2]}
    found = eval(f"permutation{code}", {**scope, **names})
    assert found.importances_mean.shape == (5,)
    assert not hasattr(LinearRankSVM(), "feature_importances_")  # not fitted
