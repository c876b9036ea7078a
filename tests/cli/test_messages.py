"""What is told: of what was lost, forgotten, or brought from elsewhere; and in whose words."""

from __future__ import annotations

import ast
import inspect
import pickle
import re
import warnings
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
import typer
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import ranksvm
from ranksvm import (
    FactorizedRankSVM,
    KernelRankSVM,
    KernelRankSVMCV,
    LinearRankSVM,
    LinearRankSVMCV,
    MissingQidWarning,
    load,
)
from ranksvm._messages import (
    PYTHON,
    Message,
    MessageWarning,
    Param,
    ParameterError,
    Row,
    TooLittleMemoryError,
    UserError,
    render,
)
from ranksvm.cli.app import COMMANDS
from ranksvm.cli.model_options import model_flags
from ranksvm.cli.output import COMMAND_LINE
from ranksvm.data import clicks_to_pairs, save_letor
from ranksvm.datasets import make_ranking
from ranksvm.kernel_approximation import Nystroem, RandomFourier
from ranksvm.learners import LEARNERS
from ranksvm.learners.settings import option_of
from ranksvm.metrics import average_precision, ndcg, ranking_scorer
from ranksvm.model_selection import QueryKFold, default_gammas

X, Y, QID, _ = make_ranking(12, 8, n_features=4, random_state=0)
N = len(Y)
MODELS = [
    LinearRankSVM(),
    KernelRankSVM(),
    FactorizedRankSVM(n_factors=2, random_state=0),
    LinearRankSVMCV([0.1, 1.0, 10.0], cv=2),
    KernelRankSVMCV([1.0], [1.0], cv=2),
]
every_model = pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
no_edge = pytest.mark.filterwarnings("ignore:.*of the grid")

# --- Lost query ids ------------------------------------------------------------------------------


@no_edge
@every_model
def test_score_without_the_queries_of_the_fit_warns(model: Any, tmp_path) -> None:
    model = clone(model).fit(X, Y, QID)
    model.save(tmp_path / "m")
    for one in (model, load(tmp_path / "m")):
        with pytest.warns(MissingQidWarning, match="got no qid, but .* was fitted on 12 queries"):
            lost = one.score(X, Y)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert one.score(X, Y, QID) != lost
            assert one.score(X, Y, [0] * N) == lost  # one global ranking is meant
            one.rank(X[:8])  # the items of one query


def test_a_global_ranking_needs_no_ids() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for qid in (None, np.zeros(N)):
            LinearRankSVM().fit(X, Y, qid).score(X, Y)
        LinearRankSVM().fit_pairs(X, [0], [1]).score(X, Y)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_the_column_of_the_ids_is_remembered(make: Any, tmp_path) -> None:
    columns = {**{f"f{j}": X[:, j] for j in range(4)}, "label": Y, "query": QID}
    frame = make(columns)
    model = LinearRankSVM().fit(frame, "label", qid="query")
    model.save(tmp_path / "m")
    expected = model.score(frame, "label", qid="query")
    lacking = make({name: columns[name] for name in columns if name != "query"})
    for one in (model, load(tmp_path / "m"), clone(model).fit(frame, "label", group="query")):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert one.score(frame, "label") == expected
            np.testing.assert_array_equal(one.rank(frame), model.rank(frame, qid="query"))
            # Other ids come before it.
            assert one.score(frame, "label", qid=np.zeros(N)) != expected
        with pytest.warns(MissingQidWarning):
            one.score(lacking, "label")
    searched = LinearRankSVMCV([0.1, 1.0, 10.0], cv=2, scaling=None).fit(
        frame, "label", qid="query"
    )
    assert searched.score(frame, "label") == searched.score(frame, "label", qid="query")
    # A fit without a column forgets it, a fit that fails does not.
    with pytest.raises(ValueError, match="no column"):
        model.fit(frame, "label", qid="nowhere")
    assert model.score(frame, "label") == expected
    model.fit(X, Y)
    assert model._qid_column is None


