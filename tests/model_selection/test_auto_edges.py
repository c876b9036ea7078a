"""AutoRankSVM where things go wrong, or nearly: odd labels, interruptions, tiny C, huge values."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from ranksvm import AutoRankSVM, load
from ranksvm.cli import main
from ranksvm.data import save_letor
from ranksvm.data.ranking_data import RankingData
from ranksvm.datasets import make_ranking
from ranksvm.export import write_svmrank
from ranksvm.learners.ensemble_model import label_of
from ranksvm.learners.linear import LinearSettings
from ranksvm.model_selection.auto_cells import Key, SpaceFits
from ranksvm.model_selection.auto_plan import TOLERANCE
from ranksvm.model_selection.auto_search import Budget, _TimeIsUp


@parametrize_with_checks(
    [AutoRankSVM(preset="fast", cv=2, n_models=2)],
    expected_failed_checks=lambda model: {
        f"check_sample_weight_equivalence_on_{layout}_data": "the metric and the spread of scores "
        "do not use weights: a repeated item counts twice there, one that weighs double once"
        for layout in ("dense", "sparse")
    },
)
def test_scikit_learn_checks(estimator: AutoRankSVM, check: Any) -> None:
    check(estimator)


@pytest.fixture(scope="module")
def graded() -> RankingData:
    X, y, qid, _ = make_ranking(24, (6, 12), n_features=5, noise=1.0, random_state=0)
    return RankingData(X, y, qid)


def small(**params: Any) -> AutoRankSVM:
    return AutoRankSVM(**{"n_models": 12, "n_landmarks": 20, "n_jobs": 1, **params})


def n_fits(model: AutoRankSVM) -> int:
    return sum(len(member.facts["fits"]) for member in model.members_)


def n_chosen(model: AutoRankSVM) -> int:
    return sum(row["chosen"] for row in model.leaderboard_)


# --- All chosen candidates are in the model -------------------------------------------------------


def test_without_refit_the_model_has_all_that_were_chosen(
    graded: RankingData, tmp_path: Path
) -> None:
    path = tmp_path / "search.db"
    whole = small(cv=3, refit=False, checkpoint=path).fit(*graded)
    assert n_fits(whole) == n_chosen(whole) == 12
    again = small(cv=3, refit=False, checkpoint=path).fit(*graded)  # a checkpoint has no models
    assert n_fits(again) == 12
    scores = [one.predict(graded.X, qid=graded.qid) for one in (whole, again)]
    np.testing.assert_allclose(*scores, atol=0.02)


class StopWhen:
    """Ctrl-C at the first message with a text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __call__(self, done: int, total: int, message: str) -> None:
        if self.text in message:
            raise KeyboardInterrupt


def test_ctrl_c_during_the_last_fits_keeps_the_candidates_as_they_are(graded: RankingData) -> None:
    with pytest.warns(UserWarning, match="interrupted after"):
        model = small(cv=2).fit(*graded, progress=StopWhen("fitting the best"))
    assert model.ended_ == "interrupted"
    assert n_fits(model) == n_chosen(model) == 12
    assert model._model.facts["n_items"] < graded.n_items  # the first training part
    assert np.ptp(model.predict(graded.X, qid=graded.qid)) > 0.0


# --- Small C --------------------------------------------------------------------------------------


@pytest.mark.parametrize("pair_weight", ["uniform", "gain", "lambda"])
@pytest.mark.parametrize("power", [-10, -7, -4, 2])
def test_a_small_C_ranks_whatever_was_fitted_before(
    graded: RankingData, pair_weight: str, power: int
) -> None:
    """Relative to the objective, all scores 0 is a good solution for a small C."""
    settings = LinearSettings(scaling="standard", tol=TOLERANCE)
    key = Key(pair_weight, power)
    alone = SpaceFits(graded, settings)
    on_path = SpaceFits(graded, settings)
    for other in range(2, power, -1):
        on_path[Key(pair_weight, other)]
    coefs = [fits[key].coef / fits.spread(key) for fits in (alone, on_path)]
    assert np.abs(coefs[0]).max() > 0.1
    if pair_weight != "lambda":  # the rankings of first fits may differ a little
        np.testing.assert_allclose(*coefs, atol=0.05)


