"""``--memory``: every data option is honoured as in memory, or refused by name."""

from __future__ import annotations

import json
import re
from dataclasses import fields

import numpy as np
import pytest

from ranksvm.cli.options import EvaluationOptions, ItemOptions, TrainingOptions
from ranksvm.data import save_letor
from ranksvm.data.local_shards import LocalShards
from ranksvm.data.synthetic import make_ranking
from ranksvm.learners import read_model

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
pytest.importorskip("pyarrow.csv")

PIECES = ["--memory", "30MB"]
COMMANDS = {
    "train": TrainingOptions,
    "tune": TrainingOptions,
    "predict": ItemOptions,
    "evaluate": EvaluationOptions,
}
# By option: the arguments, the file, and the words of a refusal; None if the command does and says
# the same as without --memory.
CASES = {
    "format": [
        (["--format", "parquet"], "plain.parquet", None),
        (["--format", "letor"], "plain.txt", None),
        (["--format", "letor"], "plain.parquet", "--format letor: "),
        (["--format", "parquet"], "plain.txt", "--format parquet: "),
        (["--format", "tsv"], "plain.txt", "--memory does not work with TSV files"),
        (["--format", "letor"], "text.csv", "--format letor: "),
    ],
    "label_column": [
        (["--label-column", "x4"], "plain.parquet", None),
        (["--label-column", "none"], "plain.parquet", None),
        (["--label-column", "qid"], "plain.parquet", None),
        (["--label-column", "none"], "plain.txt", None),
    ],
    "qid_column": [
        (["--qid-column", "query"], "named.parquet", None),
        (["--qid-column", "none"], "plain.parquet", None),
        (["--qid-column", "label"], "plain.parquet", None),
        ([], "named.parquet", None),  # a note says that there are no ids
    ],
    "docid_column": [
        ([], "documents.parquet", None),
        (["--docid-column", "x4"], "plain.parquet", None),
        (["--docid-column", "none"], "plain.parquet", None),
        (["--docid-column", "x4", "--ignore-qid"], "named.parquet", None),
    ],
    "ignore_qid": [
        (["--ignore-qid"], "plain.parquet", None),
        (["--ignore-qid"], "plain.txt", None),
        (["--ignore-qid"], "odd.txt", None),
    ],
    "missing": [
        (["--missing", "zero"], "missing.txt", None),
        ([], "missing.txt", None),
        (["--missing", "zero"], "plain.parquet", "--missing zero and --memory"),
        (["--missing", "zero"], "plain.npy", "--missing zero and --memory"),
    ],
    "duplicates": [
        (["--duplicates", "sum"], "odd.txt", None),
        (["--duplicates", "last"], "odd.txt", None),
        (["--duplicates", "last"], "plain.parquet", None),
    ],
    "zero_based": [
        (["--zero-based"], "zero.txt", None),
        (["--one-based"], "zero.txt", None),
        (["--zero-based"], "plain.parquet", None),
    ],
    "max_line_bytes": [
        (["--max-line-bytes", "20"], "plain.txt", None),
        (["--max-line-bytes", "20"], "plain.parquet", None),
    ],
    "jobs": [(["--jobs", "1"], "plain.parquet", None), (["--jobs", "2"], "plain.txt", None)],
    "memory": [
        ([], "plain.parquet", None),
        ([], "plain.txt", None),
        ([], "text.csv", "--memory does not work with CSV files. Convert them to Parquet first"),
        ([], "-", "so it needs files"),
    ],
    "cache": [([], "plain.txt", None)],  # all runs below have it
}  # fmt: skip


# test_cli_tables.py has their tests.
OF_TABLES = {
    "features", "drop", "weight_column", "query_weight_column", "min_frequency", "usual",
    "may_encode",
}  # fmt: skip


