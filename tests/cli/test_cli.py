"""The command ``ranksvm``: what it prints, what it writes, how it ends."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import typer

import ranksvm
from ranksvm import LinearRankSVM
from ranksvm.cli.inputs import read_scores
from ranksvm.data import load_letor
from ranksvm.data.ranking_data import RankingData
from ranksvm.datasets import make_ranking
from ranksvm.metrics import compare, evaluate, evaluate_queries
from ranksvm.metrics.evaluate import default_metrics

COMMANDS = (
    "train", "tune", "predict", "evaluate", "compare", "explain", "info", "convert", "demo",
)  # fmt: skip
PROGRAM = Path(sys.executable).with_name("ranksvm")


def letor_text(sample, *, qid=True, docids=True) -> str:
    lines = []
    for row, (x, y) in enumerate(zip(sample.X, sample.y, strict=True)):
        features = " ".join(f"{j}:{value!r}" for j, value in enumerate(x.tolist(), 1))
        query = f" qid:{sample.qid[row]}" if qid else ""
        comment = f" #docid = D{row} inc = 1" if docids else ""
        lines.append(f"{y:g}{query} {features}{comment}\n")
    return "".join(lines)


@pytest.fixture(scope="module")
def samples():
    return {
        name: RankingData(*make_ranking(n, (4, 12), 6, random_state=seed)[:3])
        for seed, (name, n) in enumerate({"train": 40, "valid": 20, "test": 20}.items())
    }


@pytest.fixture(scope="module")
def folder(samples, tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli")
    for name, sample in samples.items():
        (folder / f"{name}.txt").write_text(letor_text(sample), encoding="ascii")
    LinearRankSVM().fit(*samples["train"]).save(folder / "model.safetensors")
    return folder


# --- Help and start ------------------------------------------------------------------------------


@pytest.mark.parametrize("command", [(), *((name,) for name in COMMANDS)])
def test_help_shows_an_example(good, command):
    text = good(*command, "--help")
    assert "Example" in text
    assert " ".join(("ranksvm", *command)) in text
    if not command:
        assert "Exit codes" in text
        assert all(name in text for name in COMMANDS)


OF_DATA = (
    "--format --label-column --qid-column --docid-column --ignore-qid --missing --duplicates "
    "--zero-based --one-based --max-line-bytes --jobs -j"
)
OF_MODELS = (
    "--loss --reduction --pair-weight --gain --discount --truncation --reweight --scaling "
    "--query-features --drop-features --solver --tol --max-iter --kernel --gamma --degree --coef0 "
    "--approximation --components --landmarks --dtype --seed"
)
OF_PAIRS = "--pairs --pairs-by --pairs-zero-based --with-labels"
IN_PIECES = "--memory --cache"
CHOICE = "--features --drop"
OF_TABLES = f"{CHOICE} --weight-column --query-weight-column --min-frequency"
OPTIONS = {
    "train": f"{OF_DATA} {OF_TABLES} {OF_MODELS} {IN_PIECES} --resume --dask --C -C --valid "
    "--output -o "
    "--force --svmrank-c --svmrank-l "
    "--metric -m --conventions --json --factors --restarts --init --init-scale --patience "
    f"{OF_PAIRS}",
    "tune": f"{OF_DATA} {OF_TABLES} {OF_MODELS} {IN_PIECES} {OF_PAIRS} --valid --folds "
    "--C-grid --gamma-grid "
    "--pair-weight-grid --preset --time --models --resume --metric -m --conventions --output -o "
    "--force --json",
    "predict": f"{OF_DATA} {IN_PIECES} --output -o --force --trec-run --tag",
    "evaluate": f"{OF_DATA} {IN_PIECES} --scores --model --run --metric -m --conventions "
    "--per-query --json",
    "compare": f"{OF_DATA} --qrels --metric -m --conventions --permutations --seed --json",
    "explain": f"{OF_DATA} --top --by --qid --json",
    "info": f"{OF_DATA} {CHOICE} --top --json",
    "convert": f"{OF_DATA} {CHOICE} --memory --force",
    "demo": "--seed --queries",
}


@pytest.mark.parametrize("command", COMMANDS)
def test_the_options_of_every_command(good, command):
    """Scripts rely on these names."""
    found = typer.main.get_command(import_module(f"ranksvm.cli.{command}").app)
    named = {
        name
        for one in found.params
        if one.param_type_name == "option"
        for name in (*one.opts, *one.secondary_opts)
    }
    assert named == {*OPTIONS[command].split(), "--debug"}
    text = good(command, "-h")
    assert text == good(command, "--help")
    assert all(name in text for name in named)


@pytest.mark.parametrize(
    ("option", "default"),
    [
        ("--C", "5; 1000 with --kernel"),
        ("--loss", "squared_hinge; hinge with --factors"),
        ("--tol", "0.0001; 0.001 with --factors"),
        ("--max-iter", "1000; 500 with --factors"),
        ("--gamma", "scale"),
        ("--memory", "all data in memory; 4GB for kernel values"),
        ("--components", "500"),
        ("--seed", "0"),
        ("--patience", "no early stopping"),
        ("--pairs-by", "row"),
        ("--label-column", "label"),
        ("--format", "auto"),
        ("--jobs", "all cores that the process may use"),
    ],
)
def test_help_shows_defaults(good, option, default):
    text = " ".join(good("train", "--help").replace("│", " ").split())
    # Other options may mention this one.
    after = [text[found.end() :] for found in re.finditer(rf" {option} ", text)]
    defaults = [part[part.index("[default:") :] for part in after if "[default:" in part]
    assert any(found.startswith(f"[default: {default}]") for found in defaults)


def test_without_a_command_there_is_help(run):
    code, out, err = run()
    assert code == 2
    assert all(name in out + err for name in COMMANDS)


def test_version(good):
    assert good("--version") == f"ranksvm {ranksvm.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "unwanted"),
    [
        (["--help"], {"numpy", "scipy", "sklearn", "pandas"}),
        (["train", "{f}/train.txt", "--valid", "{f}/valid.txt"], {"sklearn", "pandas", "narwhals"}),
        (["tune", "{f}/train.txt", "--folds", "3"], {"sklearn", "pandas", "narwhals"}),
        (["predict", "{f}/model.safetensors", "{f}/test.txt"], {"sklearn", "pandas", "narwhals"}),
        (
            ["evaluate", "{f}/test.txt", "--model", "{f}/model.safetensors", "--per-query"],
            {"sklearn", "pandas", "narwhals"},
        ),
        (
            ["explain", "{f}/model.safetensors", "{f}/test.txt", "1", "2"],
            {"sklearn", "pandas", "narwhals"},
        ),
        (["info", "{f}/train.txt"], {"sklearn", "pandas", "narwhals"}),
    ],
)
def test_commands_import_what_they_use(folder, arguments, unwanted):
    program = (
        "import sys; from ranksvm.cli import main\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        "print('\\n', *sys.modules)"
    )
    arguments = [argument.format(f=folder) for argument in arguments]
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True
    )
    assert not unwanted & set(done.stdout.splitlines()[-1].split())


def test_without_typer_there_is_a_hint():
    program = "import sys; sys.modules['typer'] = None; from ranksvm.cli import main; main([])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 5
    assert "pip install 'ranksvm[cli]'" in done.stderr


# --- train ---------------------------------------------------------------------------------------


def test_train_saves_the_model_that_the_estimator_finds(good, folder, samples, tmp_path):
    out = good("train", folder / "train.txt", "-o", tmp_path / "m.safetensors", "--C", 3)
    model = ranksvm.load(tmp_path / "m.safetensors")
    expected = LinearRankSVM(3.0).fit(*samples["train"])
    np.testing.assert_array_equal(model.coef_, expected.coef_)
    assert (model.objective_, model.gap_, model.n_pairs_) == (
        expected.objective_, expected.gap_, expected.n_pairs_
    )  # fmt: skip
    assert model.get_params() == expected.get_params()
    assert "40 queries, 6 features" in out
    assert "certified relative gap" in out
    assert f"model written to {tmp_path / 'm.safetensors'}" in out


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("reduction", ["sum", "query_mean"])
def test_train_passes_its_options_on(good, folder, samples, tmp_path, loss, reduction):
    good(
        "train", folder / "train.txt", "-o", tmp_path / "m", "--loss", loss, "--C", 0.5,
        "--reduction", reduction, "--solver", "bundle", "--tol", 1e-6, "--max-iter", 500, "-j", 1,
    )  # fmt: skip
    expected = LinearRankSVM(
        0.5, loss=loss, reduction=reduction, solver="bundle", tol=1e-6, max_iter=500
    ).fit(*samples["train"])
    model = ranksvm.load(tmp_path / "m")
    np.testing.assert_array_equal(model.coef_, expected.coef_)
    assert (model.loss, model.solver, model.max_iter) == (loss, "bundle", 500)


def test_train_judges_on_a_validation_file(good, folder, samples):
    out = good("train", folder / "train.txt", "--valid", folder / "valid.txt", "-m", "map",
               "-m", "ndcg@5", "--conventions", "letor", "--json")  # fmt: skip
    report = json.loads(out)
    model = LinearRankSVM().fit(*samples["train"])
    X, y, qid = samples["valid"]
    expected = evaluate(y, model.predict(X), qid, ["map", "ndcg@5"], conventions="letor")
    assert report["valid"] == pytest.approx(expected)
    assert report["model"] is None
    assert report["objective"] == model.objective_
    assert report["data"]["items"] == len(samples["train"].y)
    text = good("train", folder / "train.txt", "--valid", folder / "valid.txt")
    assert "validation: ndcg@10" in text
    assert "not saved" in text


def test_several_files_are_one_set(good, folder, samples, tmp_path):
    with gzip.open(tmp_path / "second.txt.gz", "wt") as file:
        file.write(letor_text(samples["valid"]))
    good("train", folder / "train.txt", tmp_path / "second.txt.gz", "-o", tmp_path / "m")
    parts = [samples["train"], samples["valid"]]
    both = load_letor([folder / "train.txt", folder / "valid.txt"])
    np.testing.assert_array_equal(both.X, np.vstack([part.X for part in parts]))
    expected = LinearRankSVM().fit(both.X, both.y, both.qid)
    np.testing.assert_array_equal(ranksvm.load(tmp_path / "m").coef_, expected.coef_)


def test_svmrank_c(good, folder, tmp_path):
    for extra, C, reduction in (((), 8.0 / 40, "sum"), (("--svmrank-l", 2), None, "query_mean")):
        out = good("train", folder / "train.txt", "--svmrank-c", 8, *extra, "--json")
        settings = json.loads(out)["settings"]
        assert (settings["loss"], settings["reduction"]) == ("hinge", reduction)
        if C is not None:
            assert settings["C"] == pytest.approx(C)


def test_a_fit_that_ends_early_is_saved_and_told(run, folder, tmp_path):
    code, out, err = run(
        "train", folder / "train.txt", "-o", tmp_path / "m", "--max-iter", 1, "--loss", "hinge",
        "--tol", 1e-9,
    )  # fmt: skip
    assert code == 4
    assert "warning" in err
    assert "which exceeds --tol 1e-09 " in err
    assert err.endswith("raise --max-iter, scale the features, or lower C.\n")
    assert ranksvm.load(tmp_path / "m").status_ == "max_iter"
    assert "model written" in out


# --- tune ----------------------------------------------------------------------------------------


def test_tune_on_a_validation_file(run, folder, samples, tmp_path):
    code, out, err = run(
        "tune", folder / "train.txt", "--valid", folder / "valid.txt", "--C-grid", "0.01,1,2^7",
        "-m", "ndcg@5", "-o", tmp_path / "m", "--json",
    )  # fmt: skip
    assert code == 0
    assert "is the smallest of the grid" in err
    assert "--C-grid" in err
    found = json.loads(out)
    X, y, qid = samples["valid"]
    scores = []
    for C in (0.01, 1.0, 128.0):
        model = LinearRankSVM(C).fit(*samples["train"])
        scores.append(evaluate(y, model.predict(X), qid, ["ndcg@5"])["ndcg@5"])
    assert [row["C"] for row in found["table"]] == [0.01, 1.0, 128.0]
    assert [row["mean"] for row in found["table"]] == pytest.approx(scores, abs=5e-3)
    best = found["C"]
    saved = ranksvm.load(tmp_path / "m")
    assert (
        best == saved.C == found["table"][int(np.argmax([r["mean"] for r in found["table"]]))]["C"]
    )
    expected = LinearRankSVM(best).fit(*samples["train"])
    assert abs(saved.objective_ - expected.objective_) <= saved.gap_ + expected.gap_


def test_tune_on_folds(good, folder, tmp_path):
    out = good("tune", folder / "train.txt", "--folds", 4, "--C-grid", "0.01:100:5",
               "--scaling", "none", "-o", tmp_path / "m")  # fmt: skip
    lines = out.splitlines()
    assert lines[0].startswith("4 folds, ndcg@10 (default for graded labels in queries), 5 values")
    assert [float(line.split()[0]) for line in lines[3:8]] == pytest.approx(
        [0.01, 0.1, 1, 10, 100], rel=1e-3
    )
    assert ranksvm.load(tmp_path / "m")._facts["selection"]["metric"] == "ndcg@10"
    default = json.loads(good("tune", folder / "train.txt", "--json"))
    assert len(default["table"]) == 21


def test_the_metric_that_tune_chooses(good, run, folder, tmp_path):
    """Named in the output, with what it is the default for."""

    def tuned(*arguments):
        out = good("tune", *arguments, "--C-grid", "1", "--json")
        found = json.loads(out)
        return found["metric"], found["metric_default_for"]

    train = folder / "train.txt"
    assert tuned(train) == tuned(train, "-m", "auto") == ("ndcg@10", "graded labels in queries")
    assert tuned(train, "--valid", folder / "valid.txt")[0] == "ndcg@10"
    assert tuned(train, "--memory", "100MB", "--cache", tmp_path)[0] == "ndcg@10"
    assert tuned(train, "--ignore-qid") == ("pairwise_accuracy", "items without queries")
    assert tuned(train, "-m", "recall@5") == ("recall@5", None)
    assert tuned(train, "-m", "mean_ndcg_linear") == ("mean_ndcg_linear", None)
    lines = train.read_text(encoding="ascii").splitlines()
    halves = [f"{float(line.split()[0]) / 2} {line.partition(' ')[2]}\n" for line in lines]
    (tmp_path / "halves.txt").write_text("".join(halves), encoding="ascii")
    not_grades = ("pairwise_accuracy", "labels that are not grades")
    assert tuned(tmp_path / "halves.txt") == not_grades
    assert tuned(train, "--valid", tmp_path / "halves.txt") == not_grades
    code, out, _ = run("tune", train, "-m", "map", "--C-grid", "1")
    assert code == 0
    assert out.startswith("5 folds, map, 1 value of C")
    assert "default: ndcg@10 for graded labels" in " ".join(
        good("tune", "--help").replace("│", " ").split()
    )


@pytest.mark.parametrize(
    "grid",
    [
        "-8^0.5,1",
        "1:10:100000000000",
        "1:1:3",
        "0^-1,1",
        "",
        "a,b",
        "1,-2",
        "1:2",
        "1:10:x",
        "0,1",
        "1:10:0",
        "1,1",
        "inf",
    ],
)
def test_bad_grids(run, folder, grid):
    code, _, err = run("tune", folder / "train.txt", f"--C-grid={grid}")
    assert code in (2, 3)
    assert "C-grid" in err or "Cs" in err
    assert "Traceback" not in err


# --- predict -------------------------------------------------------------------------------------


def test_predict_writes_one_score_a_line(good, folder, samples, tmp_path):
    expected = LinearRankSVM().fit(*samples["train"]).predict(samples["test"].X)
    out = good("predict", folder / "model.safetensors", folder / "test.txt")
    np.testing.assert_array_equal([float(line) for line in out.splitlines()], expected)
    assert good("predict", folder / "model.safetensors", folder / "test.txt", "-o",
                tmp_path / "scores") == ""  # fmt: skip
    np.testing.assert_array_equal(read_scores(str(tmp_path / "scores"), len(expected)), expected)


def test_predict_writes_a_trec_run(good, folder, samples):
    out = good(
        "predict", folder / "model.safetensors", folder / "test.txt", "--trec-run", "--tag", "x"
    )
    _, _, qid = samples["test"]
    scores = LinearRankSVM().fit(*samples["train"]).predict(samples["test"].X)
    ranks = LinearRankSVM().fit(*samples["train"]).rank(samples["test"].X, qid)
    lines = [line.split() for line in out.splitlines()]
    assert len(lines) == len(qid)
    for q, q0, document, rank, score, tag in lines:
        row = int(document.removeprefix("D"))
        assert (int(q), q0, int(rank), float(score), tag) == (
            qid[row], "Q0", ranks[row], scores[row], "x"
        )  # fmt: skip


def test_features_that_the_model_lacks_weigh_nothing(run, folder, tmp_path):
    (tmp_path / "wide.txt").write_text("1 qid:1 1:0.5 9:3\n0 qid:1 1:0.25\n", encoding="ascii")
    coef = ranksvm.load(folder / "model.safetensors").coef_
    code, out, err = run("predict", folder / "model.safetensors", tmp_path / "wide.txt")
    assert code == 0
    assert "9 features, the model 6" in err
    assert [float(line) for line in out.split()] == [0.5 * coef[0], 0.25 * coef[0]]


def test_pipes(folder, tmp_path):
    """Data from stdin, model to stdout, model from stdin; a reader that leaves early is fine."""
    train = (folder / "train.txt").read_bytes()
    model = subprocess.run(
        [PROGRAM, "train", "-", "-o", "-"], input=train, capture_output=True, check=True
    )
    assert b"40 queries" in model.stderr
    (tmp_path / "m").write_bytes(model.stdout)
    expected = ranksvm.load(folder / "model.safetensors").coef_
    np.testing.assert_array_equal(ranksvm.load(tmp_path / "m").coef_, expected)
    scored = subprocess.run(
        [PROGRAM, "predict", "-", folder / "test.txt"], input=model.stdout, capture_output=True,
        check=True,
    )  # fmt: skip
    assert len(scored.stdout.split()) == len(load_letor(folder / "test.txt").y)
    piped = subprocess.run(
        f"{PROGRAM} predict {folder}/model.safetensors {folder}/train.txt {folder}/train.txt "
        f"| head -n 1",
        shell=True, capture_output=True,
    )  # fmt: skip
    assert piped.stderr == b""
    both = subprocess.run([PROGRAM, "predict", "-", "-"], input=b"", capture_output=True)
    assert both.returncode == 2
    shown = subprocess.run(
        [PROGRAM, "info", "-", "--json"], input=model.stdout, capture_output=True, check=True
    )
    assert json.loads(shown.stdout)["kind"] == "linear model"
    subprocess.run([PROGRAM, "convert", "-", tmp_path / "m.dat"], input=model.stdout, check=True)
    assert (tmp_path / "m.dat").read_bytes().startswith(b"SVM-light")


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_pipes_with_names_and_pipes_that_bring_little_at_a_time(good, folder, tmp_path):
    model, text = folder / "model.safetensors", folder / "test.txt"
    good("convert", model, tmp_path / "m.dat")
    scores = good("predict", model, text)
    for command in (
        f"{PROGRAM} predict <(cat {model}) {text}",
        f"(head -c 5 {model}; sleep 0.3; tail -c +6 {model}) | {PROGRAM} predict - {text}",
        f"(head -c 5 m.dat; sleep 0.3; tail -c +6 m.dat) | {PROGRAM} predict - {text}",
    ):
        piped = subprocess.run(
            ["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True
        )
        assert (piped.returncode, piped.stderr) == (0, "")
        assert piped.stdout == scores
    command = f"(head -c 5 {text}; sleep 0.3; tail -c +6 {text}) | {PROGRAM} info - --json"
    shown = subprocess.run(["bash", "-c", command], capture_output=True, check=True)
    assert json.loads(shown.stdout)["queries"] == 20


@pytest.mark.skipif(sys.platform == "win32", reason="redirections of a POSIX shell")
def test_streams_that_are_closed_or_full(folder):
    def shell(command: str) -> subprocess.CompletedProcess:
        return subprocess.run(
            f"{PROGRAM} {command}", shell=True, cwd=folder, capture_output=True, text=True
        )

    assert shell("train train.txt 2>&-").returncode == 0
    if Path("/dev/full").exists():
        for command in ("--help", "info test.txt", "predict model.safetensors test.txt"):
            full = shell(f"{command} >/dev/full")
            assert full.returncode != 0
            assert "Traceback" not in full.stderr
            assert full.stderr.startswith("ranksvm: error: standard output: No space left")
            assert full.stderr.count("\n") == 1
        full = shell("train train.txt -o /dev/full")
        assert (full.returncode, "/dev/full: No space left" in full.stderr) == (3, True)


def test_python_dash_m(folder):
    done = subprocess.run(
        [sys.executable, "-m", "ranksvm", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"ranksvm {ranksvm.__version__}\n"


def test_a_tuned_model_to_stdout_leaves_its_table_on_stderr(folder):
    done = subprocess.run(
        [PROGRAM, "tune", folder / "train.txt", "--C-grid", "0.1,1,10", "-o", "-"],
        capture_output=True,
        check=True,
    )
    assert done.stdout[8:9] == b"{"
    assert b"best" in done.stderr


# --- evaluate and compare ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def scored(folder, samples):
    X = samples["test"].X
    scores = LinearRankSVM().fit(*samples["train"]).predict(X)
    for name, values in {"scores": scores, "first": X[:, 0]}.items():
        (folder / f"{name}.txt").write_text(
            "".join(f"{value!r}\n" for value in values.tolist()), encoding="ascii"
        )
    return scores


def test_evaluate(good, folder, samples, scored):
    _, y, qid = samples["test"]
    names = ["ndcg@5", "p@3", "err@10", "auc"]
    options = [part for name in names for part in ("-m", name)]
    for conventions in ("standard", "letor"):
        expected = evaluate(y, scored, qid, names, conventions=conventions)
        for source in (
            ["--scores", folder / "scores.txt"],
            ["--model", folder / "model.safetensors"],
        ):
            out = good("evaluate", folder / "test.txt", *source, *options, "--conventions",
                       conventions, "--json")  # fmt: skip
            assert json.loads(out)["metrics"] == pytest.approx(expected)
    out = good("evaluate", folder / "test.txt", "--scores", "-",
               stdin=(folder / "scores.txt").read_bytes())  # fmt: skip
    table = dict(line.split()[:2] for line in out.splitlines()[2:])
    expected = evaluate(y, scored, qid, default_metrics(y))
    assert {name: float(value) for name, value in table.items()} == pytest.approx(
        expected, abs=5e-5
    )


def test_evaluate_per_query(good, folder, samples, scored):
    _, y, qid = samples["test"]
    expected = evaluate_queries(y, scored, qid, ["ndcg@5", "map"])
    source = (folder / "test.txt", "--scores", folder / "scores.txt", "-m", "ndcg@5", "-m", "map")
    lines = [line.split("\t") for line in good("evaluate", *source, "--per-query").splitlines()]
    assert lines[0] == ["qid", "ndcg@5", "map"]
    assert [line[0] for line in lines[1:]] == [str(q) for q in expected.ids]
    np.testing.assert_array_equal(
        [float(line[1]) for line in lines[1:]], expected.columns["ndcg@5"]
    )
    found = json.loads(good("evaluate", *source, "--per-query", "--json"))
    assert found["qid"] == expected.ids.tolist()
    values = [None if np.isnan(v) else v for v in expected.columns["map"].tolist()]
    assert found["metrics"]["map"] == values


def test_evaluate_a_trec_run(good, folder, samples, scored, tmp_path):
    _, y, qid = samples["test"]
    run_file, qrels = tmp_path / "run", tmp_path / "qrels"
    good("predict", folder / "model.safetensors", folder / "test.txt", "--trec-run", "-o", run_file)
    qrels.write_text(
        "".join(
            f"{q} 0 D{row} {label:g}\n" for row, (q, label) in enumerate(zip(qid, y, strict=True))
        ),
        encoding="ascii",
    )
    found = json.loads(good("evaluate", qrels, "--run", run_file, "-m", "ndcg@10", "--json"))
    assert found["metrics"] == pytest.approx(evaluate(y, scored, qid, ["ndcg@10"]))


def test_compare(good, folder, samples, scored):
    X, y, qid = samples["test"]
    rankings = {"first.txt": X[:, 0], "model.safetensors": scored}
    expected = compare(y, rankings, qid, metrics=["ndcg@5"], n_permutations=500, random_state=3)
    out = good("compare", folder / "test.txt", folder / "first.txt", folder / "model.safetensors",
               "-m", "ndcg@5", "--permutations", 500, "--seed", 3, "--json")  # fmt: skip
    (row,) = json.loads(out)["rows"]
    (wanted,) = expected.rows
    assert row["ranking"] == "model.safetensors"
    assert row["difference"] == pytest.approx(wanted.difference)
    assert row["randomization"] == wanted.randomization
    assert (row["wins"], row["losses"]) == (wanted.wins, wanted.losses)
    text = good("compare", folder / "test.txt", folder / "first.txt", folder / "scores.txt")
    assert "ndcg@10" in text
    assert "first.txt" in text


@pytest.fixture
def trec(tmp_path):
    """Judgments of four queries, a run that lacks one of them, and one that lacks none."""
    rng = np.random.default_rng(0)
    documents = [(q, d) for q in range(1, 5) for d in range(6)]
    judged = [f"{q} 0 d{d} {rng.integers(0, 3)}\n" for q, d in documents if d != 3]
    (tmp_path / "qrels").write_text("".join(judged), encoding="ascii")
    for name, lacks in {"old.run": 2, "new.run": 9}.items():
        lines = [
            f"{q} Q0 d{d} 0 {rng.integers(0, 3)} x\n"
            for q, d in [*documents, (77, 1)]
            if q != lacks and rng.random() < 0.7
        ]
        (tmp_path / name).write_text("".join(lines), encoding="ascii")
    return tmp_path


def test_compare_trec_runs(run, good, trec):
    names = ("-m", "ndcg_linear@3", "-m", "map", "-m", "recall@2")
    runs = (trec / "old.run", trec / "new.run", "--qrels", trec / "qrels")
    code, out, err = run("compare", *runs, *names, "--json")
    assert code == 0
    assert "old.run lacks 1 judged query that another run has" in err
    assert err.rstrip().endswith("left out of the comparison: 2")
    found = json.loads(out)
    assert found["n_queries"] == 3
    for row in found["rows"]:
        assert (row["baseline"], row["ranking"]) == ("old.run", "new.run")
        assert row["wins"] + row["losses"] + row["ties"] == found["n_counted"][row["metric"]]
    # As evaluate has them, on the same queries.
    lines = (trec / "new.run").read_text(encoding="ascii").splitlines(keepends=True)
    kept = "".join(line for line in lines if not line.startswith("2 "))
    (trec / "kept.run").write_text(kept, encoding="ascii")
    for name, key in {"old.run": "baseline_mean", "kept.run": "mean"}.items():
        alone = good("evaluate", trec / "qrels", "--run", trec / name, *names, "--json")
        means = {row["metric"]: row[key] for row in found["rows"]}
        assert means == pytest.approx(json.loads(alone)["metrics"])
    code, out, err = run("compare", trec / "kept.run", *runs)
    assert code == 0
    assert out.count("\nndcg@10 ") == 3  # the pairs of three runs
    assert "new.run lacks" not in err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ("{t}/qrels {t}/old.run {t}/new.run", 2, "old.run is a TREC run: give only runs, and"),
        ("{t}/old.run {f}/model.safetensors --qrels {t}/qrels", 2, "model.safetensors is a model"),
        ("{t}/old.run {t}/new.run --qrels {t}/qrels --ignore-qid", 2, "--qrels reads TREC files"),
        ("{t}/old.run {t}/old.run --qrels {t}/qrels", 2, "named twice"),
        ("{t}/old.run --qrels {t}/qrels", 2, "RANKING"),
        ("- {t}/old.run --qrels -", 2, "only one input"),
        ("{t}/old.run {f}/scores.txt --qrels {t}/qrels", 3, "scores.txt, line 1: found"),
        ("{t}/old.run {t}/new.run --qrels {t}/new.run", 3, "expected 4 columns: query, iteration"),
        ("{t}/old.run {t}/qrels --qrels {t}/qrels", 3, "expected 6 columns: query, Q0, document"),
        ("{t}/old.run {t}/new.run --qrels {t}/none", 3, "none: No such file"),
        ("{t}/old.run {t}/other.run --qrels {t}/qrels", 3, "of the run other.run is judged"),
        ("{t}/old.run {t}/two.run --qrels {t}/qrels", 3, "no judged query is in every run"),
    ],
)
def test_runs_that_cannot_be_compared(run, folder, trec, arguments, code, message):
    (trec / "other.run").write_text("77 Q0 d1 0 1 x\n", encoding="ascii")
    (trec / "two.run").write_text("2 Q0 d1 0 1 x\n", encoding="ascii")
    found, out, err = run("compare", *arguments.format(t=trec, f=folder).split())
    assert (found, out) == (code, "")
    assert message in err


def test_default_metrics_follow_the_labels():
    assert "ndcg@10" in default_metrics(np.array([0.0, 2.0, 1.0]))
    for labels in ([-1.0, 1.0], [0.5, 1.0], [0.0, 500_001.0]):
        assert default_metrics(np.array(labels)) == ("pairwise_accuracy", "kendall_tau")


def test_default_metrics_that_no_query_defines(good, folder, tmp_path):
    (tmp_path / "flat.txt").write_text("1 qid:1 1:3\n1 qid:1 1:1\n", encoding="ascii")
    (tmp_path / "s").write_text("1\n2\n", encoding="ascii")
    out = good("evaluate", tmp_path / "flat.txt", "--scores", tmp_path / "s")
    assert out.splitlines()[-1].split() == ["pairwise_accuracy", "-", "0"]
    found = json.loads(
        good("evaluate", tmp_path / "flat.txt", "--scores", tmp_path / "s", "--json")
    )
    assert found["metrics"]["pairwise_accuracy"] is None
    assert found["metrics"]["map"] == 1.0
    report = json.loads(
        good("train", folder / "train.txt", "--valid", tmp_path / "flat.txt", "--json")
    )
    assert report["valid"]["pairwise_accuracy"] is None


# --- info and convert ----------------------------------------------------------------------------


def test_info_of_data(good, folder, samples):
    found = json.loads(good("info", folder / "train.txt", "--json"))
    X, y, qid = samples["train"]
    assert (found["items"], found["queries"], found["features"]) == (len(y), 40, 6)
    values, counts = np.unique(y, return_counts=True)
    assert found["labels"] == {f"{v:g}": int(n) for v, n in zip(values, counts, strict=True)}
    assert found["density"] == pytest.approx(np.count_nonzero(X) / X.size)
    assert found["pairs"] == LinearRankSVM().fit(X, y, qid).n_pairs_
    assert found["document_ids"] is True
    assert "items per query" in good("info", folder / "train.txt")


def test_info_of_a_model(good, folder):
    model = ranksvm.load(folder / "model.safetensors")
    found = json.loads(good("info", folder / "model.safetensors", "--json", "--top", 2))
    assert (found["objective"], found["gap"]) == (model.objective_, model.gap_)
    largest = np.argsort(-np.abs(model.coef_))[:2]
    assert list(found["largest_weights"]) == [str(j + 1) for j in largest]
    text = good("info", folder / "model.safetensors")
    assert "objective" in text
    assert "largest weights" in text


def test_info_of_odd_data(good, tmp_path):
    (tmp_path / "a.txt").write_text("1 qid:1 1:3\n1.0000001 qid:1 1:1 #c\n", encoding="ascii")
    found = json.loads(good("info", tmp_path / "a.txt", "--json"))
    assert found["labels"] == {"1": 1, "1.0000001": 1}
    assert (found["smallest_value"], found["largest_value"]) == (1.0, 3.0)
    assert found["document_ids"] is False
    (tmp_path / "b.txt").write_text("1 qid:1 1:-3\n2 qid:1 1:NULL\n", encoding="ascii")
    found = json.loads(good("info", tmp_path / "b.txt", "--json", "--missing", "nan"))
    assert (found["smallest_value"], found["largest_value"]) == (-3.0, -3.0)
    assert found["missing_values"] == 1
    (tmp_path / "c.txt").write_text('# JSON: {"a":1}\n1 qid:1 1:3\n', encoding="ascii")
    assert json.loads(good("info", tmp_path / "c.txt", "--json"))["items"] == 1


def test_indices_from_zero_are_remembered(run, good, tmp_path):
    data = tmp_path / "z.txt"
    data.write_text("1 qid:1 0:3 1:1\n0 qid:1 0:1 1:2\n", encoding="ascii")
    good("train", data, "--zero-based", "-o", tmp_path / "m")
    (tmp_path / "t.txt").write_text("1 qid:1 1:2\n", encoding="ascii")
    expected = good("predict", tmp_path / "m", tmp_path / "t.txt", "--zero-based")
    assert good("predict", tmp_path / "m", tmp_path / "t.txt") == expected
    assert "0" in json.loads(good("info", tmp_path / "m", "--json"))["largest_weights"]
    # A file that counts otherwise: said, or found out.
    one = tmp_path / "one.txt"
    one.write_text("1 qid:1 1:3 2:1\n0 qid:1 1:1 2:2\n", encoding="ascii")
    code, _, err = run("predict", tmp_path / "m", one)
    assert (code, "seems to count features from 1" in err) == (3, True)
    assert good("predict", tmp_path / "m", one, "--one-based") == good(
        "predict", tmp_path / "m", data
    )
    said = run("predict", tmp_path / "m", one, "--zero-based")
    assert (said[0], "3 features, the model 2" in said[2]) == (0, True)
    good("train", one, "-o", tmp_path / "m1")
    code, _, err = run("compare", one, tmp_path / "m", tmp_path / "m1")
    assert (code, "others at 1" in err) == (2, True)
    good("compare", one, tmp_path / "m", tmp_path / "m1", "--one-based", "-m", "map")


def test_convert_missing_values(good, tmp_path):
    (tmp_path / "a.txt").write_text("1 qid:1 1:-3\n2 qid:1 1:NULL\n", encoding="ascii")
    good("convert", tmp_path / "a.txt", tmp_path / "b.txt", "--missing", "nan")
    assert "1:NULL" in (tmp_path / "b.txt").read_text()


@pytest.mark.parametrize("table", ["t.csv", "t.tsv", "t.parquet"])
def test_convert_data_there_and_back(good, folder, samples, tmp_path, table):
    good("convert", folder / "train.txt", tmp_path / table)
    good("convert", tmp_path / table, tmp_path / "back.txt.gz")
    before, after = load_letor(folder / "train.txt"), load_letor(tmp_path / "back.txt.gz")
    np.testing.assert_array_equal(before.X, after.X)
    np.testing.assert_array_equal(before.y, after.y)
    np.testing.assert_array_equal(before.qid, after.qid)
    assert list(before.docids) == list(after.docids)


def test_convert_keeps_comments(good, folder, tmp_path):
    good("convert", folder / "train.txt", tmp_path / "copy.txt")
    assert load_letor(tmp_path / "copy.txt").comments == load_letor(folder / "train.txt").comments


def test_convert_models_there_and_back(good, folder, tmp_path):
    good("convert", folder / "model.safetensors", tmp_path / "model.dat")
    assert (tmp_path / "model.dat").read_text().startswith("SVM-light Version")
    good("convert", tmp_path / "model.dat", tmp_path / "back.safetensors")
    np.testing.assert_array_equal(
        ranksvm.load(tmp_path / "back.safetensors").coef_,
        ranksvm.load(folder / "model.safetensors").coef_,
    )
    assert good("predict", tmp_path / "model.dat", folder / "test.txt") == good(
        "predict", folder / "model.safetensors", folder / "test.txt"
    )


# --- tables --------------------------------------------------------------------------------------


@pytest.fixture
def table(samples, tmp_path):
    import pandas as pd

    X, y, qid = samples["train"]
    frame = pd.DataFrame(X, columns=[f"feature {j}" for j in range(X.shape[1])])
    frame.insert(0, "grade", y)
    frame["query"] = [f"q{q}" for q in qid]
    frame.to_parquet(tmp_path / "train.parquet")
    frame.to_csv(tmp_path / "train.csv", index=False)
    frame.drop(columns="grade")[frame.columns[:0:-1]].to_csv(tmp_path / "new.csv", index=False)
    return tmp_path


@pytest.mark.parametrize("name", ["train.parquet", "train.csv"])
def test_train_and_predict_with_tables(good, table, samples, name):
    import pandas as pd

    columns = ("--label-column", "grade", "--qid-column", "query")
    good("train", table / name, *columns, "-o", table / "m")
    X, y, qid = samples["train"]
    model = ranksvm.load(table / "m")
    assert list(model.feature_names_in_) == [f"feature {j}" for j in range(6)]
    expected = LinearRankSVM().fit(np.asfortranarray(X), y, qid)
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-9)
    # The model knows which column has the ids.
    frame = pd.read_parquet(table / "train.parquet")
    assert model.score(frame, "grade") == pytest.approx(expected.score(X, y, qid))
    # Columns of new data may come in any order, and labels are not needed.
    out = good("predict", table / "m", table / "new.csv", "--qid-column", "query")
    np.testing.assert_allclose([float(s) for s in out.split()], expected.predict(X), rtol=1e-9)
    out = good("predict", table / "m", "-", "--format", "csv", "--qid-column", "query",
               stdin=(table / "new.csv").read_bytes())  # fmt: skip
    assert len(out.split()) == len(y)


def test_a_validation_file_of_other_columns_is_refused_before_the_work(run, good, table, folder):
    named = ("train", table / "train.csv", "--label-column", "grade", "--qid-column", "query")
    other, short = table / "other.csv", table / "short.txt"
    other.write_text("label,grade,qid,query,left\n1,1,1,1,2\n0,0,1,1,3\n", encoding="ascii")
    short.write_text("1 qid:1 1:2\n0 qid:1 1:3\n", encoding="ascii")
    cases = {
        (*named, "--valid", other): "'feature 0'",
        (*named, "--valid", short): "6 features with names",
        ("train", folder / "train.txt", "--valid", other): "6 features without names",
    }
    for arguments, message in cases.items():
        code, out, err = run(*arguments, "-o", table / "model")
        assert (code, out) == (3, "")
        assert message in err
        assert not (table / "model").exists()
    good(*named, "--valid", folder / "valid.txt", "-o", table / "model")  # as many, without names


def test_table_errors(run, table, folder, tmp_path):
    cases = {
        ("train", "train.csv"): "no column 'label'",
        ("train", "train.csv", "--label-column", "grade", "--docid-column", "id"): "column 'id'",
        ("train", "train.csv", "--label-column", "grade"): "column 'query' is not numeric",
        ("train", "train.csv", "--label-column", "grade", "--qid-column", "nope"): "column 'nope'",
        ("train", "train.csv", "train.parquet"): "different formats",
        ("train", "train.csv", "--format", "parquet"): "cannot be read as parquet",
        ("train", "train.csv", "--label-column", "query"): "labels that are finite numbers",
    }
    for (command, *arguments), message in cases.items():
        files = [table / a if (table / a).exists() else a for a in arguments]
        code, out, err = run(command, *files)
        assert (code in (2, 3), out) == (True, "")
        assert message in err
    (tmp_path / "holes.csv").write_text("label,qid,a\n1,1,2\n0,1,\n", encoding="ascii")
    code, _, err = run("train", tmp_path / "holes.csv")
    assert (code, "column 'a' has 1 missing value, the first in item 2" in err) == (3, True)
    assert run("train", tmp_path / "holes.csv", "--missing", "zero")[0] == 0
    texts = {
        "label,qid,a\n": "has no rows",
        "label,qid,a\n1,x,2\n0,,3\n": "column 'qid' has no query id for item 2",
        "label,qid,a,a\n1,1,2,3\n0,1,3,4\n": "several columns called 'a'",
        "label,qid,a\n1,\xe9,2\n0,\xe9,3\n": "ids are not UTF-8 text",
        "label,qid,\xe9\n1,1,2\n": "is not UTF-8 text",
    }
    for text, message in texts.items():
        (tmp_path / "bad.csv").write_text(text, encoding="latin-1")
        code, _, err = run("train", tmp_path / "bad.csv")
        assert (code, message in err) == (3, True), err
    (tmp_path / "few.csv").write_text("qid,other\n1,2\n", encoding="ascii")
    run("train", table / "train.csv", "--label-column", "grade", "--qid-column", "query", "-o",
        table / "m")  # fmt: skip
    code, _, err = run("predict", table / "m", tmp_path / "few.csv")
    assert (code, "lacks 6 of the 6 features of the model" in err) == (3, True)


@pytest.mark.parametrize("command", ["train", "tune"])
def test_a_validation_table_needs_the_features_of_the_training_set(run, tmp_path, command):
    (tmp_path / "train.csv").write_text("label,qid,a,b\n1,1,2,3\n0,1,1,3\n", encoding="ascii")
    few = {"label,qid,b\n1,1,2\n0,1,3\n": 1, "label,qid,other\n1,1,text\n0,1,text\n": 2}
    for text, n_lacking in few.items():
        (tmp_path / "valid.csv").write_text(text, encoding="ascii")
        code, _, err = run(command, tmp_path / "train.csv", "--valid", tmp_path / "valid.csv")
        message = f"valid.csv lacks {n_lacking} of the 2 features of the training set:"
        assert (code, f"{message} 'a'" in err) == (3, True), err


def test_a_table_without_queries_is_told(run, tmp_path):
    (tmp_path / "t.csv").write_text("label,query,a\n1,1,2\n0,1,3\n", encoding="ascii")
    code, out, err = run("train", tmp_path / "t.csv")
    assert (code, "1 query, 2 features" in out) == (0, True)
    assert (
        "no 'qid' column; treating all items as one query. Name the column with --qid-column" in err
    )
    assert run("train", tmp_path / "t.csv", "--ignore-qid")[2] == ""


@pytest.mark.parametrize("separator", [",", "\t"])
def test_ids_of_tables_stay_as_they_are(good, tmp_path, separator):
    text = "label,qid,docid,a\n1,01,007,1\n0,01,,3\n1,1,009,0\n0,1,010,2\n"
    table = tmp_path / ("t.csv" if separator == "," else "t.tsv")
    table.write_text(text.replace(",", separator), encoding="ascii")
    assert json.loads(good("info", table, "--json"))["queries"] == 2
    good("train", table, "-o", tmp_path / "m")
    run = [
        line.split() for line in good("predict", tmp_path / "m", table, "--trec-run").splitlines()
    ]
    names = sorted(line[2] for line in run)
    assert names == ["007", "009", "010", "2"]  # the second item has no id
    assert {line[0] for line in run} == {"01", "1"}
    table.write_text(text.replace("01,", "2,").replace(",", separator), encoding="ascii")
    good("convert", table, tmp_path / "t.txt")
    assert load_letor(tmp_path / "t.txt").qid.tolist() == [2, 2, 1, 1]


def test_columns_that_a_model_does_not_use(good, run, table, tmp_path):
    columns = ("--label-column", "grade", "--qid-column", "query")
    good("train", table / "train.csv", *columns, "-o", tmp_path / "m")
    lines = (table / "train.csv").read_text().splitlines()
    text = [f"{line},{'title' if row == 0 else 'some text'}" for row, line in enumerate(lines)]
    (tmp_path / "more.csv").write_text("\n".join(text), encoding="ascii")
    code, out, err = run("predict", tmp_path / "m", tmp_path / "more.csv")
    assert (code, out) == (0, good("predict", tmp_path / "m", table / "train.csv"))
    assert "more.csv has 1 column that the model does not know, ignored: 'title'" in err


def test_compressed_tables(good, table, tmp_path):
    with gzip.open(tmp_path / "t.csv.gz", "wb") as file:
        file.write((table / "train.csv").read_bytes())
    columns = ("--label-column", "grade", "--qid-column", "query")
    plain = good("train", table / "train.csv", *columns, "--json")
    packed = good("train", tmp_path / "t.csv.gz", *columns, "--json")
    assert json.loads(packed)["objective"] == json.loads(plain)["objective"]


def test_tables_and_models_without_names(run, good, folder, tmp_path):
    """Columns f1, f2, ... are matched by their numbers; with others it would be a guess."""
    good("convert", folder / "test.txt", tmp_path / "t.csv")
    header, *lines = (tmp_path / "t.csv").read_text().splitlines()
    names = header.replace('"', "").split(",")
    turned = names[:3] + names[:2:-1]
    rows = [dict(zip(names, line.split(","), strict=True)) for line in lines]
    text = "\n".join(",".join(row) for row in [turned, *([r[n] for n in turned] for r in rows)])
    (tmp_path / "turned.csv").write_text(text, encoding="ascii")
    expected = good("predict", folder / "model.safetensors", folder / "test.txt")
    found = good("predict", folder / "model.safetensors", tmp_path / "turned.csv")
    np.testing.assert_allclose(
        [float(s) for s in found.split()], [float(s) for s in expected.split()], rtol=1e-12
    )
    (tmp_path / "odd.csv").write_text(text.replace("label", "rel"), encoding="ascii")
    code, _, err = run("predict", folder / "model.safetensors", tmp_path / "odd.csv")
    assert (code, "named columns, 'rel' for example" in err) == (3, True)


def test_a_model_with_names_and_text_without(run, good, table, folder, tmp_path):
    columns = ("--label-column", "grade", "--qid-column", "query")
    good("train", table / "train.csv", *columns, "-o", tmp_path / "m")
    assert len(good("predict", tmp_path / "m", folder / "test.txt").split()) > 0
    (tmp_path / "few.txt").write_text("1 qid:1 1:3\n", encoding="ascii")
    code, _, err = run("predict", tmp_path / "m", tmp_path / "few.txt")
    assert (code, "6 features with names, 'feature 0' for example" in err) == (3, True)


def test_a_model_from_a_table_scores_the_frame_in_python(good, table):
    import pandas as pd

    columns = ("--label-column", "grade", "--qid-column", "query")
    good("train", table / "train.csv", *columns, "-o", table / "m")
    frame = pd.read_csv(table / "train.csv")
    model = ranksvm.load(table / "m")
    expected = good("predict", table / "m", table / "train.csv", *columns)
    np.testing.assert_allclose(model.predict(frame), [float(s) for s in expected.split()])


def test_tables_need_pyarrow(run, table, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for arguments in (
        ("train", table / "train.csv"),
        ("convert", table / "x.txt", table / "y.csv"),
    ):
        (table / "x.txt").write_text("1 qid:1 1:1\n", encoding="ascii")
        code, _, err = run(*arguments)
        assert code == 5
        assert "pip install 'ranksvm[tables]'" in err


# --- Errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("train", "{f}/none.txt"), 3, "none.txt"),
        (("train", "{t}/bad.txt"), 3, "bad.txt, line 2"),
        (("train", "{t}/flat.txt"), 3, "no comparable pair"),
        (("train", "{f}/train.txt", "--C", "-1"), 2, "error: --C must be a positive"),
        (("train", "{f}/train.txt", "--C", "abc"), 2, "--C must be a positive finite number; got"),
        (("train", "{f}/train.txt", "--C", "2^2000"), 2, "got '2^2000'"),
        (("train", "{f}/train.txt", "--force"), 2, "--force needs --output"),
        (("train", "{f}/train.txt", "{f}/model.safetensors"), 3, "is a model, not data"),
        (("train", "{f}/train.txt", "--valid", "{t}/noqid.txt"), 3, "only {f}/train.txt has them"),
        (("tune", "{t}/noqid.txt", "--valid", "{f}/valid.txt"), 3, "only {f}/valid.txt has them"),
        (("train", "{t}/empty.txt"), 3, "empty.txt is empty"),
        (("train", "{f}/train.txt", "--tol", "0"), 2, "error: --tol must be"),
        (("train", "{f}/train.txt", "-j", "0"), 2, "--jobs"),
        (("train", "{f}/train.txt", "--valid", "{f}/none.txt", "-o", "{t}/m"), 3, "none.txt"),
        (("train", "{f}/train.txt", "--conventions", "letor"), 2, "--valid"),
        (("train", "{f}/train.txt", "--svmrank-c", "1", "--C", "1"), 2, "--svmrank-c sets"),
        (("train", "{f}/train.txt", "--svmrank-c", "1", "--loss", "hinge"), 2, "--svmrank-c sets"),
        (("train", "{f}/train.txt", "--svmrank-l", "2"), 2, "--svmrank-l"),
        (("train", "{f}/train.txt", "--svmrank-c", "-1"), 2, "--svmrank-c must be"),
        (("train", "{f}/train.txt", "--svmrank-c", "1", "--solver", "newton"), 2, "smoothed"),
        (("evaluate", "{t}/q", "--run", "{t}/r", "--ignore-qid"), 2, "do not apply"),
        (("train", "{f}/train.txt", "--json", "-o", "-"), 2, "standard output"),
        (("train", "{f}/train.txt", "-o", "{f}/train.txt"), 2, "is also an input"),
        (("train", "{f}/train.txt", "-o", "{f}/m.csv"), 2, "models are not written as .csv"),
        (("train", "{f}/train.txt", "-o", ""), 2, "is empty"),
        (("train", "{f}/train.txt", "-o", "{f}"), 3, "is a directory"),
        (("train", "-", "--valid", "-"), 2, "only one input"),
        (("train", "{t}/wide.txt"), 3, "Number the features without gaps"),
        (("train", "{t}/zero.txt"), 3, "Use --zero-based"),
        (("train", "{t}/null.txt"), 3, "Fill it in, or use --missing zero to read it as 0"),
        (("train", "{t}/null.txt", "--missing", "nan"), 2, "'nan' is not one of 'error', 'zero'"),
        (("train", "{t}/twice.txt"), 3, "Use --duplicates last or sum"),
        (("train", "{t}/some.txt"), 3, "use --ignore-qid"),
        (("tune", "{f}/train.txt", "--valid", "{f}/valid.txt", "--folds", "3"), 2, "only one"),
        (("tune", "{f}/train.txt", "--folds", "1"), 2, "folds"),
        (("tune", "{f}/train.txt", "-m", "ndgc"), 2, "ndgc"),
        (("predict", "{f}/model.safetensors", "{f}/test.txt", "-o", "{f}/test.txt"), 2, "input"),
        (
            ("predict", "{f}/model.safetensors", "{f}/test.txt", "--trec-run", "--tag", "a b"),
            2,
            "one word",
        ),
        (("predict", "{f}/model.safetensors", "{f}/test.txt", "--tag", "a"), 2, "needs --trec-run"),
        (("predict", "{f}/model.safetensors", "{f}/test.txt", "--force"), 2, "needs --output"),
        (("convert", "{f}/model.safetensors", "{t}/m.csv"), 2, "models are not written as .csv"),
        (("convert", "{f}/train.txt", "{t}/m.csv.gz"), 2, "not written compressed"),
        (("train", "{f}/train.txt", "--loss", "absolute"), 2, "absolute"),
        (("train", "{f}/train.txt", "--solver", "newton", "--loss", "hinge"), 2, "smoothed_newton"),
        (("train", "{f}/train.txt", "-m", "map"), 2, "--valid"),
        (("train", "{f}/train.txt", "-o", "{f}/none/m"), 3, "none"),
        (("train",), 2, "TRAIN"),
        (("predict", "{f}/train.txt", "{f}/test.txt"), 3, "not a model file but ranking data; use"),
        (("predict", "{f}/none", "{f}/test.txt"), 3, "none"),
        (("evaluate", "{f}/test.txt"), 2, "give exactly one of --scores, --model or --run"),
        (("evaluate", "{f}/test.txt", "--model", "{f}/train.txt"), 3, "ranking data; use a file"),
        (("evaluate", "{f}/test.txt", "--scores", "{t}/short.txt"), 3, "2 scores for"),
        (("evaluate", "{f}/test.txt", "--scores", "{t}/words.txt"), 3, "txt, line 2: found 'two'"),
        (("evaluate", "{f}/test.txt", "--scores", "{t}/blank.txt"), 3, "txt, line 2: found ''"),
        (("evaluate", "{f}/test.txt", "--model", "{f}/model.safetensors", "-m", "ndgc"), 2, "ndgc"),
        (("compare", "{f}/test.txt", "{f}/train.txt"), 2, "two or more"),
        (("compare", "{f}/test.txt", "{f}/train.txt", "{f}/train.txt"), 2, "named twice"),
        (("info", "{f}/none"), 3, "none"),
        (("convert", "{f}/train.txt", "{f}/model.safetensors"), 2, "holds data"),
        (("nonsense",), 2, "No such command 'nonsense'"),
        (("trian",), 2, "Did you mean 'train'?"),
        (("train", "{f}/train.txt", "--kernl", "rbf"), 2, "No such option: --kernl"),
        (("train", "{f}/train.txt", "--kernl", "rbf"), 2, "--kernel"),
    ],
)  # fmt: skip
def test_errors_have_a_line_and_a_code(run, folder, tmp_path, arguments, code, message):
    texts = {
        "bad": "1 qid:1 1:1\n0 qid:1 1:x\n",
        "flat": "1 qid:1 1:1\n1 qid:1 1:2\n",
        "short": "1\n2\n",
        "words": "1\ntwo\n",
        "blank": "1\n\n2\n",
        "wide": "1 qid:1 2147483647:3\n0 qid:1 1:1\n",
        "zero": "1 qid:1 0:3\n0 qid:1 1:1\n",
        "null": "1 qid:1 1:3 2:1\n0 qid:1 1:1 2:NULL\n",
        "twice": "1 qid:1 1:3 1:3\n0 qid:1 1:1\n",
        "some": "1 qid:1 1:3\n0 1:1\n",
        "noqid": "1 1:3\n0 1:1\n",
        "empty": "",
    }
    for name, text in texts.items():
        (tmp_path / f"{name}.txt").write_text(text, encoding="ascii")
    before = (folder / "model.safetensors").read_bytes()
    found, out, err = run(*(part.format(f=folder, t=tmp_path) for part in arguments))
    assert (found, out) == (code, "")
    assert message.format(f=folder) in err
    assert err.splitlines()[-1].startswith("ranksvm: error: ")
    assert "Traceback" not in err
    assert (folder / "model.safetensors").read_bytes() == before


def test_C_may_be_a_power(good, folder):
    assert "C = 8" in good("train", folder / "train.txt", "--C", "2^3")


def test_scores_without_queries_need_no_note(run, folder, tmp_path):
    path = tmp_path / "noqid.txt"
    path.write_text("1 1:3\n0 1:1\n")
    model = folder / "model.safetensors"
    assert run("predict", model, path)[2] == ""
    assert "treating all items as one query" in run("predict", model, path, "--trec-run")[2]


def test_tuning_without_a_model_says_so(run, folder):
    _, text, _ = run("tune", folder / "train.txt", "--C-grid", "1,10", "--folds", "2")
    assert text.endswith("no model was saved; -o MODEL saves one, refitted at the best values\n")


def test_debug_shows_the_traceback(run, folder):
    _, _, err = run("train", folder / "none.txt", "--debug")
    assert "Traceback" in err
    assert "ranksvm: error:" in err


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (RuntimeError("oops"), 1, "RuntimeError: oops (run again with --debug"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (MemoryError(), 3, "not enough memory"),
        (ImportError("install it"), 5, "install it"),
    ],
)
def test_unexpected_ends(run, folder, monkeypatch, error, code, message):
    def fail(*args, **kwargs):
        raise error

    monkeypatch.setattr("ranksvm.cli.train.fit_data", fail)
    found, _, err = run("train", folder / "train.txt")
    assert found == code
    assert message in err
    assert "Traceback" not in err


def test_a_failed_save_keeps_the_old_model(run, folder, tmp_path, monkeypatch):
    old = (folder / "model.safetensors").read_bytes()
    (tmp_path / "m").write_bytes(old)

    def fail(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    code, _, err = run("train", folder / "train.txt", "-o", tmp_path / "m")
    assert code == 3
    assert f"{tmp_path / 'm'}: No space left on device; free some space" in err
    assert (tmp_path / "m").read_bytes() == old
    assert os.listdir(tmp_path) == ["m"]


def test_warnings_are_notes(run, folder, monkeypatch):
    import warnings

    from ranksvm.cli import train

    fit_data = train.fit_data

    def warn(*args, **kwargs):
        warnings.warn("beware", UserWarning, stacklevel=1)
        return fit_data(*args, **kwargs)

    monkeypatch.setattr(train, "fit_data", warn)
    code, _, err = run("train", folder / "train.txt")
    assert (code, err) == (0, "ranksvm: warning: beware\n")


def test_demo(good):
    assert "linear, squared hinge" in good("demo", "--queries", 30)


# --- On a terminal -------------------------------------------------------------------------------


def test_progress_and_tables_on_a_terminal(folder, tmp_path, on_a_terminal):
    model = tmp_path / "m"
    code, shown = on_a_terminal("train", folder / "train.txt", "-o", model)
    assert (code, "certified relative gap" in shown) == (0, True)
    assert "reading" in shown
    assert "training" in shown
    code, shown = on_a_terminal("tune", folder / "train.txt", "--C-grid", "0.1,1,10,100")
    assert (code, "tuning" in shown, "┃" in shown) == (0, True, True)
    code, shown = on_a_terminal("evaluate", folder / "test.txt", "--model", model, "--per-query")
    assert (code, "ndcg@10" in shown, "┃" in shown) == (0, True, True)
    code, shown = on_a_terminal("info", model)
    assert (code, "largest weights" in shown) == (0, True)


def test_a_model_that_is_cut_off_is_told_as_such(run, folder, tmp_path):
    content = (folder / "model.safetensors").read_bytes()
    content = b"\x90" + content[1:]  # a length that begins like a pickle would be taken for one
    for size, name in ((100, "m"), (100, "m.safetensors"), (5, "m.safetensors")):
        (tmp_path / name).write_bytes(content[:size])
        for command in ("info", "predict"):
            data = [folder / "train.txt"] if command == "predict" else []
            code, _, err = run(command, tmp_path / name, *data)
            assert code == 3
            reason = "truncated: 100 bytes, expected" if size == 100 else "not a ranksvm model"
            assert f"{name}: {reason}" in err, err
