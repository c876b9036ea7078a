"""What a command may replace: only what it writes itself, and never one of its inputs."""

from __future__ import annotations

import errno
import gzip
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from safetensors.numpy import save

from ranksvm import LinearRankSVM, load
from ranksvm.data import load_letor, save_letor
from ranksvm.learners import read_model

CONTENTS = {
    "model": None,  # the two models are made below
    "svmrank": None,
    "tensors": save({"weights": np.ones(3)}, metadata={"format": "pt"}),
    "scores": b"0.5\n-1e-3\n2\n",
    "run": b"1 Q0 D1 1 0.5 tag\n1 Q0 D2 2 0.25 tag\n",
    "letor": b"# made by hand\n\n1 qid:1 1:0.5 2:1 # a\n0 qid:1 2:1\n",
    "csv": b"label,qid,f1\n1,1,0.5\n0,1,0.25\n",
    "users": b"name,age\nann,3\n",
    "notes": b"buy milk\n",
    "zip": b"PK\x03\x04" + bytes(100),
    "empty": b"",
}


@pytest.fixture
def place(folder, samples, tmp_path) -> Path:
    """A file of every kind, under names that say nothing."""
    X, y, qid, _ = samples["train"]
    LinearRankSVM().fit(X, y, qid).save(tmp_path / "model")
    from ranksvm.export import write_svmrank

    write_svmrank(tmp_path / "svmrank", read_model(tmp_path / "model"))
    for name, content in CONTENTS.items():
        if content is not None:
            (tmp_path / name).write_bytes(content)
    parquet.write_table(pa.table({"label": [1.0], "f1": [1.0]}), tmp_path / "parquet")
    for name in ("train.txt", "test.txt"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    return tmp_path


WRITERS = {
    "train": (["train", "train.txt", "-o"], {"model", "svmrank", "empty"}),
    "tune": (["tune", "train.txt", "--C-grid", "1", "-o"], {"model", "svmrank", "empty"}),
    "convert a model": (["convert", "svmrank"], {"model", "empty"}),
    "predict": (["predict", "model", "test.txt", "-o"], {"scores", "run", "empty"}),
    "run": (["predict", "model", "test.txt", "--trec-run", "-o"], {"scores", "run", "empty"}),
    "convert data": (["convert", "train.txt"], {"letor", "empty"}),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_files_are_replaced_only_by_their_own_kind(run, place, monkeypatch, writer):
    monkeypatch.chdir(place)
    command, allowed = WRITERS[writer]
    for name in ("parquet", *CONTENTS):
        if name in command:
            continue
        before = (place / name).read_bytes()
        code, _, err = run(*command, name)
        if name in allowed:
            assert code == 0, (name, err)
            assert (place / name).read_bytes() != before
        else:
            assert code == 2, name
            assert f"ranksvm: error: {name} already exists and is not" in err
            assert "another name, or use --force to replace it" in err
            assert (place / name).read_bytes() == before
    assert not [name for name in os.listdir(place) if name.endswith(".tmp")]


@pytest.mark.parametrize("writer", WRITERS)
def test_whoever_means_it_can_force_it(good, run, place, monkeypatch, writer):
    monkeypatch.chdir(place)
    run(*WRITERS[writer][0], "notes", "--force")
    assert (place / "notes").read_bytes() != CONTENTS["notes"]


def test_the_files_that_were_lost(run, place, monkeypatch):
    monkeypatch.chdir(place)
    before = (place / "test.txt").read_bytes()
    for command in (["train", "train.txt", "-o", "test.txt"], ["convert", "svmrank", "test.txt"]):
        code, _, err = run(*command)
        assert code == 2
        assert ".txt: models are not written as .txt. Use .safetensors, or .dat for" in err
        assert (place / "test.txt").read_bytes() == before


def test_other_suffixes_are_part_of_the_name(good, place, monkeypatch):
    monkeypatch.chdir(place)
    for name in ("model.v2", "model_C0.5", "m.2026-01-31"):
        good("train", "train.txt", "-o", name)
        assert load(name).n_features_in_ > 0
    good("convert", "train.txt", "fold1.train")
    assert "\nkind" in good("info", "fold1.train")


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (
            ["convert", "model", "m.onnx"],
            "models are not written as .onnx. Use .safetensors, or .dat",
        ),
        (["convert", "model", "m.safetensors.gz"], "models are not written as .gz"),
        (["train", "train.txt", "-o", "m.pkl"], "models are not written as .pkl"),
        (["tune", "train.txt", "-o", "m.txt"], "models are not written as .txt"),
        (["convert", "train.txt", "t.json"], "data are not written as .json. Use .txt, .csv"),
        (["convert", "train.txt", "t.json.gz"], "data are not written as .json"),
        (["predict", "model", "test.txt", "-o", "s.gz"], "predict ... | gzip > s.gz"),
        (["predict", "model", "test.txt", "-o", "s.parquet"], "scores are not written as .parquet"),
        (["predict", "model", "test.txt", "-o", "s.safetensors"], "not written as .safetensors"),
    ],
)
def test_the_suffix_must_be_one_of_what_is_written(run, place, monkeypatch, command, message):
    monkeypatch.chdir(place)
    before = sorted(os.listdir(place))
    code, _, err = run(*command, "--force")  # which changes nothing here
    assert (code, message in err) == (2, True), err
    assert sorted(os.listdir(place)) == before