@pytest.fixture(scope="module")
def sets(tmp_path_factory):
    """Small sets in several formats, and a model for each of them."""
    folder = tmp_path_factory.mktemp("sets")
    X, y, qid, _ = make_ranking(40, (3, 9), 5, random_state=1)
    X = np.round(X, 3)
    columns = {"label": y, "qid": qid} | {f"x{j}": X[:, j] for j in range(5)}
    documents = {"docid": [f"D{i}" for i in range(len(y))]}
    named = {"query" if name == "qid" else name: one for name, one in columns.items()}
    for name, one in {
        "plain": columns, "named": named, "documents": columns | documents
    }.items():  # fmt: skip
        parquet.write_table(pa.table(one), folder / f"{name}.parquet", row_group_size=50)
    save_letor(folder / "plain.txt", X, y, qid)
    text = (folder / "plain.txt").read_text()
    (folder / "text.csv").write_text(text)
    (folder / "missing.txt").write_text(text.replace(" 1:", " 1:NULL 7:", 1))
    (folder / "odd.txt").write_text(text.replace(" 2:", " 2:0.5 2:", 1))
    save_letor(folder / "zero.txt", X, y, qid, zero_based=True)
    np.save(folder / "plain.npy", X)
    np.save(folder / "y.npy", y)
    np.save(folder / "qid.npy", qid)
    return folder


def outcome(run, arguments):
    """Exit code, messages and figures of a command."""
    code, out, err = run(*arguments)
    if arguments[0] == "predict" or code:
        return code, err, [float(one) for one in out.split()]
    report = json.loads(out)
    match arguments[0]:
        case "train":
            numbers = [report["objective"], report["data"]["pairs"], report["data"]["queries"]]
        case "tune":
            numbers = [one["mean"] for one in report["table"]]
        case _:
            numbers = [*report["metrics"].values(), report["items"], report["queries"]]
    return code, err, numbers


def command_line(command, file, sets, tmp_path):
    if command in ("predict", "evaluate"):
        model = tmp_path / "model.safetensors"
        start = ["predict", model, file] if command == "predict" else ["evaluate", file, "--json"]
        return start if command == "predict" else [*start, "--model", model]
    more = ["--C-grid", "1,10", "--folds", 2] if command == "tune" else []
    return [command, file, "--json", *more]


def test_every_option_has_a_case() -> None:
    for options in COMMANDS.values():
        names = {one.name for one in fields(options)} - {"may_keep_missing", *OF_TABLES}
        assert names <= set(CASES)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("given", "name", "refusal"),
    [case for cases in CASES.values() for case in cases],
    ids=[f"{option}-{k}" for option, cases in CASES.items() for k in range(len(cases))],
)
def test_options(run, sets, tmp_path, command, given, name, refusal) -> None:
    path = name if name == "-" else sets / name
    if command in ("predict", "evaluate"):
        trained = sets / (name if name.endswith(".parquet") else "plain.txt")
        code, _, err = run("train", trained, "-o", tmp_path / "model.safetensors")
        assert code == 0, err
    arguments = [*command_line(command, path, sets, tmp_path), *given]
    pieces = [*PIECES, "--cache", tmp_path / "cache"]
    code, err, found = outcome(run, [*arguments, *pieces])
    if refusal is not None:
        assert code == 2
        assert refusal in err
        assert found == []
        return
    known = outcome(run, arguments)
    assert (code, err) == known[:2]
    assert found == pytest.approx(known[2], rel=1e-9)


def test_arrays(run, good, sets, tmp_path) -> None:
    """Labels and query ids of a .npy file are in .npy files."""
    X, y, qid, model = (sets / "plain.npy", sets / "y.npy", sets / "qid.npy", tmp_path / "m")
    labels, ids = ["--label-column", y], ["--qid-column", qid]
    found = json.loads(good("train", X, *labels, *ids, *PIECES, "--json", "-o", model))
    known = json.loads(good("train", sets / "plain.txt", "--json", "-o", tmp_path / "k"))
    assert found["objective"] == pytest.approx(known["objective"], rel=1e-9)
    scores = [
        good("predict", tmp_path / "k", sets / "plain.txt"),
        good("predict", model, X, *PIECES),
    ]
    assert np.allclose(*(np.array(one.split(), float) for one in scores), atol=1e-6)

    code, _, err = run("train", X, *labels, *PIECES)
    assert code == 0
    assert "has no query ids; treating all items as one query. Name their .npy file" in err
    for given, message in (
        ([], "plain.npy has no labels: name their .npy file with --label-column"),
        (["--label-column", "label"], "--label-column label: "),
        ([*labels, "--qid-column", "qid"], "--qid-column qid: "),
        ([*labels, "--docid-column", "docid"], "--docid-column names a column of a table"),
    ):
        code, out, err = run("train", X, *given, *PIECES)
        assert (code, out) == (2, "")
        assert message in err


