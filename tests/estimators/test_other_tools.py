"""Optuna and MLflow, if they are installed: the examples of docs/from-lightgbm.md."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from ranksvm import KernelRankSVM, LinearRankSVM
from ranksvm.datasets import make_ranking

PAGE = Path(__file__).resolve().parents[2] / "docs" / "from-lightgbm.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)


def example(first: str) -> str:
    """Return the block of the page that begins with a line."""
    return next(block for block in BLOCKS if block.startswith(first))


@pytest.fixture
def names() -> dict[str, Any]:
    X, y, qid, _ = make_ranking(40, (5, 9), 4, random_state=0)
    first = qid < 30
    return {
        "LinearRankSVM": LinearRankSVM,
        "X": X[first],
        "y": y[first],
        "qid": qid[first],
        "X_val": X[~first],
        "y_val": y[~first],
        "qid_val": qid[~first],
    }


@pytest.mark.filterwarnings("ignore")
def test_optuna_gets_reports_and_prunes(names: dict[str, Any]) -> None:
    optuna = pytest.importorskip("optuna")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    exec(example("import optuna").replace("n_trials=20", "n_trials=8"), names)
    study = names["study"]
    states = {trial.state.name for trial in study.trials}
    assert states <= {"COMPLETE", "PRUNED"}
    complete = [trial for trial in study.trials if trial.state.name == "COMPLETE"]
    assert complete
    assert all(trial.intermediate_values for trial in study.trials)
    for trial in complete:  # what was reported last is what was returned
        assert trial.value == list(trial.intermediate_values.values())[-1]

    def always(trial: Any) -> float:
        def prune(row: Any, coef: Any) -> None:
            trial.report(row.metric, row.iteration)
            if row.iteration == 1:
                raise optuna.TrialPruned

        data = names["X"], names["y"], names["qid"]
        valid = names["X_val"], names["y_val"], names["qid_val"]
        LinearRankSVM().fit(*data, eval_set=valid, callbacks=[prune])
        return 1.0

    study = optuna.create_study()
    study.optimize(always, n_trials=1)
    assert study.trials[0].state.name == "PRUNED"
    assert list(study.trials[0].intermediate_values) == [0, 1]


@pytest.fixture
def mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.chdir(tmp_path)  # where it puts its files
    pytest.importorskip("mlflow.sklearn")
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path / 'mlflow.db'}")
    mlflow.set_experiment("ranksvm")
    yield mlflow
    mlflow.sklearn.autolog(disable=True)
    mlflow.set_tracking_uri(None)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("model", [LinearRankSVM(), KernelRankSVM()])
def test_mlflow_saves_and_loads(names: Any, mlflow: Any, model: Any, tmp_path: Path) -> None:
    model = clone(model).fit(names["X"], names["y"], names["qid"])
    mlflow.sklearn.save_model(model, tmp_path / "model", serialization_format="cloudpickle")
    again = mlflow.sklearn.load_model(str(tmp_path / "model"))
    np.testing.assert_array_equal(again.predict(names["X_val"]), model.predict(names["X_val"]))


@pytest.mark.filterwarnings("ignore")
def test_mlflow_logs_a_pipeline(names: Any, mlflow: Any) -> None:
    exec(example("import mlflow"), names)
    logged = mlflow.get_run(names["run"].info.run_id).data.params
    assert logged["linearranksvm__C"] == "5.0"
