"""The search of AutoRankSVM: what it tries, when it ends, and the model that it makes."""

from __future__ import annotations

import json
import math
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError

import ranksvm
from ranksvm import AutoRankSVM, KernelRankSVM, LinearRankSVM
from ranksvm._durations import parse_duration
from ranksvm._messages import ParameterError
from ranksvm.data.ranking_data import RankingData
from ranksvm.datasets import make_ranking
from ranksvm.learners import read_model
from ranksvm.learners.ensemble_model import EnsembleModel
from ranksvm.metrics import evaluate
from ranksvm.model_selection.auto_cells import (
    HIGHEST_C,
    Key,
    Outcome,
    SpaceRun,
    beyond_edge,
    spread_within,
)
from ranksvm.model_selection.auto_models import joined
from ranksvm.model_selection.auto_plan import (
    FIRST_GAMMA,
    HIGHEST_GAMMA,
    PRESETS,
    Explorer,
    Family,
    Space,
    families_of,
    pair_weights_for,
)
from ranksvm.model_selection.auto_results import Candidate, best_first
from ranksvm.models import ModelFileError, write_model
from ranksvm.models.files import _to_bytes


@pytest.fixture(scope="module")
def graded() -> RankingData:
    X, y, qid, _ = make_ranking(24, (6, 12), n_features=5, noise=1.0, random_state=0)
    return RankingData(X, y, qid)


@pytest.fixture(scope="module")
def held_out() -> RankingData:
    X, y, qid, _ = make_ranking(12, (6, 12), n_features=5, noise=1.0, random_state=1)
    return RankingData(X, y, qid)


@pytest.fixture(scope="module")
def fitted(graded: RankingData, held_out: RankingData) -> AutoRankSVM:
    return small().fit(*graded, validation=tuple(held_out))


def small(**params: Any) -> AutoRankSVM:
    return AutoRankSVM(**{"n_models": 4, "n_landmarks": 20, "n_jobs": 1, **params})


def board(model: AutoRankSVM) -> list[dict[str, Any]]:
    """The leaderboard without times."""
    return [{k: v for k, v in row.items() if k != "seconds"} for row in model.leaderboard_]


# --- The plan -------------------------------------------------------------------------------------

LINEAR = Family("standard", (), None)
RBF = Family("standard", (), "rbf")
LAPLACIAN = Family("quantile", ("rank",), "laplacian")


def explored(families: list[Family], score: Any) -> list[Space]:
    explorer, order = Explorer(families), []
    while (space := explorer.next()) is not None:
        assert explorer.n_left() > 0
        order.append(space)
        explorer.tell(space, [math.nan, score(space)])
    assert explorer.n_left() == 0
    return order


def test_linear_models_come_first_then_one_space_of_every_family() -> None:
    order = explored([RBF, LAPLACIAN, LINEAR], lambda space: 0.5)
    assert order[0] == Space(LINEAR, 0)
    assert {space.family for space in order[1:3]} == {RBF, LAPLACIAN}
    assert all(space.power == FIRST_GAMMA for space in order[1:3])


def test_a_family_with_a_promising_view_comes_before_the_others() -> None:
    good = Family("quantile", ("rank",), None)
    scores = {LINEAR: 0.3, good: 0.6}
    order = explored([LINEAR, good, RBF, LAPLACIAN], lambda space: scores.get(space.family, 0.1))
    assert [space.family for space in order[2:4]] == [LAPLACIAN, RBF]


@pytest.mark.parametrize("best", [-3, FIRST_GAMMA, 2])
def test_the_search_goes_on_until_both_neighbors_of_the_best_gamma_are_worse(best: int) -> None:
    order = explored([RBF], lambda space: -abs(space.power - best))
    powers = sorted(space.power for space in order)
    low, high = min(best - 1, FIRST_GAMMA - 1), max(best + 1, FIRST_GAMMA + 1)
    assert {best - 1, best, best + 1} <= set(powers)
    assert low <= powers[0]
    assert powers[-1] <= high
    assert len(set(powers)) == len(powers)


def test_a_grid_of_gammas_ends() -> None:
    order = explored([RBF], lambda space: space.power)
    assert max(space.power for space in order) == HIGHEST_GAMMA