def test_data_are_replaced_by_data_of_the_same_format(good, run, place, monkeypatch):
    monkeypatch.chdir(place)
    for target in ("t.txt", "t.txt.gz", "t.csv", "t.tsv", "t.parquet", "t.letor.xz"):
        good("convert", "train.txt", target)
        good("convert", "test.txt", target)  # again, with other data
    expected = load_letor("test.txt")
    np.testing.assert_array_equal(load_letor("t.txt.gz").X, expected.X)
    (place / "other.gz").write_bytes(gzip.compress(b"a letter\n"))
    (place / "other.csv").write_bytes(CONTENTS["users"])
    for target in ("other.gz", "other.csv"):
        before = (place / target).read_bytes()
        code, _, err = run("convert", "train.txt", target)
        assert (code, "not overwritten" in err) == (2, True)
        assert (place / target).read_bytes() == before


def test_an_input_is_never_replaced(run, place, monkeypatch):
    monkeypatch.chdir(place)
    os.symlink("test.txt", "link.txt")
    os.link("test.txt", "hard.txt")
    os.mkdir("sub")
    before = (place / "test.txt").read_bytes()
    names = ("test.txt", "link.txt", "hard.txt", "sub/../test.txt", str(place / "test.txt"))
    for name in names:
        for command in (
            ["predict", "model", "test.txt", "-o", name],
            ["predict", "model", "test.txt", "--trec-run", "-o", name],
            ["train", "train.txt", "--valid", "test.txt", "-o", name],
            ["tune", "train.txt", "--valid", "test.txt", "-o", name],
            ["tune", "train.txt", "--valid", "test.txt", "--kernel", "rbf", "--resume", name],
            ["convert", "test.txt", name],
        ):
            code, _, err = run(*command, *(["--force"] if "--resume" not in command else []))
            assert (code, "is also an input; choose another name" in err) == (2, True), err
            assert f"error: {'--resume' if '--resume' in command else 'output'} {name} is" in err
    code, _, err = run("predict", "model", "test.txt", "-o", "model", "--force")
    assert (code, "model is also an input" in err) == (2, True)
    assert (place / "test.txt").read_bytes() == before
    os.link("train.txt", "model.hard")
    code, _, err = run(
        "tune",
        "test.txt",
        "--kernel",
        "rbf",
        "--resume",
        "model.hard",
        "-o",
        "train.txt",
        "--force",
    )
    assert (code, "cannot be both" in err or "not written as .txt" in err) == (2, True)


def shell(command: str, place: Path) -> subprocess.CompletedProcess:
    return subprocess.run(
        f"{sys.executable} -m ranksvm {command}", shell=True, cwd=place, capture_output=True,
        text=True, env={k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"},
    )  # fmt: skip


REDIRECTED = "standard output is redirected to the input test.txt. Write to another file"
POSIX = pytest.mark.skipif(os.name != "posix", reason="redirections of a POSIX shell")


@POSIX
@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("predict model - -o test.txt --force < test.txt", "output test.txt is also an input"),
        pytest.param("predict model test.txt >> test.txt", REDIRECTED, marks=pytest.mark.slow),
        pytest.param("convert test.txt - >> test.txt", REDIRECTED, marks=pytest.mark.slow),
    ],
)
def test_a_redirection_is_an_input_or_output_too(place, command, message):
    before = (place / "test.txt").read_bytes()
    done = shell(command, place)
    assert (done.returncode, message in done.stderr) == (2, True), done.stderr
    assert (place / "test.txt").read_bytes() == before


@POSIX
def test_what_the_shell_has_emptied_is_told(place):
    done = shell("predict model test.txt > test.txt", place)
    emptied = "standard output is redirected to the input test.txt, which `>` has already emptied."
    assert (done.returncode, emptied in done.stderr) == (2, True), done.stderr


CLOSED = {
    "predict model test.txt >&-": "standard output: closed; results cannot be written",
    "predict model test.txt -o /dev/stdout >&-": "standard output: closed; results",
    "info test.txt >&-": "standard output: closed; results cannot be written",
    "train train.txt -o - >&-": "standard output: closed; results cannot be written",
    "evaluate test.txt --model model --json >&-": "standard output: closed; results",
    "--help >&-": "standard output: closed; results",
    "info - <&-": "there is no standard input to read",
    "predict model test.txt >/dev/full": "standard output: No space left on device; free",
}


@POSIX
@pytest.mark.parametrize(
    "command",
    [
        command if number == 0 else pytest.param(command, marks=pytest.mark.slow)
        for number, command in enumerate(CLOSED)
    ],
)
def test_results_are_not_lost_in_silence(place, command):
    done = shell(command, place)
    assert (done.returncode, CLOSED[command] in done.stderr) == (3, True), done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


