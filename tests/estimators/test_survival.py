"""Survival times: which pairs count, the optimum, the concordance index, inputs and files."""

from __future__ import annotations

import inspect
import pickle
from dataclasses import fields
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.optimize
import sklearn
from fuzz.exact import ExactProblem, rational
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import ranksvm
from ranksvm import KernelSurvivalRankSVM, MissingQidWarning, SurvivalRankSVM
from ranksvm._vectors import Array
from ranksvm.backends.native import COUNTINGS
from ranksvm.estimators.loading import estimator_of
from ranksvm.learners import LEARNERS, TARGETS, kind_of
from ranksvm.learners.linear_model import LinearModel
from ranksvm.metrics import concordance_index
from ranksvm.models.facts import check_facts

BOTH = pytest.mark.parametrize("estimator", [SurvivalRankSVM, KernelSurvivalRankSVM])


@parametrize_with_checks(
    [
        SurvivalRankSVM(scaling=None),
        SurvivalRankSVM(loss="hinge", scaling=None),
        KernelSurvivalRankSVM(C=10.0, scaling=None),
    ]
)
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    """All of them: there is no list of expected failures."""
    check(estimator)


def make_survival(
    n: int, seed: int, *, ties: bool = False, n_features: int = 4
) -> tuple[Array, Array, Array]:
    """Return features, times and events: exponential times, and independent censoring."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_features))
    effect = X @ rng.normal(size=n_features)
    happens, ends = rng.exponential(np.exp(effect)), rng.exponential(2.0, n)
    time = np.minimum(happens, ends)
    return X, np.ceil(4.0 * time) if ties else time, happens <= ends


def pairs_of(time: Array, event: Array, qid: Array | None = None) -> tuple[Array, Array]:
    """All comparable pairs, longer and shorter survival, by definition."""
    n = len(time)
    qid = np.zeros(n) if qid is None else qid
    found = [
        (i, j)
        for i in range(n)
        for j in range(n)
        if qid[i] == qid[j] and event[j]
        and (time[j] < time[i] or (time[j] == time[i] and not event[i]))
    ]  # fmt: skip
    longer, shorter = np.array(found, dtype=np.int64).reshape(-1, 2).T
    return longer, shorter


def optimum(D: Array, C: float, power: int) -> float:
    """The minimum of 1/2 |w|^2 + C sum max(0, 1 - D w)^power, by SciPy on the explicit pairs."""
    assert power == 2

    def value(w: Array) -> tuple[float, Array]:
        slack = np.maximum(0.0, 1.0 - D @ w)
        return 0.5 * w @ w + C * slack @ slack, w - 2.0 * C * D.T @ slack

    options = {"ftol": 1e-15, "gtol": 1e-10, "maxiter": 10_000}
    return float(
        scipy.optimize.minimize(
            value, np.zeros(D.shape[1]), jac=True, method="L-BFGS-B", options=options
        ).fun
    )


@pytest.mark.parametrize("counting", COUNTINGS)
@pytest.mark.parametrize("ties", [False, True])
def test_the_optimum_is_that_of_the_explicit_pairs(counting: str, ties: bool) -> None:
    X, time, event = make_survival(80, 1, ties=ties)
    longer, shorter = pairs_of(time, event)
    lowest = optimum(X[longer] - X[shorter], 0.3, 2)
    model = SurvivalRankSVM(0.3, reduction="sum", scaling=None, tol=1e-8, counting=counting).fit(
        X, time, event=event
    )
    assert model.n_pairs_ == len(longer)
    assert model.objective_ == pytest.approx(lowest, rel=1e-7)
    assert model.objective_ - model.gap_ <= lowest * (1 + 1e-9)
    mean = SurvivalRankSVM(0.3 * len(longer), scaling=None, tol=1e-8).fit(X, time, event=event)
    np.testing.assert_allclose(mean.coef_, model.coef_, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("loss", ["squared_hinge", "hinge"])
@pytest.mark.parametrize("solver", ["auto", "bundle"])
def test_certificates_hold_exactly(loss: str, solver: str) -> None:
    X, time, event = make_survival(14, 2, ties=True, n_features=2)
    weight = np.random.default_rng(0).random(14)
    longer, shorter = pairs_of(time, event)
    model = SurvivalRankSVM(0.5, loss=loss, solver=solver, reduction="sum", scaling=None)
    model.fit(X, time, event=event, sample_weight=weight)
    pair_weight = [
        Fraction(1, 2) * Fraction(weight[b]) * Fraction(weight[w])
        for b, w in zip(longer.tolist(), shorter.tolist(), strict=True)
    ]
    rows = [rational(row) for row in X]
    exact = ExactProblem(
        rows, longer.tolist(), shorter.tolist(), pair_weight, 2 if loss == "squared_hinge" else 1
    )
    w = rational(model.coef_)
    objective, gap = rational([model.objective_, model.gap_])
    assert objective - gap <= exact.lowest([w]) <= exact.value(w) <= objective


@BOTH
def test_items_that_are_in_no_pair_do_not_matter(estimator: Any) -> None:
    """Censored before the first event: most rows are left out, and a copy has the others."""
    X, time, event = make_survival(40, 14, ties=True)
    rng = np.random.default_rng(14)
    many = np.vstack([rng.normal(size=(100, 4)), X])
    times = np.concatenate([np.zeros(100), time])
    events = np.concatenate([np.zeros(100, dtype=bool), event])
    few = estimator(scaling=None, **({"gamma": 0.2} if estimator is not SurvivalRankSVM else {}))
    more = clone(few).fit(many, times, event=events)
    few.fit(X, time, event=event)
    assert more.n_pairs_ == few.n_pairs_
    assert more.objective_ == pytest.approx(few.objective_, rel=1e-4)
    np.testing.assert_allclose(more.predict(X), few.predict(X), rtol=1e-3, atol=1e-3)


def test_strata_and_weights() -> None:
    X, time, event = make_survival(60, 3, ties=True)
    rng = np.random.default_rng(3)
    qid, weight = rng.integers(0, 3, 60), rng.integers(0, 3, 60).astype(float)
    longer, shorter = pairs_of(time, event, qid)
    pair = weight[longer] * weight[shorter]
    D = (X[longer] - X[shorter]) * np.sqrt(pair)[:, None]

    def value(w: Array) -> tuple[float, Array]:
        slack = np.maximum(0.0, np.sqrt(pair) - D @ w)
        return 0.5 * w @ w + 0.2 * slack @ slack, w - 0.4 * D.T @ slack

    lowest = scipy.optimize.minimize(value, np.zeros(4), jac=True, tol=1e-12).fun
    model = SurvivalRankSVM(0.2, reduction="sum", scaling=None, tol=1e-8)
    model.fit(X, time, event, qid, sample_weight=weight)
    assert model.objective_ == pytest.approx(lowest, rel=1e-7)
    assert model.n_pairs_ == (pair > 0.0).sum()
    scores = model.predict(X)
    right = np.where(scores[longer] == scores[shorter], 0.5, scores[longer] > scores[shorter])
    index = (pair @ right) / pair.sum()
    assert model.score(X, time, event, qid, weight) == pytest.approx(index)
    assert concordance_index(time, scores, event, qid, sample_weight=weight) == pytest.approx(index)
    with pytest.warns(MissingQidWarning):
        model.score(X, time, event)


@pytest.mark.parametrize("loss", ["squared_hinge", "hinge"])
def test_kernels_are_linear_models_of_their_features(loss: str) -> None:
    X, time, event = make_survival(50, 4)
    K = rbf_kernel(X, gamma=0.3)
    values, vectors = np.linalg.eigh(K)
    features = vectors * np.sqrt(np.maximum(values, 0.0))
    settings: Any = {"loss": loss, "scaling": None, "tol": 1e-7}
    linear = SurvivalRankSVM(2.0, **settings).fit(features, time, event=event)
    kernel = KernelSurvivalRankSVM(2.0, gamma=0.3, **settings).fit(X, time, event=event)
    given = KernelSurvivalRankSVM(2.0, kernel="precomputed", **settings).fit(K, time, event=event)
    landmarks = KernelSurvivalRankSVM(
        2.0, gamma=0.3, approximation="nystroem", n_components=50, random_state=0, **settings
    ).fit(X, time, event=event)
    for model in (kernel, given, landmarks):
        assert model.objective_ == pytest.approx(linear.objective_, rel=1e-6)
    np.testing.assert_allclose(kernel.predict(X), linear.predict(features), atol=1e-3)


def test_the_same_bits_with_every_number_of_threads() -> None:
    X, time, event = make_survival(300, 5, ties=True)
    coefs = [
        SurvivalRankSVM(n_jobs=jobs).fit(X, time, event=event).coef_.tobytes() for jobs in (1, 2)
    ]
    assert coefs[0] == coefs[1]


@given(
    n=st.integers(1, 30),
    values=st.integers(1, 12),
    n_strata=st.integers(1, 3),
    weighted=st.booleans(),
    seed=st.integers(0, 2**32),
)
def test_concordance_is_brute_force(n, values, n_strata, weighted, seed) -> None:
    rng = np.random.default_rng(seed)
    time, scores = rng.integers(0, values, (2, n)).astype(float)
    event, qid = rng.random(n) < 0.6, rng.integers(0, n_strata, n)
    weight = rng.random(n) * (rng.random(n) < 0.8) if weighted else np.ones(n)
    longer, shorter = pairs_of(time, event, qid)
    pair = weight[longer] * weight[shorter]
    given_weight = weight if weighted else None
    if not pair.any():
        with pytest.raises(ValueError, match=r"no event|undefined"):
            concordance_index(time, scores, event, qid, sample_weight=given_weight)
        return
    right = 0.5 * (scores[longer] > scores[shorter]) + 0.5 * (scores[longer] >= scores[shorter])
    got = concordance_index(time, scores, event, qid, sample_weight=given_weight)
    assert got == pytest.approx(pair @ right / pair.sum(), rel=1e-9)


@pytest.mark.parametrize("ties", [False, True])
def test_concordance_is_that_of_scikit_survival(ties: bool) -> None:
    metrics = pytest.importorskip("sksurv.metrics")
    _, time, event = make_survival(200, 6, ties=ties)
    scores = np.round(np.random.default_rng(6).normal(size=200), 1)
    theirs = metrics.concordance_index_censored(event, time, -scores)[0]
    assert concordance_index(time, scores, event) == pytest.approx(theirs, rel=1e-12)


def test_the_optimum_is_that_of_scikit_survival() -> None:
    svm = pytest.importorskip("sksurv.svm")
    X, time, event = make_survival(60, 7)
    y = np.array(list(zip(event, time, strict=True)), dtype=[("event", bool), ("time", float)])
    theirs = svm.FastSurvivalSVM(0.4, rank_ratio=1.0, max_iter=1000, tol=1e-6).fit(X, y)
    ours = SurvivalRankSVM(0.2, reduction="sum", scaling=None, tol=1e-9).fit(X, y)
    assert ours.objective_ == pytest.approx(theirs.optimizer_result_.fun, rel=1e-6)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(ours.predict(X), -theirs.predict(X), rtol=1e-3, atol=1e-4)
    assert ours.score(X, y) == pytest.approx(theirs.score(X, y), abs=1e-3)
    kernel = svm.FastKernelSurvivalSVM(0.4, kernel="rbf", gamma=0.2, max_iter=1000, tol=1e-6)
    kernel.fit(X, y)
    mine = KernelSurvivalRankSVM(0.2, gamma=0.2, reduction="sum", scaling=None, tol=1e-8)
    assert mine.fit(X, y).objective_ == pytest.approx(kernel.optimizer_result_.fun, rel=1e-5)


# --- inputs ---------------------------------------------------------------------------------------


def structured(time: Array, event: Array, *, time_first: bool = False) -> Any:
    fields: list[Any] = [("died", bool), ("months", float)]
    y = np.empty(len(time), dtype=fields[::-1] if time_first else fields)
    y["died"], y["months"] = event, time
    return y


@BOTH
def test_all_ways_to_pass_times_and_events_are_one(estimator: Any) -> None:
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    X, time, event = make_survival(40, 8, ties=True)
    names = ["a", "b", "c", "d"]
    frame = pd.DataFrame(X, columns=names).assign(months=time, died=event, weight=1.0)
    whole = estimator().fit(X, time, event=event)
    for model in (
        estimator().fit(X, time=time, event=event.astype(int)),
        estimator().fit(X.tolist(), time.tolist(), event.astype(float).tolist()),
        estimator().fit(X, structured(time, event)),
        estimator().fit(X, structured(time, event, time_first=True)),
        estimator().fit(X, frame[["died", "months"]]),
        estimator().fit(X, pl.DataFrame({"months": time, "died": event})),
        estimator().fit(frame, time="months", event="died", sample_weight="weight"),
        estimator().fit(pl.from_pandas(frame), "months", "died", sample_weight="weight"),
    ):
        scores = model.predict(frame if hasattr(model, "feature_names_in_") else X)
        np.testing.assert_allclose(scores, whole.predict(X), rtol=1e-9, atol=1e-12)
    named = estimator().fit(frame, "months", "died", sample_weight="weight")
    assert named.feature_names_in_.tolist() == names
    assert named.score(frame, "months", "died") == whole.score(X, structured(time, event))
    assert named.score(frame, time="months", event="died") == whole.score(X, time, event)


def test_only_the_order_of_times_matters() -> None:
    X, time, event = make_survival(40, 9, ties=True)
    one = SurvivalRankSVM().fit(X, time, event)
    largest, huge = np.finfo(float).max, time.copy()
    huge[time == time.max()] = largest
    near = 1.0 + time * np.spacing(1.0)  # neighbours among the floating point numbers
    assert not event[time == time.max()].all()
    for other in (np.log(time), time.astype(np.int64) + 2**62, 2 * time - 7, huge, near):
        model = SurvivalRankSVM().fit(X, other, event)
        assert model.n_pairs_ == one.n_pairs_
        np.testing.assert_allclose(model.coef_, one.coef_, rtol=1e-12)
        assert one.score(X, other, event) == one.score(X, time, event)


def test_all_events_are_labels() -> None:
    X, time, _ = make_survival(60, 10, ties=True)
    ours = SurvivalRankSVM().fit(X, time)
    np.testing.assert_array_equal(ours.coef_, ranksvm.LinearRankSVM().fit(X, time).coef_)
    assert ours.score(X, time) == pytest.approx(ranksvm.LinearRankSVM().fit(X, time).score(X, time))


def test_ties_of_an_event_and_a_censored_item() -> None:
    X = np.array([[0.0], [1.0], [2.0]])
    model = SurvivalRankSVM(scaling=None).fit(X, [5, 5, 5], event=[True, False, True])
    assert model.n_pairs_ == 2  # the censored item survived both events
    assert model.score(X, [5, 5, 5], [True, False, True]) == 0.5


@BOTH
@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"event": [0, 0, 0, 0]}, "no event: all 4 items are censored"),
        ({"event": [0, 1, 2, 0]}, "event must be True or 1 .* got 2 in row 2"),
        ({"event": [0, 1, np.nan, 0]}, "event must be True or 1 .* got nan in row 2"),
        ({"event": ["no", "yes", "no", "no"]}, "event must be True or 1 .* got 'no' in row 0"),
        ({"event": [1, 1]}, r"event must have one value per item \(4\); got 2 values"),
        ({"event": np.ones((4, 2))}, "one value per item .* got an array of 2 dimensions"),
        ({"event": np.ma.masked_array([1, 1, 1, 1], [0, 0, 0, 1])}, "event"),
        ({"event": "died"}, "event='died' names a column, but X is a"),
        ({"y": [1, 2, np.nan, 3]}, "y contains NaN or infinity .* finite time"),
        ({"y": [1, 2, 3]}, "X has 4 rows, y has 3 values; every item needs one time"),
        ({"y": ["a", "b", "c", "d"]}, "Pass one numeric time per item; larger is later"),
        ({"y": np.ones((4, 2))}, "y has two columns without names"),
        ({"y": None}, "requires y to be passed"),
        ({"y": None, "time": [1, 2, 3]}, "time has 3 values"),
        ({"time": [1, 2, 3, 4]}, "y and time are two names for one thing"),
        ({"y": [1, 1, 1, 1]}, "no comparable pair .* no event comes before another item"),
        ({"event": [0, 0, 0, 1]}, "no comparable pair .* no event comes before another item"),
        ({"qid": [1, 2, 3, 4]}, "no comparable pair .* 4 queries"),
        ({"y": structured(np.arange(4.0), np.ones(4)), "event": [1] * 4}, "y has the events"),
        ({"y": np.zeros(4, dtype=[("a", float), ("b", float)])}, r"'a' \(float64\), 'b'"),
        ({"y": np.zeros(4, dtype=[("a", bool)])}, r"must have two columns.*'a' \(bool\)"),
        ({"sample_weight": [1, 0, 0, 0]}, "all 6 comparable pairs have weight zero"),
    ],
)
def test_bad_input_is_refused(estimator: Any, options: dict[str, Any], match: str) -> None:
    X = np.arange(8.0).reshape(4, 2) % 3
    with pytest.raises(ValueError, match=match):
        estimator().fit(X, **{"y": [1, 2, 3, 4], **options})


def test_bad_input_of_the_index_is_refused() -> None:
    with pytest.raises(ValueError, match="scores has 2 values for 3 times"):
        concordance_index([1, 2, 3], [1.0, 2.0])
    with pytest.raises(ValueError, match="no event"):
        concordance_index([1, 2, 3], [1.0, 2.0, 3.0], [0, 0, 0])
    with pytest.raises(ValueError, match="undefined"):
        concordance_index([1, 2, 3], [1.0, 2.0, 3.0], [0, 0, 1])


def test_missing_events_in_a_frame_are_refused() -> None:
    pd = pytest.importorskip("pandas")
    X = np.arange(8.0).reshape(4, 2) % 3
    y = pd.DataFrame({"died": pd.array([True, False, True, False], "boolean"), "t": [1, 2, 3, 4]})
    assert SurvivalRankSVM().fit(X, y).n_pairs_ == 4
    y["died"] = pd.array([True, None, True, False], "boolean")
    with pytest.raises(ValueError, match=r"the events as booleans .* got 'died' \(object\)"):
        SurvivalRankSVM().fit(X, y)
    with pytest.raises(ValueError, match=r"event must be True or 1 .* in row 1"):
        SurvivalRankSVM().fit(X, y["t"], event=y["died"])


# --- the rest of the house ------------------------------------------------------------------------


@BOTH
def test_files_keep_the_class(estimator: Any, tmp_path: Path, good: Any) -> None:
    X, time, event = make_survival(40, 11)
    model = estimator(C=2.0, loss="hinge").fit(X, time, event=event)
    path = tmp_path / "model.safetensors"
    model.save(path)
    loaded = ranksvm.load(path)
    assert type(loaded) is estimator
    assert loaded.get_params() == model.get_params()
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    assert loaded.score(X, time, event) == model.score(X, time, event)
    assert loaded.gap_ == model.gap_
    assert loaded.n_pairs_ == model.n_pairs_
    assert loaded.explain(X, 0, 1).difference == pytest.approx(np.diff(model.predict(X[[1, 0]]))[0])
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    assert "survival" in good("info", path)
    lines = "".join(f"0 qid:1 1:{a} 2:{b} 3:{c} 4:{d}\n" for a, b, c, d in X.tolist())
    (tmp_path / "new.txt").write_text(lines)
    told = np.array(good("predict", path, tmp_path / "new.txt").split(), dtype=float)
    np.testing.assert_allclose(told, model.predict(X), rtol=1e-12)
    assert "sum" in good("explain", path, tmp_path / "new.txt", 1, 2)


def test_searches_and_pipelines_of_scikit_learn() -> None:
    X, time, event = make_survival(90, 12)
    y = structured(time, event)
    pipeline = make_pipeline(StandardScaler(), SurvivalRankSVM(scaling=None))
    folds = KFold(3, shuffle=True, random_state=0)
    values = cross_val_score(pipeline, X, y, cv=folds)
    assert values.mean() > 0.7
    search = GridSearchCV(SurvivalRankSVM(), {"C": [0.1, 10.0]}, cv=folds).fit(X, y)
    assert search.best_score_ > 0.7
    assert isinstance(clone(search.best_estimator_), SurvivalRankSVM)


def test_events_are_routed() -> None:
    X, time, event = make_survival(90, 12)
    folds = KFold(3, shuffle=True, random_state=0)
    together = cross_val_score(SurvivalRankSVM(), X, structured(time, event), cv=folds)
    with sklearn.config_context(enable_metadata_routing=True):
        apart = cross_val_score(SurvivalRankSVM(), X, time, params={"event": event}, cv=folds)
    np.testing.assert_array_equal(apart, together)


@pytest.mark.parametrize("kind", TARGETS["survival"])
def test_parameters_are_those_of_the_settings(kind: str) -> None:
    estimator = estimator_of(TARGETS["survival"][kind])
    assert getattr(ranksvm, estimator.__name__) is estimator
    assert estimator.__name__ in ranksvm.__all__
    parameters = inspect.signature(estimator).parameters
    settings = {one.name: one.default for one in fields(LEARNERS[kind].settings)}
    gains = {"pair_weight", "gain", "discount", "truncation", "n_reweight"}
    assert settings.keys() - parameters.keys() == gains
    for name in settings.keys() - gains:
        assert parameters[name].default == settings[name], name
    for name in parameters:
        assert f"    {name} : " in (estimator.__doc__ or ""), f"{name} is not documented"


def test_facts_of_a_file_are_checked() -> None:
    check_facts({"target": "survival"}, ())
    with pytest.raises(ValueError, match="target in the facts must be a string"):
        check_facts({"target": ["survival"]}, ())
    model = LinearModel(coef=np.ones(2), params={}, facts={"target": "of the future"})
    assert kind_of(model) is LEARNERS["linear"]


def test_warm_starts_and_callbacks() -> None:
    X, time, event = make_survival(90, 13)
    model = SurvivalRankSVM(warm_start=True).fit(X, time, event=event)
    rows: list[Any] = []
    model.fit(X, time, event=event, callback=lambda row, coef: rows.append(row))
    assert model.n_iter_ <= 1
    assert len(rows) <= 2