def test_the_best_family_is_refined_first() -> None:
    order = explored([RBF, LAPLACIAN], lambda space: 0.9 if space.family == LAPLACIAN else 0.1)
    assert [space.family for space in order[2:4]] == [LAPLACIAN, LAPLACIAN]


def outcomes(scores: dict[tuple[str, int], float]) -> dict[Key, Outcome]:
    return {Key(*key): Outcome(score, 0.0, "CONVERGED", 0.0) for key, score in scores.items()}


def grown(scores: dict[tuple[str, int], float]) -> list[Key]:
    return beyond_edge({Key(*key): score for key, score in scores.items()})


def test_a_path_grows_while_the_best_lies_on_its_edge() -> None:
    inside = {("uniform", 0): 0.1, ("uniform", 1): 0.5, ("uniform", 2): 0.3}
    assert grown(inside) == []
    assert grown({**inside, ("gain", 2): 0.6}) == [Key("uniform", 3), Key("gain", 3)]
    assert grown({**inside, ("uniform", 0): 0.9}) == [Key("uniform", -1)]
    tied = {("uniform", 0): 0.1, ("uniform", 1): 0.5, ("uniform", 2): 0.5}
    assert grown(tied) == []  # a plateau
    assert grown({("uniform", 0): 0.5, ("uniform", 1): 0.5, ("uniform", 2): 0.1}) == []
    assert grown({("uniform", 0): 0.5, ("gain", 0): 0.5, ("gain", 1): 0.1}) != []
    assert grown({("uniform", 0): math.nan}) == []
    assert grown({("uniform", HIGHEST_C - 1): 0.1, ("uniform", HIGHEST_C): 1.0}) == []