# --- Labels and values ----------------------------------------------------------------------------


@pytest.mark.parametrize("labels", [lambda y: 20 * y, lambda y: y - 9.5])
def test_labels_of_the_validation_set_that_are_no_grades(graded: RankingData, labels: Any) -> None:
    """The last fits are to both sets: pair weights of NDCG would fail there."""
    held_out = graded.X, labels(graded.y), graded.qid
    model = small(metric="pairwise_accuracy").fit(*graded, validation=held_out)
    assert {row["pair_weight"] for row in model.leaderboard_} == {"uniform"}


def test_huge_values_give_no_warning(graded: RankingData) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = small(cv=2).fit(graded.X * 1e300, graded.y, graded.qid)
    assert np.isfinite(model.predict(graded.X * 1e300, qid=graded.qid)).all()


def test_one_query_says_what_to_do(graded: RankingData) -> None:
    one = graded.qid == graded.qid[0]
    with pytest.raises(ValueError, match=r"of 1 query .* Use a validation set, or leave out"):
        small().fit(graded.X[one], graded.y[one], graded.qid[one])


def test_one_fold_is_not_1_folds(graded: RankingData) -> None:
    model = small(cv=2, time_limit=1e-6).fit(*graded)
    assert model._model.facts["selection"]["on"] == "1 fold"


# --- What a search tells --------------------------------------------------------------------------


def test_time_that_is_up_on_the_first_fold_is_told(
    graded: RankingData, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other folds have their own share of the time, and may well be complete."""

    def check(self: Budget, reserved: float, share: float = 1.0) -> None:
        if share < 1.0:
            raise _TimeIsUp

    monkeypatch.setattr(Budget, "check", check)
    model = small(cv=2, time_limit=1000).fit(*graded)
    assert model.ended_ == "time limit"
    assert {row["splits"] for row in model.leaderboard_} == {2}


def test_a_checkpoint_belongs_to_a_seed(graded: RankingData, tmp_path: Path) -> None:
    path = tmp_path / "search.db"
    small(preset="fast", cv=2, checkpoint=path).fit(*graded)
    with pytest.raises(ValueError, match=r"different search \(different seed\)"):
        small(preset="fast", cv=2, checkpoint=path, random_state=7).fit(*graded)
    path = tmp_path / "another.db"
    models = [small(cv=2, checkpoint=path, random_state=None).fit(*graded) for _ in range(2)]
    scores = [one.predict(graded.X, qid=graded.qid) for one in models]
    np.testing.assert_array_equal(*scores)  # None continues with the seed of the file


def test_exports_refuse_an_ensemble_for_what_it_is(graded: RankingData, tmp_path: Path) -> None:
    """Without features of the query it would be refused as well."""
    model = small(preset="fast", cv=2).fit(*graded)
    with pytest.raises(ValueError, match=r"got an ensemble model$"):
        write_svmrank(tmp_path / "m.dat", model._get_model())


def command(*words: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    assert ended.value.code in (0, None)


def test_the_command_keeps_parameters_and_info_separates_members(
    graded: RankingData, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, path = tmp_path / "train.txt", tmp_path / "m.safetensors"
    save_letor(data, *graded)
    options = ["--preset", "best", "--time", "1h", "--models", "40", "--folds", "2"]
    command("tune", str(data), *options, "-o", str(path))
    model = load(path)
    assert (model.preset, model.n_models, model.time_limit) == ("best", 40, "1h")
    capsys.readouterr()
    command("info", str(path))
    shown = capsys.readouterr().out
    assert len(model.members_) > 1
    assert "; ".join(label_of(one) for one in model.members_) in shown
