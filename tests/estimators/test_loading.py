"""Loaded models predict without scikit-learn, and are estimators as soon as anybody asks."""

from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

import ranksvm
from ranksvm import FactorizedRankSVM, KernelRankSVM, LinearRankSVM
from ranksvm.estimators import loading
from ranksvm.learners import read_model

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 4))
Y = RNG.integers(0, 3, 30)
QID = np.repeat([1, 2, 3], 10)
FRAME = pd.DataFrame(X, columns=["a", "b", "c", "d"])

RANKERS: dict[str, Any] = {
    "linear": LinearRankSVM(C=3.0, n_jobs=1),
    "exact": KernelRankSVM(gamma=0.5),
    "precomputed": KernelRankSVM(kernel="precomputed"),
    "nystroem": KernelRankSVM(approximation="nystroem", n_components=6, random_state=0),
    "fourier": KernelRankSVM(approximation="fourier", n_components=6, random_state=0),
    "factorized": FactorizedRankSVM(n_factors=1, random_state=0, max_iter=3, tol=0.5),
}
# What a program must not have to import for a prediction.
HEAVY = ("sklearn", "scipy", "narwhals", "pandas", "threadpoolctl", "joblib")


def items_of(kind: str) -> Any:
    return X @ X.T if kind == "precomputed" else X


@pytest.fixture(scope="module", params=RANKERS)
def saved(request: pytest.FixtureRequest, tmp_path_factory: Any) -> tuple[Any, Path, Any]:
    """A fitted ranker, its file, and items."""
    ranker = clone(RANKERS[request.param])
    path = tmp_path_factory.mktemp("models") / "model.safetensors"
    items = items_of(request.param)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ranker.fit(items, Y, QID).save(path)
    return ranker, path, items


@pytest.fixture
def linear(tmp_path: Path) -> Path:
    LinearRankSVM(C=3.0).fit(X, Y, QID).save(tmp_path / "model.safetensors")
    return tmp_path / "model.safetensors"


def waiting(path: Path) -> Any:
    """What ``load`` returns before the class of the estimator has been imported."""
    loaded = loading._Loaded(read_model(path), path)
    assert type(loaded) is loading._Loaded
    return loaded