def test_scikit_learn_does_not_lose_the_ids_in_silence() -> None:
    pipeline = make_pipeline(StandardScaler(), LinearRankSVM())
    pipeline.fit(X, Y, linearranksvm__qid=QID)
    with pytest.warns(MissingQidWarning, match="enable_metadata_routing"):
        pipeline.score(X, Y, qid=QID)  # dropped by the pipeline while routing is off
    grid = {"C": [1.0, 10.0]}
    with pytest.warns(MissingQidWarning, match="QueryKFold"):
        GridSearchCV(LinearRankSVM(), grid, cv=3).fit(X, Y, qid=QID)
    with sklearn.config_context(enable_metadata_routing=True), warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted = make_pipeline(StandardScaler(), LinearRankSVM()).fit(X, Y, qid=QID)
        by_hand = LinearRankSVM().fit(StandardScaler().fit_transform(X), Y, QID)
        scaled = StandardScaler().fit_transform(X)
        assert fitted.score(X, Y, qid=QID) == by_hand.score(scaled, Y, QID)
        for scoring in (None, ranking_scorer("pairwise_accuracy")):
            search = GridSearchCV(LinearRankSVM(), grid, cv=QueryKFold(3), scoring=scoring)
            search.fit(X, Y, qid=QID)
            assert search.score(X, Y, qid=QID) == search.best_estimator_.score(X, Y, QID)


# --- More landmarks than items -------------------------------------------------------------------


