"""Features of the query as a scikit-learn transformer."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from ranksvm import LinearRankSVM
from ranksvm._vectors import Array
from ranksvm.data.queries import QueryGroups
from ranksvm.data.query_features import QUERY_FEATURES, query_features
from ranksvm.datasets import make_ranking
from ranksvm.model_selection import QueryKFold
from ranksvm.preprocessing import QueryFeatures

ALL = tuple(QUERY_FEATURES)


def expected_failures(estimator: Any) -> dict[str, str]:
    del estimator
    return {
        "check_methods_subset_invariance": "features of an item depend on the others of its query",
    }


@parametrize_with_checks(
    [
        QueryFeatures(),
        QueryFeatures(("zscore", "minmax"), append=False, n_jobs=2),
        QueryFeatures(list(ALL), n_jobs=1),
    ],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(estimator)


def ranking(n_queries: int = 12, n_features: int = 4) -> tuple[Array, Array, Any]:
    X, y, qid, _ = make_ranking(n_queries, (1, 9), n_features, random_state=0)
    return np.asarray(X), np.asarray(y), qid


def test_it_is_the_function_of_the_data_layer():
    X, _, qid = ranking()
    groups = QueryGroups.from_qid(qid, len(qid))
    alone = query_features(X, groups, ALL)
    fitted = QueryFeatures(ALL, append=False).fit(X, qid=qid)
    np.testing.assert_array_equal(fitted.transform(X, qid=qid), alone)
    assert fitted.n_queries_ == 12
    both = QueryFeatures(ALL).fit_transform(X, qid=qid)
    np.testing.assert_array_equal(both, np.hstack([X, alone]))


def test_threads_types_and_layouts():
    X, _, qid = ranking()
    X[X < 0.0] = 0.0
    expected = QueryFeatures(ALL, n_jobs=1).fit_transform(X, qid=qid)
    for given in (np.asfortranarray(X), sp.csr_array(X), sp.csc_matrix(X), X.tolist()):
        got = QueryFeatures(ALL, n_jobs=3).fit_transform(given, qid=qid)
        assert isinstance(got, np.ndarray)
        np.testing.assert_allclose(got, expected, atol=1e-13)
    single = QueryFeatures(ALL).fit_transform(X.astype(np.float32), qid=qid)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, expected, atol=1e-5)


def test_without_ids_all_items_are_one_query():
    X, _, qid = ranking()
    one = QueryFeatures().fit_transform(X)
    np.testing.assert_array_equal(one, QueryFeatures().fit_transform(X, qid=np.zeros(len(qid))))
    np.testing.assert_array_equal(one, QueryFeatures().fit(X).transform(X))


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_frames_and_names(make: Any) -> None:
    X, _, qid = ranking()
    frame = make({**{name: X[:, c] for c, name in enumerate("abcd")}, "query": qid})
    fitted = QueryFeatures(("rank", "zscore")).fit(frame, qid="query")
    assert list(fitted.feature_names_in_) == list("abcd")
    names = [*"abcd", *(f"{k}({f})" for k in ("rank", "zscore") for f in "abcd")]
    assert list(fitted.get_feature_names_out()) == names
    plain = QueryFeatures(("rank", "zscore")).fit_transform(X, qid=qid)
    np.testing.assert_array_equal(fitted.transform(frame, qid="query"), plain)
    np.testing.assert_array_equal(fitted.transform(frame), plain)  # the column of fit
    features = frame[list("abcd")]
    np.testing.assert_array_equal(fitted.transform(features, qid=qid), plain)
    for kind, module in (("pandas", pd), ("polars", pl)):
        framed = clone(fitted).set_output(transform=kind).fit_transform(frame, qid="query")
        assert isinstance(framed, module.DataFrame)
        assert list(framed.columns) == names
        np.testing.assert_array_equal(framed.to_numpy(), plain)


def test_names_of_arrays():
    X, _, qid = ranking(n_features=2)
    fitted = QueryFeatures().fit(X, qid=qid)
    assert list(fitted.get_feature_names_out()) == ["x0", "x1", "rank(x0)", "rank(x1)"]
    assert list(fitted.get_feature_names_out(["a", "b"])) == ["a", "b", "rank(a)", "rank(b)"]
    fitted.set_params(append=False)
    assert list(fitted.get_feature_names_out()) == ["rank(x0)", "rank(x1)"]
    with pytest.raises(ValueError, match="input_features"):
        fitted.get_feature_names_out(["a"])


def test_pickles():
    X, _, qid = ranking()
    fitted = QueryFeatures().fit(X, qid=qid)
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.transform(X, qid=qid), fitted.transform(X, qid=qid))


def test_before_a_ranker_in_a_pipeline():
    X, y, qid = ranking(60)
    X = X * np.exp(np.random.default_rng(0).normal(size=qid.max() + 1))[qid, None]
    features = QueryFeatures().fit_transform(X, qid=qid)
    ranker = LinearRankSVM().fit(features, y, qid=qid)
    with config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(QueryFeatures(), LinearRankSVM()).fit(X, y, qid=qid)
        scores = pipeline.predict(X, qid=qid)
        accuracy = pipeline.score(X, y, qid=qid)
        assert make_pipeline(
            StandardScaler(), QueryFeatures(append=False), LinearRankSVM()
        ).fit(X, y, qid=qid).score(X, y, qid=qid) > 0.5  # fmt: skip
        found = cross_val_score(
            make_pipeline(QueryFeatures(), LinearRankSVM()),
            X, y, cv=QueryKFold(3), params={"qid": qid},
        )  # fmt: skip
        with pytest.raises(ValueError, match="got no qid"):
            pipeline.predict(X)
    np.testing.assert_array_equal(scores, ranker.predict(features))
    assert accuracy == ranker.score(features, y, qid=qid)
    assert found.shape == (3,)
    assert np.isfinite(found).all()


# What goes wrong


def test_ids_are_missing():
    X, _, qid = ranking()
    fitted = QueryFeatures().fit(X, qid=qid)
    with pytest.raises(ValueError, match=r"no qid, but QueryFeatures was fitted on 12 queries"):
        fitted.transform(X)
    one = fitted.transform(X, qid=[0] * len(X))
    np.testing.assert_array_equal(one, QueryFeatures().fit_transform(X))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"features": "rank"}, "features must be a list or tuple of names"),
        ({"features": ()}, "features is empty; name at least one"),
        ({"features": ("rang",)}, "features must be one of 'rank', .*; got 'rang'"),
        ({"features": ("rank", "rank")}, "features has 'rank' twice"),
        ({"append": "yes"}, "append must be True or False; got 'yes'"),
        ({"n_jobs": 0}, "n_jobs must be None or an integer other than 0"),
    ],
)
def test_bad_parameters(settings: Any, message: str) -> None:
    X, _, qid = ranking()
    with pytest.raises(ValueError, match=message):
        QueryFeatures().set_params(**settings).fit_transform(X, qid=qid)


def test_bad_items():
    X, _, qid = ranking()
    with pytest.raises(NotFittedError):
        QueryFeatures().transform(X)
    fitted = QueryFeatures().fit(X, qid=qid)
    with pytest.raises(ValueError, match=r"X has 3 features, but .* is expecting 4 features"):
        fitted.transform(X[:, :3], qid=qid)
    with pytest.raises(ValueError, match="one query id per row"):
        fitted.transform(X, qid=qid[:-1])
    with pytest.raises(ValueError, match="qid='query' names a column, but X is a ndarray"):
        fitted.transform(X, qid="query")
    with pytest.raises(ValueError, match="missing id"):
        QueryFeatures().fit(X, qid=np.where(qid == 0, np.nan, qid))
    broken = X.copy()
    broken[3, 2] = np.nan
    for call in (fitted.transform, fitted.fit, fitted.fit_transform):
        with pytest.raises(ValueError, match=r"column 2: 1 NaN"):
            call(broken, qid=qid)
    assert fitted.transform(X, qid=qid).shape == (len(X), 8)  # a failed fit changes nothing