@pytest.mark.parametrize("pieces", [[], PIECES])
def test_columns_are_named_by_options(run, sets, tmp_path, pieces) -> None:
    code, _, err = run(
        "train", sets / "plain.parquet", "--label-column", "x1", "--qid-column", "x1", *pieces
    )
    assert code == 2
    assert "--label-column and --qid-column are both 'x1'; name two columns" in err
    table = parquet.read_table(sets / "plain.parquet")
    text = table.append_column("name", pa.array([f"a{k}" for k in range(len(table))]))
    parquet.write_table(text, tmp_path / "text.parquet")
    code, _, err = run("train", tmp_path / "text.parquet", *pieces)
    assert code == 3
    assert ("not numeric: 'name' (String)" if pieces else "column 'name' is text") in err
    assert "--drop name" in err
    parquet.write_table(table.select(["label", "qid"]), tmp_path / "none.parquet")
    code, _, err = run("train", tmp_path / "none.parquet", *pieces)
    assert code == 3
    assert "has labels and ids but no feature columns. Pass the file with the features." in err


def test_a_later_file_with_another_column(run, sets, tmp_path) -> None:
    table = parquet.read_table(sets / "documents.parquet")
    parquet.write_table(table, tmp_path / "1.parquet")
    parquet.write_table(table.append_column("more", table["x0"]), tmp_path / "2.parquet")
    code, _, err = run("train", tmp_path, *PIECES)
    assert code == 3
    assert "2.parquet has a column 'more' (" in err
    model = tmp_path / "m"
    assert run("train", tmp_path / "1.parquet", "-o", model)[0] == 0
    assert run("predict", model, tmp_path, *PIECES)[0] == 0  # as in memory, it does not matter


@pytest.mark.parametrize("index", [None, "key", "qid"])
@pytest.mark.parametrize("pieces", [[], PIECES])
def test_the_index_of_a_pandas_frame_is_no_feature(good, sets, tmp_path, index, pieces) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_parquet(sets / "plain.parquet")
    if index == "qid":
        frame = frame.set_index("qid")
    else:
        frame.index = pandas.Index(np.arange(len(frame))[::-1] * 7.0, name=index)
    path = tmp_path / "index.parquet"
    frame.to_parquet(path)
    assert (index or "__index_level_0__") in parquet.read_schema(path).names
    known = json.loads(good("train", sets / "plain.parquet", "--json"))
    found = json.loads(good("train", path, "--json", "-o", tmp_path / "m", *pieces))
    assert found["data"]["features"] == 5
    assert found["data"]["queries"] == known["data"]["queries"]  # an index can hold the query ids
    assert found["objective"] == pytest.approx(known["objective"], rel=1e-9)
    assert read_model(tmp_path / "m").feature_names == tuple(f"x{j}" for j in range(5))


def test_folders_and_patterns_need_memory(run, good, sets, tmp_path) -> None:
    (tmp_path / "1.parquet").write_bytes((sets / "plain.parquet").read_bytes())
    for source, what in ((tmp_path, "folder"), (tmp_path / "*.parquet", "pattern")):
        good("train", source, *PIECES)
        code, _, err = run("train", source)
        assert code == 3
        assert f"is a {what}. Name its files" in err
        assert "or use --memory SIZE" in err


# --- predict -------------------------------------------------------------------------------------