def test_fewer_items_than_landmarks() -> None:
    words = "n_components=500 exceeds the 20 items; using n_components=20"
    with pytest.warns(UserWarning, match=words):
        features = Nystroem(random_state=0).fit(X[:20])
    assert features.components_.shape == (20, 4)
    assert features.n_components == 500
    qid = np.repeat([0, 1], 10)
    labels = np.tile([0, 1], 10)
    with pytest.warns(UserWarning, match=words):
        model = KernelRankSVM(approximation="nystroem", tol=1e-8).fit(X[:20], labels, qid)
    exact = KernelRankSVM(tol=1e-8).fit(X[:20], labels, qid)
    assert model.objective_ == pytest.approx(exact.objective_, rel=1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # as many as items, of which some are in no pair
        labels[:10] = 1
        KernelRankSVM(approximation="nystroem", n_components=20).fit(X[:20], labels, qid)


def test_features_that_are_not_made_need_no_room() -> None:
    """500 landmarks of 20 items are 20."""
    model = KernelRankSVM(approximation="nystroem", memory_budget="20KB")
    with pytest.warns(UserWarning, match="using n_components=20"):
        model.fit(X[:20], np.arange(20))


# --- Numbers that name their parameter -----------------------------------------------------------

HUGE = 10**400


@pytest.mark.parametrize(
    "value",
    [HUGE, 10**5000, -HUGE, np.longdouble("1e4000")],
    ids=["huge", "too long to write", "negative", "long double"],
)
@pytest.mark.parametrize(
    ("make", "names"),
    [
        (LinearRankSVM, ["C", "tol", "max_iter"]),
        (KernelRankSVM, ["gamma", "coef0", "degree", "memory_budget", "n_components"]),
        (FactorizedRankSVM, ["n_factors", "n_restarts", "init_scale", "patience"]),
        (lambda **params: LinearRankSVMCV(**params), ["Cs", "tol"]),
        (lambda **params: KernelRankSVMCV(Cs=[1.0], **params), ["gammas"]),
        (RandomFourier, ["gamma", "n_components"]),
    ],
)
def test_numbers_beyond_float64_name_their_parameter(make: Any, names: list[str], value) -> None:
    if value == np.inf:
        pytest.skip("this long double is a double")
    for name in names:
        if name == "coef0" and value == -HUGE:
            continue
        with pytest.raises(ValueError, match=rf"\b{name} must be .*; got ") as caught:
            make(**{name: value}).fit(X, Y)
        assert len(str(caught.value)) < 250


def test_the_same_elsewhere() -> None:
    with pytest.raises(
        ValueError, match=r"every C in Cs must be .* below 1.8e308; got an integer of 401 digits"
    ):
        LinearRankSVMCV([1.0, HUGE]).fit(X, Y, QID)
    with pytest.raises(ValueError, match="gammas must be a sequence, or how many"):
        default_gammas(X, HUGE)
    with pytest.raises(ValueError, match="relevant_above must be a finite number; got"):
        average_precision(Y, Y, relevant_above=HUGE)
    with pytest.raises(ValueError, match="n_splits must be a positive integer below 2"):
        QueryKFold(HUGE)
    log = {"query": [1, 1], "position": [1, 2], "document": [0, 1], "clicked": [0, 1]}
    with pytest.raises(ValueError, match="eta must be a finite number"):
        clicks_to_pairs(log, eta=HUGE)
    assert ndcg([1, 0], [1, 0], k=HUGE) == 1.0  # all ranks


# --- Weights -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["sample_weight", "query_weight"])
def test_complex_weights_are_refused(name: str) -> None:
    weight = np.ones(N if name == "sample_weight" else 12) * (1 + 1j)
    for given in (weight, weight.tolist(), weight.astype(object)):
        with pytest.raises(ValueError, match=rf"{name} must be (real )?numbers"):
            LinearRankSVM().fit(X, Y, QID, **{name: given})
    with pytest.raises(ValueError, match="weight must be real numbers; got dtype complex128"):
        LinearRankSVM().fit_pairs(X, [0], [1], weight=[1j])
    with pytest.raises(ValueError, match="Complex data"):
        LinearRankSVM().fit(X * 1j, Y)


def test_weights_whose_products_vanish_are_told() -> None:
    tiny = np.full(N, 1e-200)
    for model in (LinearRankSVM(), KernelRankSVM(), LinearRankSVMCV([1.0])):
        with pytest.raises(ValueError, match=r"sample_weight is too small \(largest 1e-200\)"):
            model.fit(X, Y, QID, sample_weight=tiny)
    fitted = LinearRankSVM().fit(X, Y, QID)
    with pytest.raises(ValueError, match="sample_weight is too small"):
        fitted.score(X, Y, QID, sample_weight=tiny)
    # The remedy of the message.
    scaled = LinearRankSVM().fit(X, Y, QID, sample_weight=tiny / max(tiny))
    np.testing.assert_array_equal(scaled.coef_, LinearRankSVM().fit(X, Y, QID).coef_)
    # One item weighs something, but is in no pair.
    mixed = np.append(tiny, 1.0)
    with pytest.raises(ValueError, match=r"float64 rounds it to zero .*scale the weights up"):
        LinearRankSVM().fit(
            np.vstack([X, X[:1]]), np.append(Y, 0), np.append(QID, 99), sample_weight=mixed
        )
    with pytest.raises(ValueError, match="float64 rounds it to zero"):
        LinearRankSVM().fit_pairs(X, [0], [1], weight=[1e-310])
    # Small weights that are numbers still are weights.
    small = LinearRankSVM().fit(X, Y, QID, sample_weight=np.full(N, 2.0**-300))
    np.testing.assert_allclose(small.coef_, scaled.coef_, rtol=1e-6)


# --- Arguments of other libraries ----------------------------------------------------------------


@every_model
@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("eval_set", "validation=|LinearRankSVMCV"),
        ("eval_group", "validation=|LinearRankSVMCV|eval_set="),
        ("eval_qid", "validation=|LinearRankSVMCV|eval_set="),
        (
            "early_stopping_rounds",
            r"nothing to stop early.*CV\(\)\.fit\(X, y, qid, validation=|patience",
        ),
        ("callbacks", "callback|progress"),
        ("verbose", r"constructor: \w+\(verbose=1\)"),
        ("categorical_feature", "OneHotEncoder"),
        ("query_id", "called qid"),
        ("weights", "sample_weight"),
        ("sample_wieght", "Did you mean 'sample_weight'"),
        ("nonsense", "Its parameters are X, y, qid"),
    ],
)
def test_arguments_of_other_libraries_are_named(model: Any, name: str, says: str) -> None:
    if name in inspect.signature(model.fit).parameters:
        return
    cls = type(model).__name__
    with pytest.raises(TypeError, match=rf"^{cls}\.fit\(\) has no parameter '{name}'\..*({says})"):
        clone(model).fit(X, Y, QID, **{name: None})


