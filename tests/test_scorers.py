"""Metrics as scikit-learn's scoring, with qid routed."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pytest
import sklearn
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.metrics import check_scoring, get_scorer
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ranksvm import LinearRankSVM
from ranksvm.datasets import make_ranking
from ranksvm.metrics import evaluate, ndcg, ranking_scorer, register_scorers

GRID = {"C": [0.1, 10.0]}


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.fixture(scope="module")
def data():
    X, y, qid, _ = make_ranking(20, (2, 12), 4, n_levels=3, shuffle=True, random_state=0)
    return X, y, np.array([f"q{q}" for q in qid])


def folds():
    return GroupKFold(3).set_split_request(groups="qid")


def expected_scores(X, y, qid, names, model):
    """Fit and score fold by fold, by hand."""
    found = []
    for train, test in GroupKFold(3).split(X, y, qid):
        fitted = clone(model).fit(X[train], y[train], qid=qid[train])
        found.append(evaluate(y[test], fitted.predict(X[test]), qid[test], names))
    return found


def test_a_grid_search_needs_nothing_else(routing, data):
    X, y, qid = data
    scoring = ranking_scorer("ndcg@10")
    search = GridSearchCV(LinearRankSVM(), GRID, scoring=scoring, cv=folds(), error_score="raise")
    search.fit(X, y, qid=qid)
    for i, C in enumerate(GRID["C"]):
        by_hand = expected_scores(X, y, qid, "ndcg@10", LinearRankSVM(C))
        found = [search.cv_results_[f"split{k}_test_score"][i] for k in range(3)]
        assert found == [scores["ndcg@10"] for scores in by_hand]
    assert search.score(X, y, qid=qid) == ndcg(y, search.predict(X), qid)


def test_inside_a_pipeline(routing, data):
    X, y, qid = data
    model = make_pipeline(StandardScaler(), LinearRankSVM())
    found = cross_validate(
        model, X, y, params={"qid": qid}, cv=folds(), scoring=ranking_scorer("map"),
        error_score="raise",
    )  # fmt: skip
    by_hand = [
        evaluate(
            y[test],
            make_pipeline(StandardScaler(), LinearRankSVM())
            .fit(X[train], y[train], qid=qid[train])
            .predict(X[test]),
            qid[test],
            "map",
        )["map"]
        for train, test in GroupKFold(3).split(X, y, qid)
    ]
    assert found["test_score"].tolist() == by_hand


class QueryCentred(TransformerMixin, BaseEstimator):
    """Takes the mean of the query off: a transformer that wants qid, also in predict."""

    def fit(self, X, y=None):
        return self

    def fit_transform(self, X, y=None, qid=None):
        return self.fit(X, y).transform(X, qid)

    def transform(self, X, qid):
        X = np.array(X)
        for q in set(qid):
            X[qid == q] -= X[qid == q].mean(axis=0)
        return X


def test_a_step_that_wants_qid_in_predict_gets_it(routing, data):
    X, y, qid = data
    centred = QueryCentred().set_transform_request(qid=True)
    model = make_pipeline(centred, LinearRankSVM())
    found = cross_val_score(
        model, X, y, params={"qid": qid}, cv=folds(), scoring=ranking_scorer("auc"),
        error_score="raise",
    )  # fmt: skip
    assert np.isfinite(found).all()


def test_several_metrics_from_one_prediction(routing, data):
    X, y, qid = data
    names = ["ndcg@5", "map", "kendall_tau"]
    search = GridSearchCV(
        LinearRankSVM(), GRID, scoring=ranking_scorer(names), refit="map", cv=folds(),
        error_score="raise",
    ).fit(X, y, qid=qid)  # fmt: skip
    by_hand = expected_scores(X, y, qid, names, LinearRankSVM(0.1))
    for name in names:
        assert search.cv_results_[f"split0_test_{name}"][0] == by_hand[0][name]


def test_a_dict_of_scorers(routing, data):
    X, y, qid = data
    scoring = {"a": ranking_scorer("ndcg@5"), "b": ranking_scorer("map", conventions="letor")}
    found = cross_validate(
        LinearRankSVM(), X, y, params={"qid": qid}, cv=folds(), scoring=scoring,
        error_score="raise",
    )  # fmt: skip
    assert {"test_a", "test_b"} <= set(found)


def test_no_qid_with_routing_on_is_refused(routing, data):
    X, y, qid = data
    needs_ids = ranking_scorer("ndcg@10")
    refused = pytest.raises(ValueError, match=r"got no qid. Give qid to the fit .*global_ranking=T")
    with refused:
        cross_val_score(LinearRankSVM(), X, y, cv=3, scoring=needs_ids, error_score="raise")
    search = GridSearchCV(LinearRankSVM(), GRID, scoring=needs_ids, cv=folds()).fit(X, y, qid=qid)
    with refused:
        search.score(X, y)
    alone = ranking_scorer("ndcg@10", global_ranking=True)
    model = LinearRankSVM().fit(X, y)
    assert alone(model, X, y) == ndcg(y, model.predict(X))
    assert alone(model, X, y, qid=qid) == ndcg(y, model.predict(X), qid)
    scores = cross_val_score(LinearRankSVM(), X, y, cv=3, scoring=alone, error_score="raise")
    assert np.isfinite(scores).all()


def test_no_qid_with_routing_off_is_refused(data):
    X, y, qid = data
    model = LinearRankSVM().fit(X, y, qid=qid)
    with pytest.raises(ValueError, match=r"enable_metadata_routing=True\) .*global_ranking=True"):
        ranking_scorer("ndcg@10")(model, X, y)
    alone = ranking_scorer("ndcg@10", global_ranking=True)
    assert alone(model, X, y) == ndcg(y, model.predict(X))
    scores = cross_val_score(LinearRankSVM(), X, y, cv=3, scoring=alone, error_score="raise")
    assert np.isfinite(scores).all()


def test_called_by_hand(data):
    X, y, qid = data
    model = LinearRankSVM().fit(X, y, qid=qid)
    assert ranking_scorer("ndcg@10")(model, X, y, qid=qid) == ndcg(y, model.predict(X), qid)
    letor = ranking_scorer("ndcg@10", conventions="letor")(model, X, y, qid=qid)
    assert letor == ndcg(y, model.predict(X), qid, conventions="letor")


def test_scorers_are_values():
    scorer = ranking_scorer("ndcg@10", conventions="letor", global_ranking=True)
    assert repr(scorer) == "ranking_scorer('ndcg@10', conventions='letor', global_ranking=True)"
    assert repr(ranking_scorer(["map", "p@5"])) == "ranking_scorer(['map', 'p@5'])"
    assert pickle.loads(pickle.dumps(scorer)) == scorer == clone(scorer, safe=False)
    search = clone(GridSearchCV(LinearRankSVM(), GRID, scoring=scorer))
    assert search.scoring == scorer
    assert check_scoring(LinearRankSVM(), scoring=scorer) is scorer


def test_bad_scorers():
    with pytest.raises(ValueError, match=r"Did you mean 'ndcg@10'\?"):
        ranking_scorer("ndgc@10")
    with pytest.raises(ValueError, match="conventions must be one of"):
        ranking_scorer("map", conventions="trec")


# Registration changes scikit-learn for the rest of the process, so it gets one of its own.
REGISTERED = """
import numpy as np, sklearn
{early}
from ranksvm.metrics import register_scorers, ranking_scorer
from sklearn.metrics import get_scorer, get_scorer_names
assert not any(name.startswith("ranksvm") for name in get_scorer_names())
names = register_scorers()
assert register_scorers() == names
assert set(names) <= set(get_scorer_names())
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from ranksvm import LinearRankSVM
from ranksvm.datasets import make_ranking
sklearn.set_config(enable_metadata_routing=True)
X, y, qid, _ = make_ranking(12, 8, 4, n_levels=3, random_state=0)
cv = GroupKFold(3).set_split_request(groups="qid")
given = dict(cv=cv, error_score="raise")
by_name, by_object = (
    GridSearchCV(LinearRankSVM(), {{"C": [1.0]}}, scoring=scoring, **given).fit(X, y, qid=qid)
    for scoring in ("ranksvm_ndcg@10", ranking_scorer("ndcg@10"))
)
assert by_name.best_score_ == by_object.best_score_
cross_val_score(LinearRankSVM(), X, y, params={{"qid": qid}}, scoring="ranksvm_p@5", **given)
assert get_scorer("ranksvm_auc") == ranking_scorer("auc")
"""


@pytest.mark.parametrize(
    "early", ["", "import sklearn.model_selection, sklearn.feature_selection"], ids=["", "imported"]
)
def test_names_in_scikit_learns_registry(early):
    code = REGISTERED.format(early=early)
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_another_scikit_learn_is_told_apart(monkeypatch):
    monkeypatch.delattr("sklearn.metrics._scorer._SCORERS")
    with pytest.raises(RuntimeError, match=r"scoring=ranking_scorer\('ndcg@10'\)"):
        register_scorers()
    monkeypatch.undo()
    assert get_scorer("r2") is not None