def test_scores_are_written_as_they_come(run, good, sets, tmp_path, monkeypatch) -> None:
    """While shards are scored, the scores of those before are in a temporary file."""
    from ranksvm.cli import predict
    from ranksvm.data import shard_files

    model, scores = tmp_path / "m", tmp_path / "scores.txt"
    good("train", sets / "plain.parquet", "-o", model)
    known = good("predict", model, sets / "plain.parquet")
    monkeypatch.setattr(shard_files, "block_size", lambda budget: 1500)
    scores.write_text("1.0\n")
    sizes, whole, before = [], predict.score_blocks, scores.read_text()

    def watched(*arguments):
        for block in whole(*arguments):
            yield block
            assert scores.read_text() == before
            sizes.append(len(block))

    monkeypatch.setattr(predict, "score_blocks", watched)
    good("predict", model, sets / "plain.parquet", *PIECES, "-o", scores)
    assert len(sizes) > 3
    found = np.array(scores.read_text().split(), float)
    assert np.allclose(found, np.array(known.split(), float), rtol=0, atol=1e-12)

    # An item of the last shard cannot be scored: the file stays as it was.
    table = parquet.read_table(sets / "plain.parquet")
    last = np.array(table["x0"])
    last[-1] = np.inf
    bad = table.set_column(table.column_names.index("x0"), "x0", pa.array(last))
    parquet.write_table(bad, tmp_path / "bad.parquet")
    before = scores.read_text()
    sizes.clear()
    code, _, err = run("predict", model, tmp_path / "bad.parquet", *PIECES, "-o", scores)
    assert code == 3, err
    assert "bad.parquet" in err
    assert len(sizes) > 2
    assert scores.read_text() == before
    assert [one.name for one in tmp_path.iterdir() if one.name.endswith(".tmp")] == []


def test_scores_need_no_labels(good, sets, tmp_path) -> None:
    """The memory for pairs of labeled items is not asked for."""
    model = tmp_path / "m"
    good("train", sets / "plain.parquet", "-o", model)
    table = parquet.read_table(sets / "plain.parquet")
    many = pa.concat_tables([table] * 400)
    parquet.write_table(many, tmp_path / "many.parquet")
    out = good("predict", model, tmp_path / "many.parquet", "--memory", "20MB")
    assert len(out.split()) == len(many)


# --- tune ----------------------------------------------------------------------------------------


def test_a_search_shows_shards(run, sets, monkeypatch) -> None:
    from contextlib import contextmanager

    from ranksvm.cli import tune

    shown = []

    @contextmanager
    def progress(what):
        yield lambda *told: shown.append(told)

    monkeypatch.setattr(tune, "progress", progress)
    monkeypatch.setattr(LocalShards, "_stays", lambda *_: False)  # as if the data were large
    asked = ["tune", sets / "plain.parquet", "--C-grid", "1,10", "--folds", 2]
    assert run(*asked, *PIECES)[0] == 0
    assert shown[0] == (0, None, "first fit, shard 1 of 1")
    fits = [text for *_, text in shown if "shard" not in text]
    assert len(fits) == 4
    later = [one for one in shown if one[2].startswith(fits[0]) and "shard 1 of 1" in one[2]]
    assert {one[:2] for one in later} == {(1, 4)}
    shown.clear()
    assert run(*asked)[0] == 0
    assert [one[0] for one in shown] == [1, 2, 3, 4]


# --- convert -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """Texts of several pieces, whose last parts differ from the first."""
    folder = tmp_path_factory.mktemp("texts")
    rng = np.random.default_rng(0)
    n = 4000
    X = np.round(rng.normal(size=(n, 4)), 3)
    X[:3000, 3] = 0.0  # a feature that the first lines lack
    y, number = rng.integers(0, 3, n), np.arange(n) // 10
    ids = np.array([f"q{one}" if one > 390 else f"{one}" for one in number])
    comments = [f"docid = D{row}" if row > 3900 else None for row in range(n)]
    save_letor(folder / "numbers.txt", X, y, number)
    save_letor(folder / "ids.txt.gz", X, y, ids, comments=comments)
    columns = {"a": X[:, 0], "label": y, "b": X[:, 1].astype(int), "qid": ids, "docid": comments}
    columns["c"] = np.where(np.arange(n) > 3000, 0.5, 1.0)  # whole numbers at first
    table = pa.table(columns)
    for name, separator in (("table.csv", ","), ("table.tsv", "\t")):
        options = pa.csv.WriteOptions(delimiter=separator)
        pa.csv.write_csv(table, folder / name, options)
    with (folder / "table.csv").open("a") as file:
        file.write("\n\n")
    (folder / "bad.csv").write_text(
        (folder / "table.csv").read_text().replace("\n", "\nx", 3990).replace("\nx", "\n", 3989)
    )
    (folder / "bad.txt").write_text("".join([*(["1 qid:1 1:2\n"] * 30000), "1 qid:1 1:x\n"]))
    (folder / "mixed.txt").write_text("1 qid:1 1:2\n" * 30000 + "1 1:2\n" * 30000)
    return folder