def test_views_depend_on_the_data(graded: RankingData) -> None:
    best = PRESETS["best"]
    assert {family.query_features for family in families_of(graded, best)} == {(), ("rank",)}
    assert {family.scaling for family in families_of(graded, best)} == {"standard", "quantile"}
    assert pair_weights_for(graded, best) == ("uniform", "gain", "lambda")
    one = RankingData(graded.X, graded.y)
    assert {family.query_features for family in families_of(one, best)} == {()}
    real = replace(graded, y=graded.y + 0.5)
    assert pair_weights_for(real, best) == ("uniform",)
    wide = RankingData(sp.csr_matrix((40_000, 40_000)), np.zeros(40_000), np.arange(40_000) // 2)
    assert {(one.scaling, one.query_features) for one in families_of(wide, best)} == {
        (None, ()),
        ("standard", ()),
    }
    assert [(one.kernel, one.query_features) for one in families_of(graded, PRESETS["fast"])] == [
        (None, ("rank",))
    ]


def test_candidates_are_ordered_by_splits_score_and_C() -> None:
    space, settings = Space(LINEAR, 0), LinearRankSVM()
    made = [
        Candidate(space, Key("uniform", power), settings, scores)
        for power, scores in [(0, [0.9]), (3, [0.5, 0.6]), (2, [0.6, 0.5]), (1, [0.9, math.nan])]
    ]
    assert [one.key.power for one in best_first(made)] == [2, 3, 1, 0]


# --- The model ------------------------------------------------------------------------------------


def test_the_leaderboard_has_all_candidates_best_first(fitted: AutoRankSVM) -> None:
    rows = fitted.leaderboard_
    scores = [row["score"] for row in rows]
    assert scores == sorted(scores, reverse=True)
    assert [row["chosen"] for row in rows] == [True] * 4 + [False] * (len(rows) - 4)
    assert {row["kernel"] for row in rows} == {"linear", "rbf", "laplacian"}
    assert {row["pair_weight"] for row in rows} == {"uniform", "gain", "lambda"}
    assert {row["scaling"] for row in rows} == {"standard", "quantile"}
    assert {tuple(row["query_features"]) for row in rows} == {(), ("rank",)}
    assert fitted.best_score_ == scores[0]
    assert fitted.metric_ == "ndcg@10"
    assert fitted.ended_ == "complete"


def test_scores_are_the_mean_of_the_standardized_scores_of_the_best(
    graded: RankingData, held_out: RankingData
) -> None:
    model = small(n_models=3, refit=False).fit(*graded, validation=tuple(held_out))
    expected = np.zeros(graded.n_items)
    for row in model.leaderboard_[:3]:
        shared = {
            "scaling": row["scaling"],
            "query_features": tuple(row["query_features"]),
            "pair_weight": row["pair_weight"],
            "tol": 1e-3,
        }
        one: Any = LinearRankSVM(row["C"], **shared)
        if row["kernel"] != "linear":
            one = KernelRankSVM(
                row["C"], kernel=row["kernel"], gamma=row["gamma"], approximation="nystroem",
                n_components=20, random_state=0, **shared,
            )  # fmt: skip
        scores = one.fit(*graded).predict(graded.X, qid=graded.qid)
        expected += scores / (3 * spread_within(scores, graded.groups))
    found = model.predict(graded.X, qid=graded.qid)
    middle = np.bincount(graded.groups.index, found - expected) / graded.groups.sizes
    np.testing.assert_allclose(found - middle[graded.groups.index], expected, atol=0.02)


def test_refit_is_on_everything(graded: RankingData, held_out: RankingData) -> None:
    again = small(preset="fast").fit(*graded, validation=tuple(held_out))
    once = small(preset="fast", refit=False).fit(*graded, validation=tuple(held_out))
    assert again._model.facts["n_items"] == graded.n_items + held_out.n_items
    assert again._model.facts["n_queries"] == 36
    assert once._model.facts["n_items"] == graded.n_items
    assert board(again) == board(once)


def test_sets_are_joined_with_different_queries(graded: RankingData, held_out: RankingData) -> None:
    weighted = replace(
        graded, item_weight=np.full(graded.n_items, 2.0), query_weight=np.arange(24.0)
    )
    both = joined(weighted, held_out)
    assert both.groups.n_queries == 36
    np.testing.assert_array_equal(both.groups.index[: graded.n_items], graded.groups.index)
    np.testing.assert_array_equal(both.y, np.concatenate([graded.y, held_out.y]))
    np.testing.assert_array_equal(both.item_weight[[0, -1]], [2.0, 1.0])
    np.testing.assert_array_equal(both.query_weight, [*np.arange(24.0), *np.ones(12)])
    np.testing.assert_array_equal(both.X, np.concatenate([graded.X, held_out.X]))
    one = joined(
        RankingData(graded.X, graded.y), RankingData(sp.csr_matrix(held_out.X), held_out.y)
    )
    assert one.groups.n_queries == 1
    assert one.qid is None
    np.testing.assert_array_equal(one.X.toarray(), both.X)
    assert joined(graded, None) is graded


def test_labels_that_floats_cannot_hold_stay_in_order() -> None:
    exact = np.array([2**60, 2**60 + 1, 2**60 + 2, 5], dtype=object)
    parts = [
        RankingData(np.eye(4)[:, :2], np.array(order), np.zeros(4), labels=labels)
        for labels, order in ((exact, [1.0, 2.0, 3.0, 0.0]), (exact[::-1], [0.0, 3.0, 2.0, 1.0]))
    ]
    both = joined(*parts)
    np.testing.assert_array_equal(both.y, [1, 2, 3, 0, 0, 3, 2, 1])
    assert list(both.truth) == [*exact, *exact[::-1]]


def test_it_is_better_than_chance_on_other_queries(
    fitted: AutoRankSVM, held_out: RankingData
) -> None:
    X, y, qid, coef = make_ranking(40, (6, 12), n_features=5, noise=0.5, random_state=3)
    train, test = qid < 25, qid >= 25
    model = small(cv=3).fit(X[train], y[train], qid=qid[train])
    found = evaluate(y[test], model.predict(X[test], qid=qid[test]), qid[test], ["ndcg@10"])
    truth = evaluate(y[test], X[test] @ coef, qid[test], ["ndcg@10"])
    chance = evaluate(y[test], np.zeros(test.sum()), qid[test], ["ndcg@10"])
    assert found["ndcg@10"] > 0.5 * (truth["ndcg@10"] + chance["ndcg@10"])


def test_folds_compare_the_best_candidates_on_all_splits(graded: RankingData) -> None:
    model = small(cv=3).fit(*graded)
    splits = [row["splits"] for row in model.leaderboard_]
    assert splits == sorted(splits, reverse=True)
    assert set(splits) == {1, 3}
    assert splits.count(3) >= 12
    assert all(row["splits"] == 3 for row in model.leaderboard_ if row["chosen"])


def test_the_best_C_of_all_folds_is_not_on_the_edge(graded: RankingData) -> None:
    for seed in range(3):
        X, y, qid, _ = make_ranking(20, (4, 9), n_features=4, noise=2.0, random_state=seed)
        model = small(preset="fast", cv=4).fit(X, y, qid=qid)
        rows = [row for row in model.leaderboard_ if row["splits"] == 4]
        edges = [pick(row["C"] for row in rows) for pick in (min, max)]
        inside = [row["score"] for row in rows if row["C"] not in edges]
        assert max(inside) == model.best_score_  # an edge may be as good


def test_every_number_of_threads_gives_the_same_bits(
    graded: RankingData, held_out: RankingData, fitted: AutoRankSVM
) -> None:
    other = small(n_jobs=3).fit(*graded, validation=tuple(held_out))
    assert board(other) == board(fitted)
    scores = [one.predict(held_out.X, qid=held_out.qid) for one in (other, fitted)]
    np.testing.assert_array_equal(*scores)


def test_one_ranking_of_real_labels(graded: RankingData) -> None:
    y = graded.X[:, 0] ** 2 + 0.1 * graded.X[:, 1]
    model = small(cv=3).fit(graded.X, y)
    assert model.metric_ == "pairwise_accuracy"
    assert {row["pair_weight"] for row in model.leaderboard_} == {"uniform"}
    assert model.score(graded.X, y) > 0.8
    assert model.predict(graded.X).shape == y.shape  # no qid is needed


def test_sparse_features(graded: RankingData, held_out: RankingData) -> None:
    dense = small(preset="fast").fit(*graded, validation=tuple(held_out))
    sparse = small(preset="fast").fit(
        sp.csr_matrix(graded.X), graded.y, graded.qid,
        validation=(sp.csr_matrix(held_out.X), held_out.y, held_out.qid),
    )  # fmt: skip
    found = sparse.predict(sp.csr_matrix(held_out.X), qid=held_out.qid)
    np.testing.assert_allclose(found, dense.predict(held_out.X, qid=held_out.qid), atol=1e-8)


def test_a_small_set_has_exact_kernels(graded: RankingData, held_out: RankingData) -> None:
    model = small(n_landmarks=300).fit(*graded, validation=tuple(held_out))
    assert {member.kind for member in model.members_} <= {"kernel", "linear"}


def test_weights_reach_the_fits(graded: RankingData, held_out: RankingData) -> None:
    weight = np.where(graded.qid < 12, 1.0, 0.0)
    some = graded.take(np.flatnonzero(graded.qid < 12))
    one = small(preset="fast", refit=False).fit(
        *graded, query_weight=np.where(np.arange(24) < 12, 1.0, 0.0), validation=tuple(held_out)
    )
    other = small(preset="fast", refit=False).fit(
        *graded, sample_weight=weight, validation=tuple(held_out)
    )
    alone = small(preset="fast", refit=False).fit(*some, validation=tuple(held_out))
    # Items of weight zero count in no pair; with query weights, they count in the scaling.
    scores = [m.predict(held_out.X, qid=held_out.qid) for m in (one, other, alone)]
    assert np.corrcoef(scores[0], scores[2])[0, 1] > 0.99
    assert np.corrcoef(scores[1], scores[2])[0, 1] > 0.99
    plain = small(preset="fast", refit=False).fit(*graded, validation=tuple(held_out))
    assert not np.allclose(plain.predict(held_out.X, qid=held_out.qid), scores[1])


# --- The end of a search --------------------------------------------------------------------------


def test_a_time_limit_keeps_what_is_complete(graded: RankingData, held_out: RankingData) -> None:
    model = small(time_limit=1e-6).fit(*graded, validation=tuple(held_out))
    assert model.ended_ == "time limit"
    assert {(row["kernel"], row["scaling"]) for row in model.leaderboard_} == {
        ("linear", "standard")
    }
    assert model.predict(held_out.X, qid=held_out.qid).shape == (held_out.n_items,)


def test_a_time_limit_with_folds(graded: RankingData) -> None:
    model = small(time_limit=1e-6, cv=3).fit(*graded)
    assert model.ended_ == "time limit"
    assert {row["splits"] for row in model.leaderboard_} == {1}


class Stop:
    """Raises an exception after some steps."""

    def __init__(self, error: type[BaseException], after: int) -> None:
        self.error, self.left = error, after

    def __call__(self, done: int, total: int, message: str) -> None:
        assert done <= total
        self.left -= 1
        if self.left == 0:
            raise self.error


def test_ctrl_c_keeps_the_best_so_far(graded: RankingData, held_out: RankingData) -> None:
    with pytest.warns(UserWarning, match="interrupted after .* candidates"):
        model = small().fit(
            *graded, validation=tuple(held_out), progress=Stop(KeyboardInterrupt, after=6)
        )
    assert model.ended_ == "interrupted"
    assert sum(row["chosen"] for row in model.leaderboard_) == 4
    assert len(model.members_) == 4
    assert model._model.facts["n_items"] == graded.n_items  # not fitted again
    assert model.predict(held_out.X, qid=held_out.qid).shape == (held_out.n_items,)


def test_an_interrupted_search_continues_from_its_file(
    graded: RankingData, held_out: RankingData, fitted: AutoRankSVM, tmp_path: Path
) -> None:
    path = tmp_path / "search.db"
    with pytest.raises(RuntimeError):
        small(checkpoint=path).fit(
            *graded, validation=tuple(held_out), progress=Stop(RuntimeError, after=8)
        )
    steps: list[str] = []
    model = small(checkpoint=path).fit(
        *graded, validation=tuple(held_out), progress=lambda *step: steps.append(step[2])
    )
    assert board(model) == board(fitted)
    scores = [one.predict(held_out.X, qid=held_out.qid) for one in (model, fitted)]
    np.testing.assert_array_equal(*scores)
    # What is complete is only read.
    again = small(checkpoint=path, refit=False).fit(*graded, validation=tuple(held_out))
    assert board(again) == board(fitted)
    assert again.predict(held_out.X, qid=held_out.qid).shape == (held_out.n_items,)
    with pytest.raises(ValueError, match="different search"):
        small(checkpoint=path, n_landmarks=19).fit(*graded, validation=tuple(held_out))


def test_folds_continue_from_a_file(graded: RankingData, tmp_path: Path) -> None:
    path = tmp_path / "search.db"
    whole = small(cv=2).fit(*graded)
    with pytest.raises(RuntimeError):
        small(cv=2, checkpoint=path).fit(*graded, progress=Stop(RuntimeError, after=1))
    for after in (10, 25):
        with pytest.raises(RuntimeError):
            small(cv=2, checkpoint=path).fit(*graded, progress=Stop(RuntimeError, after=after))
    assert board(small(cv=2, checkpoint=path).fit(*graded)) == board(whole)


@pytest.mark.parametrize(
    "change",
    [
        lambda rows: rows.append(rows[0]),
        lambda rows: rows[0].__setitem__(0, "other"),
        lambda rows: rows[0].__setitem__(1, 99),
        lambda rows: rows[0].__setitem__(2, "1.5"),
        lambda rows: rows[0].__setitem__(4, "UNKNOWN"),
        lambda rows: rows[0].__setitem__(5, -1.0),
        lambda rows: rows.clear(),
        lambda rows: rows[0].append(1),
    ],
)
def test_impossible_numbers_in_a_file_are_refused(change: Any) -> None:
    run = SpaceRun(outcomes({("uniform", 0): 0.5, ("gain", 1): math.nan}), 1.5, {})
    again = SpaceRun.from_text(run.to_text(), "ndcg@10", ("uniform", "gain"))
    assert again.outcomes[Key("uniform", 0)] == run.outcomes[Key("uniform", 0)]
    assert math.isnan(again.outcomes[Key("gain", 1)].score)
    entries = json.loads(run.to_text())
    change(entries["candidates"])
    with pytest.raises((ValueError, KeyError, TypeError)):
        SpaceRun.from_text(json.dumps(entries), "ndcg@10", ("uniform", "gain"))


# --- Files, explanations, messages ----------------------------------------------------------------


def test_a_file_gives_the_model_back(
    fitted: AutoRankSVM, held_out: RankingData, tmp_path: Path
) -> None:
    path = tmp_path / "auto.safetensors"
    fitted.save(path)
    loaded = ranksvm.load(path)
    expected = fitted.predict(held_out.X, qid=held_out.qid)
    np.testing.assert_array_equal(loaded.predict(held_out.X, qid=held_out.qid), expected)
    assert isinstance(loaded, AutoRankSVM)
    assert loaded.leaderboard_ == fitted.leaderboard_[:100]
    assert (loaded.n_models, loaded.n_landmarks) == (4, 20)
    assert loaded.metric_ == fitted.metric_
    np.testing.assert_array_equal(
        loaded.rank(held_out.X, qid=held_out.qid), fitted.rank(held_out.X, qid=held_out.qid)
    )


def test_explanations_add_up(fitted: AutoRankSVM, held_out: RankingData) -> None:
    scores = fitted.predict(held_out.X, qid=held_out.qid)
    found = fitted.explain(held_out.X, 0, 3, qid=held_out.qid)
    assert found.difference == pytest.approx(scores[0] - scores[3])
    assert found.contributions.sum() == pytest.approx(found.difference)
    assert found.scores == pytest.approx((scores[0], scores[3]))
    assert "sum" in str(found)


def test_linear_members_explain_features(graded: RankingData) -> None:
    model = small(preset="fast", cv=2).fit(*graded)
    found = model.explain(graded.X, 0, 1, qid=graded.qid)
    assert found.part == "feature"
    assert {name.partition("(")[0] for name in found.names} == {
        *map("feature {}".format, range(5)),
        "rank",
    }
    scores = model.predict(graded.X, qid=graded.qid)
    assert found.contributions.sum() == pytest.approx(scores[0] - scores[1])


def test_a_model_with_ranks_needs_query_ids(graded: RankingData) -> None:
    model = small(preset="fast", cv=2).fit(*graded)
    assert all(member.view for member in model.members_)
    with pytest.raises(ValueError, match="needs the query of each item"):
        model.predict(graded.X)


@pytest.fixture
def model(fitted: AutoRankSVM) -> EnsembleModel:
    found = fitted._get_model()
    assert isinstance(found, EnsembleModel)
    return found


def test_models_of_members_are_checked(model: EnsembleModel, tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    write_model(path, model)
    assert isinstance(read_model(path), EnsembleModel)
    with pytest.raises(ValueError, match="as many factors"):
        _to_bytes(replace(model, factors=model.factors[:-1]))
    with pytest.raises(ValueError, match="must be finite"):
        _to_bytes(replace(model, factors=np.full(len(model.members), np.nan)))
    with pytest.raises(ValueError, match="cannot be a model of kind 'ensemble'"):
        _to_bytes(replace(model, members=(model,), factors=np.ones(1)))
    with pytest.raises(ValueError, match="1 to 1000 models"):
        _to_bytes(replace(model, members=(), factors=np.ones(0)))


def test_hostile_facts_are_refused(
    model: EnsembleModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    form, arrays = EnsembleModel.FORMATS["ensemble"], model.arrays()

    def refused(match: str, facts: dict[str, Any], arrays: Any = arrays) -> None:
        with pytest.raises(ValueError, match=match):
            form.validate("ensemble", arrays, facts)

    members = [dict(one) for one in model.facts["members"]]
    selection = model.facts["selection"]
    facts = {"members": members, "selection": selection}
    assert form.validate("ensemble", arrays, facts) == model.n_features
    refused("selection in the facts must have metric", {"members": members})
    for wrong in ({"leaderboard": 3}, {"best_score": "high"}, {"ended": None}, {"metric": 1}):
        refused(" of selection is a ", {**facts, "selection": {**selection, **wrong}})
    row = selection["leaderboard"][0]
    for wrong in ({"C": "1"}, {"query_features": 1}, {"scaling": 1}, {"kernel": None}):
        rows = [row, {**row, **wrong}]
        refused(
            " of candidate 1 of the selection is a ",
            {**facts, "selection": {**selection, "leaderboard": rows}},
        )
    rows = [{**row, "query_features": [1]}]
    refused("must be strings", {**facts, "selection": {**selection, "leaderboard": rows}})
    refused("in the facts must", {**facts, "selection": {**selection, "leaderboard": ["x"]}})
    refused("1 to 1000 models", {})
    refused("1 to 1000 models", {"members": "many"})
    refused("arrays of the members", {"members": members[:-1]})
    refused("must have kind, params, facts", {"members": [{}, *members[1:]]})
    more = {**members[0], "more": 1}
    refused("must have kind, params, facts only", {"members": [more, *members[1:]]})
    refused("kind of member 0 is a int", {"members": [{**members[0], "kind": 3}, *members[1:]]})
    refused("cannot be a model", {"members": [{**members[0], "kind": "tree"}, *members[1:]]})
    fewer = {name: one for name, one in arrays.items() if name != "0.coef"}
    refused("member 0: a .* model has the arrays", {"members": members}, fewer)
    refused("as many factors", {"members": members}, {**arrays, "more": np.ones(2)})


def test_members_have_the_same_number_of_features(
    model: EnsembleModel, graded: RankingData
) -> None:
    narrow = LinearRankSVM().fit(graded.X[:, :2], graded.y, graded.qid)._get_model()
    with pytest.raises(ValueError, match="different numbers of features"):
        _to_bytes(
            replace(
                model, members=(*model.members, narrow), factors=np.ones(len(model.members) + 1)
            )
        )


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"preset": "all"}, "preset must be one of"),
        ({"time_limit": "soon"}, "time_limit must be a positive number of seconds"),
        ({"time_limit": 0}, "time_limit must be"),
        ({"n_models": 0}, "n_models must be"),
        ({"n_landmarks": 1.5}, "n_landmarks must be"),
        ({"refit": "yes"}, "refit must be"),
        ({"random_state": -1}, "random_state"),
        ({"metric": "best"}, "unknown metric"),
    ],
)
def test_wrong_parameters(params: dict[str, Any], match: str, graded: RankingData) -> None:
    with pytest.raises(ValueError, match=match):
        AutoRankSVM(**params).fit(*graded)