@POSIX
def test_a_closed_stream_that_nobody_needs_is_no_error(place):
    done = shell("predict model test.txt -o scores >&-", place)
    assert (done.returncode, done.stderr) == (0, "")
    assert len((place / "scores").read_text().split()) == len(load_letor(place / "test.txt").y)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_note_that_nobody_can_read_stops_nothing(place):
    """Such as that there are no query ids."""
    (place / "noqid.txt").write_text("1 1:1\n0 1:0\n")
    done = shell("train noqid.txt -o noqid.safetensors 2>/dev/full", place)
    assert done.returncode == 0, done.stderr
    assert (place / "noqid.safetensors").exists()
    assert shell("predict missing.safetensors noqid.txt 2>/dev/full", place).returncode == 3


def test_lines_longer_than_what_is_looked_at(good, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save_letor("wide.txt", np.random.default_rng(0).random((3, 9000)), [0, 1, 2], [1, 1, 1])
    for _ in range(2):
        good("convert", "wide.txt", "again.letor")
    assert Path("again.letor").stat().st_size > 3 * 2**16


@pytest.mark.parametrize("name", ["m.onnx", "m.pkl", "m.JSON", "m.dat", "m.csv", "m.txt", "m.gz"])
def test_save_does_not_write_other_formats_names(tmp_path, name):
    model = LinearRankSVM().fit([[0.0], [1.0]], [0, 1])
    with pytest.raises(ValueError, match=r"save\(\) does not write .* Use .safetensors"):
        model.save(tmp_path / name)
    assert not list(tmp_path.iterdir())
    model.save(os.fsencode(tmp_path / "m.v2"))
    assert load(tmp_path / "m.v2").coef_.size


def test_save_replaces_models_only(place, samples):
    X, y, qid, _ = samples["train"]
    model = LinearRankSVM(C=2.0).fit(X, y, qid)
    for name in ("model", "svmrank", "empty", "new.anything"):
        model.save(place / name)
        assert load(place / name).C == 2.0
    for name in ("tensors", "notes"):
        before = (place / name).read_bytes()
        with pytest.raises(FileExistsError, match=r"not a model; .*use force=True") as caught:
            model.save(place / name)
        assert str(caught.value).startswith(f"{place / name} already exists and is not a model")
        assert caught.value.errno == errno.EEXIST
        assert caught.value.filename == str(place / name)
        assert (place / name).read_bytes() == before
    model.save(place / "notes", force=True)
    assert load(place / "notes").C == 2.0


@pytest.mark.skipif(not os.path.exists("/proc/self/mem"), reason="no file that fails to be read")
@pytest.mark.parametrize(
    "command",
    [
        ["train", "{}"],
        ["train", "{}", "--format", "csv"],
        ["train", "train.txt", "--pairs", "{}"],
        ["predict", "{}", "test.txt"],
        ["evaluate", "test.txt", "--scores", "{}"],
        ["evaluate", "{}", "--run", "run"],
        ["info", "{}"],
    ],
)
def test_errors_of_reading_name_the_file(run, place, monkeypatch, command):
    monkeypatch.chdir(place)
    bad = "/proc/self/mem"  # reading from its beginning is an Input/output error
    code, _, err = run(*(word.format(bad) for word in command))
    assert code == 3
    assert err.startswith(f"ranksvm: error: {bad}: Input/output error; the disk"), err


# --- Checksums of what is written ----------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".gz", ".bz2", ".xz", ".zst"])
def test_damage_of_compressed_files_is_found(tmp_path, suffix):
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 9, (40, 4)) / 8, rng.integers(0, 3, 40)
    path = tmp_path / f"data.txt{suffix}"
    save_letor(path, X, y)
    whole = load_letor(path)
    assert np.array_equal(whole.X, X)
    assert np.array_equal(whole.y, y)
    content = path.read_bytes()
    wrong = refused = 0
    for bit in rng.choice(8 * len(content), 200, replace=False).tolist():
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        try:
            data = load_letor(path)
        except ValueError:
            refused += 1
            continue
        wrong += not (np.array_equal(data.X, X) and np.array_equal(data.y, y))
    assert wrong == 0
    assert refused > 150  # some bits of the headers mean nothing


def test_damage_of_parquet_files_is_found(good, run, place, monkeypatch):
    monkeypatch.chdir(place)
    good("convert", "train.txt", "t.parquet")
    content = (place / "t.parquet").read_bytes()
    (place / "t.parquet").write_bytes(content)
    column = parquet.ParquetFile(place / "t.parquet").metadata.row_group(0).column(3)
    at = column.dictionary_page_offset or column.data_page_offset
    found = 0
    for byte in range(at + 40, at + 60):
        damaged = bytearray(content)
        damaged[byte] ^= 4
        (place / "t.parquet").write_bytes(damaged)
        code, _, err = run("info", "t.parquet")
        found += code == 3
        assert code == 3, (byte - at, err)
        assert "t.parquet" in err
    assert found == 20