def test_arguments_of_other_methods_are_named() -> None:
    model = LinearRankSVM().fit(X, Y, QID)
    with pytest.raises(TypeError, match=r"^LinearRankSVM\.score\(\) has no .* 'group'.*called qid"):
        model.score(X, Y, group=QID)
    with pytest.raises(TypeError, match=r"^LinearRankSVM\.rank\(\) has no .* 'group'.*called qid"):
        model.rank(X, group=QID)
    with pytest.raises(TypeError, match=r"^LinearRankSVM\.fit_pairs\(\) has no parameter 'eval_se"):
        LinearRankSVM().fit_pairs(X, [0], [1], eval_set=[(X, Y)])


def test_routing_knows_the_named_arguments_alone() -> None:
    with sklearn.config_context(enable_metadata_routing=True):
        requests = LinearRankSVM().get_metadata_routing().fit.requests
    assert set(requests) == {
        "qid", "group", "sample_weight", "query_weight", "eval_set", "eval_qid", "eval_group",
        "eval_metric", "callback", "callbacks",
    }  # fmt: skip


def test_an_eval_set_without_the_queries_of_the_fit_is_refused() -> None:
    X, y, qid, _ = make_ranking(8, (3, 6), 3, random_state=0)
    model = FactorizedRankSVM(n_factors=2, max_iter=3, random_state=0)
    with pytest.raises(ValueError, match=r"eval_set must both have query ids.*\(X, y, qid\)"):
        model.fit(X, y, qid, eval_set=(X, y))
    with pytest.raises(ValueError, match="only the validation set has"):
        model.fit(X, y, eval_set=(X, y, qid))


# --- The words of Python and of the command line -------------------------------------------------


@pytest.mark.parametrize(
    ("message", "in_python", "on_the_command_line"),
    [
        (
            Message("raise {a} or {b}.", a=Param("max_iter"), b=Param("tol")),
            "raise max_iter or tol.",
            "raise --max-iter or --tol.",
        ),
        (Param("tol", 0.01), "tol=0.01", "--tol 0.01"),
        (Param("tol", 1e-9), "tol=1e-09", "--tol 1e-09"),
        (Param("random_state"), "random_state", "--seed"),
        (Param("init", "linear"), "init='linear'", "--init linear"),
        (
            Param("solver", "smoothed_newton", "bundle"),
            "solver='smoothed_newton' or 'bundle'",
            "--solver smoothed_newton or bundle",
        ),
        (Param("n_restarts", 1), "n_restarts=1", "--restarts 1"),
        (Param("zero_based", True), "zero_based=True", "--zero-based"),
        (Param("approximation", None), "approximation=None", "no --approximation"),
        (Param("qid", "ignore"), "qid='ignore'", "--ignore-qid"),
        (Param("qid"), "qid", "--qid-column"),
        (
            Param("zero_based", True, function="read_pairs"),
            "zero_based=True",
            "--pairs-zero-based",
        ),
        (Param("docids"), "docids", "--pairs-by docid"),
        (Param("Cs"), "Cs", "--C-grid"),
        (Param("memory_budget", "4GB"), "memory_budget='4GB'", "--memory 4GB"),
        # What there is no option for keeps its name.
        (Param("sample_weight"), "sample_weight", "sample_weight"),
        (Param("empty", "zero"), "empty='zero'", "empty='zero'"),
        (Row(0), "row 0", "item 1"),
        (Row(2, 4), "row 2, column 4", "item 3, column 5"),
        # Messages in messages; what is a name of a file, say, stays as it is.
        (
            Message("{where}: {what}", where="/{tol}/max_iter", what=Message("{p}", p=Param("C"))),
            "/{tol}/max_iter: C",
            "/{tol}/max_iter: --C",
        ),
        (Message("{n:,} items", n=12345), "12,345 items", "12,345 items"),
        ("plain text with tol", "plain text with tol", "plain text with tol"),
    ],
)
def test_every_interface_has_its_own_words(
    message: Any, in_python: str, on_the_command_line: str
) -> None:
    assert str(message) == render(message, PYTHON) == in_python
    assert render(message, COMMAND_LINE) == on_the_command_line