def test_an_unfitted_model_says_so(graded: RankingData) -> None:
    with pytest.raises(NotFittedError):
        AutoRankSVM().predict(graded.X)
    with pytest.raises(NotFittedError):
        _ = AutoRankSVM().members_


def test_a_failed_fit_keeps_the_old_model(graded: RankingData, held_out: RankingData) -> None:
    model = small(preset="fast", cv=2).fit(*graded)
    before = model.predict(graded.X, qid=graded.qid)
    with pytest.raises(ValueError, match="comparable pair"):
        model.fit(graded.X[:, :3], np.zeros(graded.n_items), graded.qid)
    np.testing.assert_array_equal(model.predict(graded.X, qid=graded.qid), before)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90.0),
        ("90s", 90.0),
        (" 1.5 h", 5400.0),
        ("5M", 300.0),
        ("2min", 120.0),
        (3, 3.0),
        (0.5, 0.5),
    ],
)
def test_durations(text: Any, seconds: float) -> None:
    assert parse_duration("time_limit", text) == seconds


@pytest.mark.parametrize(
    "text", ["", "m", "5d", "-1", "0", "1e400s", "nan", None, True, math.inf, [5]]
)
def test_durations_that_are_none(text: Any) -> None:
    with pytest.raises(ParameterError, match="time_limit must be a positive number"):
        parse_duration("time_limit", text)


def test_the_model_of_a_damaged_file_is_refused(fitted: AutoRankSVM, tmp_path: Path) -> None:
    path = tmp_path / "auto.safetensors"
    fitted.save(path)
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match="checksum"):
        ranksvm.load(path)


def test_no_warning_without_reason(graded: RankingData, held_out: RankingData) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        small(preset="fast").fit(*graded, validation=tuple(held_out))
