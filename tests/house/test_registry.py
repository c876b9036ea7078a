"""Every interface knows every kind of model: estimator, file, command, info, explain, export."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
import recipes

import ranksvm
import ranksvm.model_selection
from ranksvm._lazy import found_at
from ranksvm.data import RankingData, load_letor
from ranksvm.estimators.loading import estimator_of
from ranksvm.export import read_svmrank, write_svmrank
from ranksvm.learners import LEARNERS, Learner, kind_of, learner_of, read_model
from ranksvm.learners.settings import Settings, option_of, searched, searched_choices
from ranksvm.model_selection.grids import N_CS, N_CS_OF_GRID
from ranksvm.models import Model, write_model

INSIDE = sorted(LEARNERS)
# The kind of model of the recipes is not exported, and the commands are imported without it:
# test_recipes.py has their tests.
KINDS = pytest.mark.parametrize("kind", [*INSIDE, "difference"])
OF_TABLES = {"missing", "min_frequency"}
KINDS_INSIDE = pytest.mark.parametrize("kind", INSIDE)


@pytest.fixture(autouse=True)
def added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LEARNERS, "difference", recipes.DIFFERENCE)


def chosen(learner: Learner) -> list[str]:
    """Options that ask for a kind on the command line."""
    if learner.chosen_by is None:
        return []
    option = option_of(learner.settings, learner.chosen_by)
    assert option is not None
    default = next(one.default for one in fields(learner.settings) if one.name == learner.chosen_by)
    return [f"--{option.flag or learner.chosen_by.replace('_', '-')}", str(default)]


@pytest.fixture
def data(folder: Path) -> RankingData:
    return load_letor(folder / "train.txt")


def fitted(learner: Learner, data: RankingData) -> Model:
    problem = learner.problem(data, learner.settings())
    model: Model = problem.model(problem.solve())
    return model


@KINDS
def test_settings_problem_and_model_belong_together(kind: str, data: RankingData) -> None:
    learner = LEARNERS[kind]
    model = fitted(learner, data)
    assert type(model) is learner.model
    assert kind_of(model) is learner_of(learner.settings()) is learner
    assert model.kind in learner.model.FORMATS
    assert model.n_features == data.n_features
    assert {"objective", "gap", "status", "n_pairs", "n_queries"} <= model.facts.keys()
    assert model.params.keys() == {one.name for one in fields(learner.settings)}


def test_formats_of_files_belong_to_one_kind_each() -> None:
    formats = [name for learner in LEARNERS.values() for name in learner.model.FORMATS]
    assert len(formats) == len(set(formats))


def test_one_kind_is_the_default_of_the_command() -> None:
    assert [name for name, one in LEARNERS.items() if one.chosen_by is None] == ["linear"]


@KINDS
def test_the_estimator_has_the_parameters_of_the_settings(kind: str) -> None:
    learner = LEARNERS[kind]
    estimator = estimator_of(learner)
    if kind in INSIDE:
        assert getattr(ranksvm, estimator.__name__) is estimator
        assert estimator.__name__ in ranksvm.__all__
    parameters = inspect.signature(estimator).parameters
    # Factorized models leave the solver of their linear bound, and its counting, to "auto"; they
    # have no weights of pairs that need these.
    missing = {one.name for one in fields(learner.settings)} - parameters.keys()
    assert missing <= {"solver", "counting", "truncation", "n_reweight"}
    for one in fields(learner.settings):
        if one.name not in missing:
            assert parameters[one.name].default == one.default, one.name
    for name in parameters:
        assert f"    {name} : " in (estimator.__doc__ or "") or f"{name}," in (
            estimator.__doc__ or ""
        ), f"{name} is not documented"


@KINDS
def test_estimator_and_problem_learn_the_same_model(kind: str, data: RankingData) -> None:
    learner = LEARNERS[kind]
    options = {"random_state": 0} if hasattr(learner.settings(), "random_state") else {}
    estimator = estimator_of(learner)(**options).fit(*data)
    problem = learner.problem(data, learner.settings(**options))
    model = problem.model(problem.solve())
    np.testing.assert_allclose(estimator.predict(data.X), model.scores(data.X), rtol=1e-9)
    assert estimator.objective_ == pytest.approx(model.facts["objective"])


@KINDS
def test_a_file_gives_the_model_back(kind: str, data: RankingData, tmp_path: Path) -> None:
    model = fitted(LEARNERS[kind], data)
    path = tmp_path / "model.safetensors"
    write_model(path, model)
    again = read_model(path)
    assert type(again) is type(model)
    np.testing.assert_array_equal(again.scores(data.X), model.scores(data.X))
    assert again.describe() == model.describe()
    loaded = ranksvm.load(path)
    assert type(loaded) is estimator_of(LEARNERS[kind])
    np.testing.assert_array_equal(loaded.predict(data.X), model.scores(data.X))


@KINDS
def test_models_explain_and_describe_themselves(kind: str, data: RankingData) -> None:
    model = fitted(LEARNERS[kind], data)
    scores = model.scores(data.X)
    explained = model.explain(data.X, 0, 3)
    assert explained.difference == pytest.approx(scores[0] - scores[3])
    assert explained.contributions.sum() == pytest.approx(explained.difference)
    assert model.describe()
    weights = model.weights
    if weights is not None:
        np.testing.assert_allclose(np.asarray(data.X) @ weights, scores)


@KINDS_INSIDE
def test_the_commands_know_it(
    kind: str, folder: Path, good: Callable[..., str], tmp_path: Path
) -> None:
    learner = LEARNERS[kind]
    path, train, test = tmp_path / "m.safetensors", folder / "train.txt", folder / "test.txt"
    told = good("train", train, *chosen(learner), "-o", path)
    report = json.loads(good("train", train, *chosen(learner), "--json"))
    assert report["settings"].keys() == {one.name for one in fields(learner.settings)}
    assert learner.summary(report).split(",")[0] in told
    scores = np.array(good("predict", path, test).split(), dtype=float)
    np.testing.assert_array_equal(scores, read_model(path).scores(load_letor(test).X))
    assert read_model(path).kind in good("info", path)
    assert "sum" in good("explain", path, test, 1, 2)
    assert "pairwise_accuracy" in good("evaluate", test, "--model", path)
    help_text = good("train", "--help")
    for one in fields(learner.settings):
        option = option_of(learner.settings, one.name)
        if option is not None:
            assert f"--{option.flag or one.name.replace('_', '-')}" in help_text


@KINDS
def test_export_writes_it_or_says_why_not(kind: str, data: RankingData, tmp_path: Path) -> None:
    model = fitted(LEARNERS[kind], data)
    path = tmp_path / "model.dat"
    if model.weights is None:
        with pytest.raises(ValueError, match=f"one weight per feature; got a {model.kind}"):
            write_svmrank(path, model)
        assert not path.exists()
    else:
        write_svmrank(path, model)
        np.testing.assert_array_equal(read_svmrank(path).coef, model.weights)


@KINDS
def test_a_search_covers_it_or_there_is_none(kind: str) -> None:
    learner = LEARNERS[kind]
    name = f"{estimator_of(learner).__name__}CV"
    if learner.search is None:
        assert not hasattr(ranksvm, name)
        return
    assert learner.search.endswith(f":{name}")
    estimator = found_at(learner.search)
    if kind in INSIDE:
        for module in (ranksvm, ranksvm.model_selection):
            assert getattr(module, name) is estimator
            assert name in module.__all__
    search = inspect.signature(estimator).parameters
    grids = searched(learner.settings)
    assert search["Cs"].default == (N_CS_OF_GRID if grids else N_CS)
    for parameter, grid in grids.items():
        assert search[f"{parameter}s"].default == grid.n
    if kind in INSIDE:
        for parameter in searched_choices(learner.settings):
            assert search[f"{parameter}s"].default is None
    shared = {one.name for one in fields(learner.settings)} - {"C", *grids}
    assert shared <= search.keys()


def test_the_checks_of_scikit_learn_run_on_every_estimator() -> None:
    tests = "".join(path.read_text() for path in Path(__file__).parents[1].rglob("test_*.py"))
    for kind in INSIDE:
        name = estimator_of(LEARNERS[kind]).__name__
        assert f"{name}(" in tests.partition("parametrize_with_checks")[2]


def test_parameters_that_are_options_have_a_default_and_a_help_text() -> None:
    for learner in LEARNERS.values():
        for one in fields(learner.settings):
            option = option_of(learner.settings, one.name)
            if option is None:
                # --memory, --missing and --min-frequency are options of the data.
                assert one.name in {"counting", "optimizer", "memory_budget", *OF_TABLES}, one.name
            else:
                assert option.help.endswith(".")
    assert issubclass(LEARNERS["linear"].settings, Settings)