@pytest.mark.parametrize(
    ("kind", "base"),
    [
        (ParameterError, ValueError),
        (TooLittleMemoryError, MemoryError),
    ],
)
def test_errors_keep_their_parts(kind: Any, base: type) -> None:
    error = kind(
        "{tol} is too small in {row}. {remedy}",
        tol=Param("tol", 1e-20),
        row=Row(3),
        remedy="Raise {name}.",
        name=Param("tol"),
    )
    assert isinstance(error, base)
    assert isinstance(error, UserError)
    copy = pickle.loads(pickle.dumps(error))  # as errors of other processes come
    later = copy.after("fold {2}: ")
    for one, where in ((error, ""), (copy, ""), (later, "fold {2}: ")):
        assert type(one) is kind
        assert str(one) == f"{where}tol=1e-20 is too small in row 3. Raise tol."
        assert (
            render(one, COMMAND_LINE) == f"{where}--tol 1e-20 is too small in item 4. Raise --tol."
        )
        assert (one.parameter, one.value) == ("tol", 1e-20)
        assert render(one.remedy, COMMAND_LINE) == "Raise --tol."


@pytest.mark.parametrize(
    ("fit", "parameter", "value"),
    [
        (lambda: LinearRankSVM(C=-1).fit(X, Y, QID), "C", -1),
        (lambda: LinearRankSVM(C=np.float32("inf")).fit(X, Y, QID), "C", np.float32("inf")),
        (lambda: LinearRankSVM(max_iter="9").fit(X, Y, QID), "max_iter", "9"),
        (lambda: LinearRankSVM(n_jobs=0).fit(X, Y, QID), "n_jobs", 0),
        (lambda: LinearRankSVMCV(Cs=[1.0, -2.0]).fit(X, Y, QID), "Cs", -2.0),
        (lambda: LinearRankSVMCV(Cs=[1.0, 1.0]).fit(X, Y, QID), "Cs", [1.0, 1.0]),
        (
            lambda: KernelRankSVMCV(Cs=2, gammas=2, cv=2, memory_budget=1).fit(X, Y, QID),
            "memory_budget",
            None,
        ),
    ],
)
def test_errors_say_which_parameter_is_wrong(fit: Any, parameter: str, value: Any) -> None:
    with pytest.raises(ParameterError) as caught:
        fit()
    assert (caught.value.parameter, caught.value.value) == (parameter, value)


def test_warnings_keep_their_parts(run: Any, tmp_path, monkeypatch) -> None:
    from ranksvm.cli import train

    warning = MessageWarning("raise {name}", name=Param("n_components"))
    assert str(pickle.loads(pickle.dumps(warning))) == str(warning) == "raise n_components"
    fit_data = train.fit_data

    def warn(*args: Any, **options: Any) -> Any:
        for _ in range(3):
            warnings.warn(warning, stacklevel=1)
        return fit_data(*args, **options)

    monkeypatch.setattr(train, "fit_data", warn)
    save_letor(tmp_path / "t.txt", X, Y, QID)
    code, _, err = run("train", tmp_path / "t.txt")
    assert (code, err) == (0, "ranksvm: warning: raise --components\n")  # once


def _named_parameters() -> dict[str, str]:
    """Names of parameters that messages are made with, and where."""
    found = {}
    for path in Path(ranksvm.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Call)
                and getattr(node.func, "id", "") == "Param"
                and isinstance(node.args[0], ast.Constant)
            ):
                found[node.args[0].value] = f"{path.name}, line {node.lineno}"
    return found