def run_alone(code: str, *arguments: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_program_that_predicts_imports_nothing_heavy(saved, tmp_path):
    ranker, path, items = saved
    np.save(tmp_path / "items.npy", items)
    found = run_alone(
        "import json, sys, numpy as np, ranksvm\n"
        "model = ranksvm.load(sys.argv[1])\n"
        "scores = [model.predict(np.load(sys.argv[2])).tolist() for _ in range(2)]\n"
        "print(json.dumps([scores, sorted({name.split('.')[0] for name in sys.modules})]))",
        str(path),
        str(tmp_path / "items.npy"),
    )
    scores, modules = found
    assert scores == [ranker.predict(items).tolist()] * 2
    assert not set(HEAVY) & set(modules)


def test_frames_of_pandas_need_no_scikit_learn(tmp_path):
    path = tmp_path / "model.safetensors"
    ranker = LinearRankSVM().fit(FRAME, Y, QID)
    ranker.save(path)
    scores, modules = run_alone(
        "import json, sys, pandas as pd, ranksvm\n"
        "model = ranksvm.load(sys.argv[1])\n"
        "frame = pd.DataFrame({name: [1.0, 2.0] for name in 'abcd'})\n"
        "print(json.dumps([model.predict(frame).tolist(), sorted(sys.modules)]))",
        str(path),
    )
    assert scores == ranker.predict(pd.DataFrame({name: [1.0, 2.0] for name in "abcd"})).tolist()
    assert "sklearn" not in modules
    assert "narwhals" not in modules


def test_a_program_may_go_on_with_the_estimator(linear):
    found = run_alone(
        "import json, sys, pickle, numpy as np, ranksvm\n"
        "model = ranksvm.load(sys.argv[1])\n"
        "X = np.ones((3, 4))\n"
        "first = model.predict(X).tolist()\n"
        "before = 'sklearn' in sys.modules\n"
        "from ranksvm import LinearRankSVM\n"
        "is_one = isinstance(model, LinearRankSVM), isinstance(model, list)\n"
        "again = pickle.loads(pickle.dumps(model))\n"
        "print(json.dumps([before, is_one, type(model) is type(again) is LinearRankSVM,\n"
        "    model.C, first == model.predict(X).tolist() == again.predict(X).tolist()]))",
        str(linear),
    )
    assert found == [False, [True, False], True, 3.0, True]


def test_load_returns_an_estimator_once_its_class_is_there(saved):
    ranker, path, _ = saved
    assert type(ranksvm.load(path)) is type(ranker)


def test_it_predicts_as_the_estimator_does(saved):
    ranker, path, items = saved
    loaded = waiting(path)
    for given in (items, items.astype(np.float32), np.asfortranarray(items), items[:1]):
        assert loaded.predict(given).tobytes() == ranker.predict(given).tobytes()
    assert type(loaded) is loading._Loaded
    with pytest.raises(ValueError, match="NaN"):
        loaded.predict(np.full_like(items, np.nan))
    assert type(loaded) is type(ranker)
    assert loaded.predict(items).tobytes() == ranker.predict(items).tobytes()


@pytest.mark.parametrize(
    "given", [X.tolist(), X[:, :2], X > 0, X.astype(object), FRAME], ids=["list", "few", "bool",
    "object", "frame"],
)  # fmt: skip
def test_other_items_get_all_checks(linear, given):
    def told(ranker: Any) -> Any:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                result: Any = ranker.predict(given).tolist()
            except ValueError as error:
                result = str(error)
        return result, [str(one.message) for one in caught]

    assert told(waiting(linear)) == told(ranksvm.load(linear))


def test_feature_names_are_known(tmp_path):
    path = tmp_path / "model.safetensors"
    ranker = LinearRankSVM().fit(FRAME.assign(y=Y, q=QID), "y", "q")
    ranker.save(path)
    loaded = waiting(path)
    assert loaded.predict(FRAME).tobytes() == ranker.predict(FRAME).tobytes()
    assert type(loaded) is loading._Loaded
    more = FRAME.assign(q=QID, y=Y)
    assert loaded.predict(more).tobytes() == ranker.predict(FRAME).tobytes()
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        waiting(path).predict(X)
    assert waiting(path).rank(more).tolist() == ranker.rank(more).tolist()


USES: dict[str, Callable[[Any], Any]] = {
    "repr": repr,
    "str": str,
    "get_params": lambda ranker: ranker.get_params(),
    "attribute": lambda ranker: ranker.coef_.tolist(),
    "no attribute": lambda ranker: hasattr(ranker, "nothing"),
    "dir": dir,
    "vars": lambda ranker: (ranker.C, sorted(vars(ranker))),
    "class": lambda ranker: ranker.__class__,
    "isinstance": lambda ranker: (isinstance(ranker, LinearRankSVM), isinstance(ranker, dict)),
    "is an estimator": lambda ranker: isinstance(ranker, BaseEstimator),
    "clone": lambda ranker: repr(clone(ranker)),
    "check_is_fitted": check_is_fitted,
    "pickle": lambda ranker: pickle.loads(pickle.dumps(ranker)).predict(X).tolist(),
    "copy": lambda ranker: copy.copy(ranker).predict(X).tolist(),
    "state": lambda ranker: sorted(ranker.__getstate__()),
    "deepcopy": lambda ranker: copy.deepcopy(ranker).predict(X).tolist(),
    "score": lambda ranker: ranker.score(X, Y, QID),
    "rank": lambda ranker: ranker.rank(X, QID).tolist(),
    "explain": lambda ranker: str(ranker.explain(X, 0, 1)),
    "fit": lambda ranker: ranker.fit(X[:, :2], Y, QID).coef_.tolist(),
    "set_params": lambda ranker: repr(ranker.set_params(C=7.0)),
    "set an attribute": lambda ranker: (setattr(ranker, "C", 9.0), repr(ranker)),
    "delete an attribute": lambda ranker: (delattr(ranker, "coef_"), hasattr(ranker, "coef_")),
    "pipeline": lambda ranker: make_pipeline(StandardScaler().fit(X), ranker).predict(X).tolist(),
    "html": lambda ranker: "LinearRankSVM" in ranker._repr_html_(),
    "tags": lambda ranker: ranker.__sklearn_tags__().input_tags.sparse,
    "hash": lambda ranker: ranker in {ranker},
    "equal": lambda ranker: (ranker == ranker, ranker == 3),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("after", ["load", "predict"])
def test_it_behaves_as_an_estimator(linear, use, after):
    loaded, estimator = waiting(linear), ranksvm.load(linear)
    if after == "predict":
        loaded.predict(X)
    assert USES[use](loaded) == USES[use](estimator)
    assert loaded.n_iter_ == estimator.n_iter_  # whatever was used, it is an estimator now
    assert type(loaded) is LinearRankSVM
    assert vars(loaded).keys() == vars(estimator).keys()


def test_the_same_object_becomes_the_estimator(saved, tmp_path):
    ranker, path, _ = saved
    loaded = waiting(path)
    number = id(loaded)
    assert loaded.get_params().keys() == ranker.get_params().keys()
    assert id(loaded) == number
    assert type(loaded) is type(ranker)
    loaded.save(tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == path.read_bytes()
    assert loaded.objective_ == ranker.objective_


def test_threads_may_need_the_estimator_at_the_same_time(linear):
    expected = ranksvm.load(linear).predict(X).tobytes()
    for _ in range(20):
        loaded = waiting(linear)
        start, found = threading.Barrier(8), []

        def use(number: int, loaded: Any = loaded, start: Any = start, found: Any = found) -> None:
            start.wait()
            for _ in range(5):
                found.append(loaded.predict(X).tobytes())
                if number % 2:
                    found.append(loaded.predict(X.tolist()).tobytes())

        threads = [threading.Thread(target=use, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert set(found) == {expected}
        assert len(found) == 60
        assert type(loaded) is LinearRankSVM


def test_a_model_that_cannot_become_an_estimator_says_why(linear, monkeypatch):
    def fail(model: Any) -> Any:
        raise ValueError("no such thing")

    monkeypatch.setattr(LinearRankSVM, "_from_model", fail)
    loaded = waiting(linear)
    loaded.predict(X)
    with pytest.raises(ranksvm.models.ModelFileError, match="cannot load the model: no such"):
        loaded.get_params()
    with pytest.raises(ranksvm.models.ModelFileError, match="cannot load the model: no such"):
        ranksvm.load(linear)
