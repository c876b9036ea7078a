"""Metrics as scikit-learn's scoring, with qid routed."""

from __future__ import annotations

import ast
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import sklearn
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.metrics import check_scoring
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ranksvm import LinearRankSVM
from ranksvm.datasets import make_ranking
from ranksvm.metrics import evaluate, ndcg, ranking_scorer, scorers

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


def test_ids_under_another_name(routing, data):
    X, y, qid = data
    scorer = ranking_scorer("map").set_score_request(qid="groups")
    model = LinearRankSVM().set_fit_request(qid="groups")
    found = cross_val_score(
        model, X, y, params={"groups": qid}, cv=GroupKFold(3), scoring=scorer, error_score="raise"
    )
    by_hand = expected_scores(X, y, qid, "map", LinearRankSVM())
    assert found.tolist() == [scores["map"] for scores in by_hand]
    assert scorer != ranking_scorer("map")
    ignoring = ranking_scorer("map", global_ranking=True).set_score_request(qid=False)
    search = GridSearchCV(LinearRankSVM(), GRID, scoring=ignoring, cv=folds()).fit(X, y, qid=qid)
    assert search.score(X, y) == evaluate(y, search.predict(X), metrics="map")["map"]


def test_no_qid_with_routing_on_is_refused(routing, data):
    X, y, qid = data
    needs_ids = ranking_scorer("ndcg@10")
    refused = pytest.raises(ValueError, match=r"got no qid. Pass qid to the fit .*global_ranking=T")
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


@pytest.mark.filterwarnings("ignore:.*does not support sample_weight")  # since scikit-learn 1.7
@pytest.mark.parametrize(("names", "column"), [("map", "score"), (["map", "auc"], "auc")])
def test_sample_weight_with_routing_off(data, names, column):
    X, y, _ = data
    scoring = ranking_scorer(names, global_ranking=True)
    search = GridSearchCV(
        LinearRankSVM(), GRID, scoring=scoring, refit=False, cv=3, error_score="raise"
    ).fit(X, y, sample_weight=np.ones(len(y)))
    assert np.isfinite(search.cv_results_[f"mean_test_{column}"]).all()


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


def test_scikit_learn_is_left_as_it_is():
    """Scorers are registered nowhere, and nothing private of scikit-learn is imported."""
    code = """
from sklearn.metrics import get_scorer_names
before = get_scorer_names()
from ranksvm.metrics import ranking_scorer
ranking_scorer("ndcg@10")
assert get_scorer_names() == before
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    tree = ast.parse(Path(scorers.__file__).read_text(encoding="utf-8"))
    imported = [
        f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module.startswith("sklearn")
        for alias in node.names
    ]
    assert imported
    assert not [name for name in imported if "._" in name]
