"""``ranksvm train --factors``: what is learnt, told and saved, and what the other commands do."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

import ranksvm
from ranksvm import FactorizedRankSVM
from ranksvm.cli import main
from ranksvm.learners import read_model
from ranksvm.metrics import parse_metric

WAYS = {
    "default": ([], {"random_state": 0}),
    "seed": (["--seed", "7"], {"random_state": 7}),
    "linear": (["--init", "linear"], {"init": "linear", "random_state": 0}),
    "all": (
        ["--restarts", "3", "--init", "random", "--init-scale", "0.3", "--seed", "2", "--loss",
         "squared_hinge", "--tol", "0.02", "--max-iter", "400", "--reduction", "query_mean"],
        {"n_restarts": 3, "init_scale": 0.3, "random_state": 2, "loss": "squared_hinge",
         "tol": 0.02, "max_iter": 400, "reduction": "query_mean"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_train_saves_the_model_that_the_estimator_finds(good, folder, samples, tmp_path, way):
    options, params = WAYS[way]
    path = tmp_path / "m.safetensors"
    out = good("train", folder / "train.txt", "-C", 20, "--factors", 4, *options, "-o", path)
    expected = FactorizedRankSVM(4, 20.0, **params).fit(*samples["train"][:3])
    saved = ranksvm.load(path)
    assert type(saved) is FactorizedRankSVM
    assert saved.get_params() == expected.get_params()
    assert np.array_equal(saved.coef_, expected.coef_)
    assert np.array_equal(saved.factors_, expected.factors_)
    assert saved.objective_ == expected.objective_
    assert saved.best_iteration_ == expected.best_iteration_
    assert "4 factors, lbfgs, " in out
    assert ("best of 3 restarts" in out) == (way == "all")
    assert "certified relative gap" in out


def test_json_tells_of_every_descent(good, folder, samples):
    out = good("train", folder / "train.txt", "--factors", 3, "--restarts", 2, "--json")
    found = json.loads(out)
    model = FactorizedRankSVM(3, n_restarts=2, random_state=0).fit(*samples["train"][:3])
    assert [one["objective"] for one in found["restarts"]] == [
        one.objective for one in model.restarts_
    ]
    assert [one["valid"] for one in found["restarts"]] == [None, None]
    best = found["restarts"][found["best_restart"]]
    assert (
        found["objective"]
        == best["objective"]
        == min(one["objective"] for one in found["restarts"])
    )
    assert found["settings"]["n_factors"] == 3
    assert found["early_stopping"] is None


@pytest.mark.parametrize("metric", [None, "map"])
@pytest.mark.parametrize("form", ["txt", "csv"])
def test_early_stopping(good, folder, samples, tmp_path, metric, form):
    path = tmp_path / "m.safetensors"
    valid = "valid.txt" if form == "txt" else "valid-turned.csv"
    options = [] if metric is None else ["-m", metric, "-m", "mrr"]
    out = good("train", folder / f"train.{form}", "--valid", folder / valid, "--factors", 4,
               "--patience", 3, *options, "-o", path, "--json")  # fmt: skip
    decides = metric or "ndcg@10"
    model = FactorizedRankSVM(4, patience=3, random_state=0).fit(
        *samples["train"][:3], eval_set=samples["valid"][:3], eval_metric=parse_metric(decides)
    )
    found = json.loads(out)
    assert found["status"] == model.status_ == "early"
    assert found["early_stopping"] == decides
    assert found["best_iteration"] == model.best_iteration_
    assert found["iterations"] == model.n_iter_ == model.best_iteration_ + 3
    assert np.allclose(ranksvm.load(path).coef_, model.coef_, rtol=1e-9)
    # What is judged at the end is what was kept.
    assert found["restarts"][0]["valid"] == pytest.approx(found["valid"][decides])
    text = good("train", folder / f"train.{form}", "--valid", folder / valid, "--factors", 4,
                "--patience", 3, *options)  # fmt: skip
    assert f"stopped by {decides}, iteration {model.best_iteration_} kept" in text


def test_early_stopping_under_other_conventions(good, folder, samples):
    arguments = ["train", folder / "train.txt", "--valid", folder / "valid.txt", "--factors", 4,
                 "--patience", 3, "-m", "ndcg@3", "--json"]  # fmt: skip
    plain, letor = (
        json.loads(good(*arguments, "--conventions", name)) for name in ("standard", "letor")
    )
    assert letor["restarts"][0]["valid"] == pytest.approx(letor["valid"]["ndcg@3"], rel=1e-12)
    assert plain["restarts"][0]["valid"] == pytest.approx(plain["valid"]["ndcg@3"], rel=1e-12)
    assert plain["valid"]["ndcg@3"] != pytest.approx(letor["valid"]["ndcg@3"], rel=1e-3)


def test_without_patience_the_file_only_judges(good, folder):
    arguments = ["train", folder / "train.txt", "--factors", 4, "--json"]
    alone, judged = (
        json.loads(good(*arguments, *more)) for more in ([], ["--valid", folder / "valid.txt"])
    )
    assert alone["objective"] == judged["objective"]
    assert judged["status"] == "converged"
    assert judged["valid"]["ndcg@10"] > 0.0


@pytest.fixture(scope="module")
def trained(folder):
    path = folder / "m.safetensors"
    with pytest.raises(SystemExit) as ended:
        main(["train", str(folder / "train.txt"), "--factors", "4", "-o", str(path)])
    assert not ended.value.code
    return path


def test_the_other_commands(good, folder, samples, trained, tmp_path):
    model = ranksvm.load(trained)
    scores = model.predict(samples["test"][0])
    text = good("predict", trained, folder / "test.txt")
    assert np.array_equal([float(line) for line in text.split()], scores)
    _, y, qid, _ = samples["test"]
    judged = json.loads(good("evaluate", folder / "test.txt", "--model", trained, "-m", "map",
                             "--json"))  # fmt: skip
    assert judged["metrics"]["map"] == pytest.approx(parse_metric("map")(y, scores, qid))
    about = json.loads(good("info", trained, "--json"))
    assert about["kind"] == "factorized model"
    assert about["factors"] == 4
    assert about["items_with_factors"] == len(samples["train"][1])
    assert about["features_used"] == 5
    assert about["best_iteration"] == model.best_iteration_
    largest = int(np.argmax(np.abs(model.coef_)))
    name, weight = next(iter(about["largest_weights"].items()))
    assert (name, weight) == (str(largest + 1), model.coef_[largest])
    explained = json.loads(good("explain", trained, folder / "test.txt", 1, 2, "--json"))
    assert explained["difference"] == pytest.approx(scores[0] - scores[1])
    assert explained["part"] == "feature"


def test_convert_leaves_the_weights(good, folder, trained, tmp_path):
    good("convert", trained, tmp_path / "m.dat")
    model = read_model(trained)
    good("convert", tmp_path / "m.dat", tmp_path / "back.safetensors")
    back = read_model(tmp_path / "back.safetensors")
    assert back.kind == "linear"
    assert np.array_equal(back.coef, model.coef)
    good("train", folder / "train.txt", "--factors", 4, "-o", tmp_path / "direct.dat")
    assert (tmp_path / "direct.dat").read_bytes() == (tmp_path / "m.dat").read_bytes()
    good("convert", trained, tmp_path / "copy.safetensors")
    copy = read_model(tmp_path / "copy.safetensors")
    assert copy.kind == "factorized"
    assert np.array_equal(copy.factors, model.factors)


def test_a_fit_that_ends_early_is_saved_and_told(run, folder, tmp_path):
    code, _, err = run("train", folder / "train.txt", "--factors", 4, "--max-iter", 2,
                       "-o", tmp_path / "m")  # fmt: skip
    assert code == 4
    assert "warning: optimizer 'lbfgs' stopped after 2 iterations" in err
    assert "which exceeds --tol 0.001 " in err
    assert err.endswith("; raise --max-iter or --tol.\n")
    assert ranksvm.load(tmp_path / "m").status_ == "max_iter"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--restarts", "2"], "--restarts needs --factors"),
        (["--init", "linear"], "--init needs --factors"),
        (["--init-scale", "1"], "--init-scale needs --factors"),
        (["--factors", "4", "--optimizer", "lbfgs"], "No such option: --optimizer"),
        (["--patience", "3", "--valid", "{f}/valid.txt"], "--patience needs --factors"),
        (["--seed", "3"], "--seed needs --kernel or --factors"),
        (["--factors", "4", "--patience", "3"], "--patience needs --valid"),
        (["--factors", "4", "--kernel", "rbf"], "--kernel cannot be combined with --factors"),
        (["--factors", "4", "--gamma", "1"], "--gamma needs --kernel"),
        (["--factors", "4", "--svmrank-c", "1"], "--svmrank-c is for linear models"),
        (
            ["--factors", "4", "--init", "linear", "--init-scale", "1"],
            "--init-scale has no meaning",
        ),
        (["--factors", "0"], "--factors must be a positive integer; got 0"),
        (["--factors", "4", "--restarts", "0"], "--restarts must be a positive integer; got 0"),
        (["--factors", "4", "--init-scale", "0"], "--init-scale must be a positive finite number"),
        (
            ["--factors", "4", "--valid", "{f}/valid.txt", "--patience", "0"],
            "--patience must be a positive integer; got 0",
        ),
        (["--factors", "4", "--max-iter", "0"], "--max-iter must be a positive integer; got 0"),
        (["--factors", "4", "--tol", "0"], "--tol must be a positive finite number; got 0"),
        (
            ["--factors", "4", "--restarts", "3", "--init", "linear"],
            "--restarts 3 with --init linear",
        ),
    ],
)
def test_what_is_refused(run, folder, tmp_path, arguments, message):
    arguments = [argument.format(f=folder) for argument in arguments]
    code, out, err = run("train", folder / "train.txt", *arguments, "-o", tmp_path / "m")
    assert (code, out) == (2, "")
    assert message in " ".join(err.replace("│", " ").split())
    assert list(tmp_path.iterdir()) == []


def test_a_metric_that_is_not_defined_is_refused_before_the_work(run, folder, tmp_path):
    (tmp_path / "flat.txt").write_text("0 qid:1 1:1\n0 qid:1 1:2\n")
    code, out, err = run("train", folder / "train.txt", "--valid", tmp_path / "flat.txt",
                         "--factors", 3, "--patience", 3, "-o", tmp_path / "m")  # fmt: skip
    assert (code, out) == (3, "")
    assert "ndcg is not defined here" in err.lower()
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize("more", [[], ["--factors", 2], ["--factors", 2, "--patience", 3]])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 qid:1 1:1\n1 qid:1 1:2\n", "Leave out 'pairwise_accuracy'"),
        ("0 qid:1 1:1\n1 qid:1 1:2 2:nan\n", "line 2, column 15: found a missing value ('nan')"),
    ],
)  # fmt: skip
def test_what_cannot_be_judged_is_refused_before_the_work(
    run, folder, tmp_path, text, message, more
):
    path = tmp_path / "valid.txt"
    path.write_text(text)
    code, out, err = run("train", folder / "train.txt", "--valid", path, *more,
                         "-m", "p@5", "-m", "pairwise_accuracy", "-o", tmp_path / "m")  # fmt: skip
    assert (code, out) == (3, "")
    assert message in err
    assert not (tmp_path / "m").exists()


def test_it_does_without_scikit_learn(folder):
    program = (
        "import sys; from ranksvm.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        "assert not {'sklearn', 'pandas', 'narwhals'} & set(sys.modules)"
    )
    arguments = ["train", folder / "train.txt", "--factors", "3", "--valid", folder / "valid.txt",
                 "--patience", "5"]  # fmt: skip
    subprocess.run([sys.executable, "-c", program, *map(str, arguments)], check=True)