@pytest.mark.parametrize("name", ["numbers.txt", "ids.txt.gz", "table.csv", "table.tsv"])
def test_convert_in_pieces(good, texts, tmp_path, name) -> None:
    good("convert", texts / name, tmp_path / "whole.parquet")
    good("convert", texts / name, tmp_path / "pieces.parquet", "--memory", "500KB")
    known = parquet.read_table(tmp_path / "whole.parquet")
    found = parquet.read_table(tmp_path / "pieces.parquet")
    assert found.schema.equals(known.schema)
    assert found.equals(known)
    assert parquet.ParquetFile(tmp_path / "pieces.parquet").num_row_groups > 1


def test_convert_odd_tables(run, tmp_path) -> None:
    """A blank first line, fields of several lines, and no labels: the same as without --memory."""
    names = "".join(f'"a\nb ""{row % 7}""",{row % 3},{row},{row / 8}\n' for row in range(40_000))
    (tmp_path / "odd.csv").write_text("\ndocid,qid,x0,x1\n" + names)
    whole = run("convert", tmp_path / "odd.csv", tmp_path / "whole.parquet")
    pieces = run("convert", tmp_path / "odd.csv", tmp_path / "pieces.parquet", "--memory", "500KB")
    assert pieces == whole
    assert whole[0] == 0
    assert "odd.csv has no 'label' column. Name the column with --label-column." in whole[2]
    known = parquet.read_table(tmp_path / "whole.parquet")
    assert known.column_names == ["qid", "docid", "x0", "x1"]
    assert known.num_rows == 40_000
    assert parquet.read_table(tmp_path / "pieces.parquet").equals(known)
    file = parquet.ParquetFile(tmp_path / "pieces.parquet")
    assert file.num_row_groups > 1
    assert file.metadata.row_group(0).column(2).compression == "UNCOMPRESSED"


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        ("bad.csv", 3, r"bad.csv \(from line 2,\d+ on\): 1 of 3 feature columns is not numeric"),
        ("bad.txt", 3, r"bad.txt, line 30001, column 11: found 'x'"),
        ("mixed.txt", 3, r"mixed.txt"),
        ("none.txt", 3, "No such file"),
    ],
)  # fmt: skip
def test_bad_text_is_not_converted(run, texts, tmp_path, name, code, message) -> None:
    target = tmp_path / "bad.parquet"
    found, out, err = run("convert", texts / name, target, "--memory", "500KB")
    assert (found, out) == (code, "")
    assert re.search(message, err)
    assert list(tmp_path.iterdir()) == []


def test_what_is_not_converted_in_pieces(run, sets, texts, tmp_path) -> None:
    text, table = texts / "numbers.txt", sets / "plain.parquet"
    model = tmp_path / "m"
    assert run("train", table, "-o", model)[0] == 0
    for source, target, message in (
        (text, "x.csv", "--memory converts CSV, TSV or LETOR text to Parquet, nothing else"),
        (table, "x.parquet", "--memory converts CSV, TSV or LETOR text to Parquet, nothing else"),
        ("-", "x.parquet", "--memory reads the data twice, so it needs a file"),
        (model, "x", "--memory is for data, and"),
    ):
        code, _, err = run("convert", source, tmp_path / target, *PIECES, stdin=b"1 qid:1 1:2\n")
        assert code == 2
        assert message in err
    (tmp_path / "empty.csv").write_text("")
    code, _, err = run("convert", tmp_path / "empty.csv", tmp_path / "x.parquet", *PIECES)
    assert code == 3
    (tmp_path / "large.csv").write_text(f"label,a\n{2**53 + 1},1\n")
    code, _, err = run("convert", tmp_path / "large.csv", tmp_path / "x.parquet", *PIECES)
    assert code == 3
    assert "labels too large" in err