def test_parameters_in_messages_are_options() -> None:
    """A message that the command line may show names something that can be typed there."""
    # Commands leave these at defaults that raise nothing, or have no use for them.
    never_set = {"unsorted", "max_grade", "n_features", "client", "columns"}
    never_set |= {"features", "append"}  # of a transformer
    never_set |= {"callback", "callbacks", "eval_set", "eval_metric"}  # of `fit` in Python
    named = _named_parameters()
    flags = {name: render(Param(name), COMMAND_LINE).partition(" ")[0] for name in named}
    flags = {name: flag for name, flag in flags.items() if flag != name}
    assert named.keys() - flags.keys() <= never_set, named
    params = [one for name in COMMANDS for one in command_of(name).params]
    known = {flag for one in params for flag in (*one.opts, *one.secondary_opts)}
    assert {name: flag for name, flag in flags.items() if flag not in known} == {}


def command_of(name: str) -> Any:
    return typer.main.get_command(import_module(f"ranksvm.cli.{name}").app)


# --- Bad values of all parameters of all models, through both interfaces -------------------------

VALUES = ("0", "-1", "1", "nan", "inf", "1e999", "1e-400", "", "nonsense", str(10**30))


def _options() -> list[tuple[str, str]]:
    return [
        (kind, one.name)
        for kind, learner in LEARNERS.items()
        for one in fields(learner.settings)
        if option_of(learner.settings, one.name) is not None
    ]


def _beside(kind: str, name: str) -> dict[str, Any]:
    """Parameters that ask for a kind of model, and give one of its parameters a meaning."""
    settings, chosen_by = LEARNERS[kind].settings, LEARNERS[kind].chosen_by
    beside: dict[str, Any] = {}
    if chosen_by is not None:
        beside[chosen_by] = settings.__dataclass_fields__[chosen_by].default
    option = option_of(settings, name)
    if option is not None and option.only is not None:
        beside[option.only[0]] = option.only[1]()[0]
    beside.pop(name, None)
    return beside


def _typed(kind: str, name: str, text: str) -> Any:
    """Return what somebody who means a text would write in Python."""
    settings = LEARNERS[kind].settings
    default = settings.__dataclass_fields__[name].default
    option = option_of(settings, name)
    made: Any = int if name == "random_state" else type(default)
    if option is not None and option.parse is not None:
        made = option.parse
    try:
        return text if made in (type(None), bool) else made(text)
    except ValueError:
        return text


@pytest.fixture(scope="module")
def small(tmp_path_factory: Any) -> Path:
    path: Path = tmp_path_factory.mktemp("small") / "t.txt"
    save_letor(path, X, Y, QID)
    return path


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("kind", "name"), _options())
def test_bad_values_are_refused_in_the_words_of_the_interface(run: Any, small, kind, name) -> None:
    flag, beside = model_flags()[name], _beside(kind, name)
    module, _, cls = LEARNERS[kind].estimator.partition(":")
    estimator = getattr(import_module(module), cls)
    words = [part for key, value in beside.items() for part in (model_flags()[key], value)]
    if name == "patience":
        words += ["--valid", small]
    others = {other for other in model_flags() if model_flags()[other] != f"--{other}"}
    in_python = name in estimator().get_params()
    refused = 0
    for text in VALUES:
        code, out, err = run("train", small, *words, f"{flag}={text}")
        said = " ".join(err.replace("│", " ").split())
        assert code in (0, 2, 3, 4), said
        assert "Traceback" not in err
        if code in (2, 3):
            refused += 1
            assert out == ""
            # What gives the option a meaning may be refused itself.
            assert code == 3 or flag in said or "is not available" in said
            assert not re.search(rf"(?<!-)\b({'|'.join(others)}|{name}=)", said), said
            assert " None" not in said
        if in_python:
            model = estimator(**beside, **{name: _typed(kind, name, text)})
            if code in (2, 3):
                with pytest.raises((ValueError, MemoryError), match=rf"\b{name}\b") as caught:
                    model.fit(X, Y, QID)
                assert "--" not in str(caught.value)
            else:
                model.fit(X, Y, QID)
    assert refused > 0
