"""LightGBM's files beside LETOR text: sizes of queries and weights of items."""

from __future__ import annotations

import gzip
import logging
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ranksvm import LinearRankSVM
from ranksvm.data import load_letor, save_letor
from ranksvm.data.shard_files import open_files
from ranksvm.data.streams import FileFormatError
from ranksvm.datasets import make_ranking

X, y, qid, _ = make_ranking(9, (2, 7), 4, random_state=0)
SIZES = np.unique(qid, return_counts=True)[1]
WEIGHT = np.random.default_rng(0).uniform(0.5, 2.0, len(y))


def written(folder: Path, name: str = "rank.train", *, weights: bool = True) -> Path:
    path = folder / name
    save_letor(path, X, y, None)
    (folder / f"{name}.query").write_text("".join(f"{n}\n" for n in SIZES), encoding="ascii")
    if weights:
        lines = "".join(f"{value!r}\n" for value in WEIGHT.tolist())
        (folder / f"{name}.weight").write_text(lines, encoding="ascii")
    return path


def test_queries_and_weights_are_those_of_the_files(tmp_path: Path, caplog: Any) -> None:
    path = written(tmp_path)
    with caplog.at_level(logging.INFO, logger="ranksvm"):
        data = load_letor(path)
    np.testing.assert_array_equal(data.qid, qid)
    np.testing.assert_array_equal(data.item_weight, WEIGHT)
    np.testing.assert_array_equal(data.X, X)
    says = (f"sizes of queries from {path}.query", f"weights of items from {path}.weight")
    assert data.origin.beside == says
    assert caplog.messages == [f"{path}: {' and '.join(says)}"]
    alone = load_letor(path, side_files=False)
    assert alone.qid is None
    assert alone.item_weight is None
    ignored = load_letor(path, qid="ignore")
    assert ignored.qid is None
    assert ignored.origin.beside == says[1:]
    np.testing.assert_array_equal(load_letor(path, qid="required").qid, qid)
    with open(path, "rb") as file:  # nobody knows what is beside it
        assert load_letor(file).qid is None


def test_ids_in_the_lines_come_first(tmp_path: Path) -> None:
    path = written(tmp_path, weights=False)
    save_letor(path, X, y, qid + 5)
    data = load_letor(path)
    np.testing.assert_array_equal(data.qid, qid + 5)
    assert data.origin.beside == ()


def test_compressed_files(tmp_path: Path) -> None:
    path = written(tmp_path)
    packed = tmp_path / "packed"
    packed.mkdir()
    for name in ("rank.train", "rank.train.query", "rank.train.weight"):
        content = (tmp_path / name).read_bytes()
        (packed / f"{name}.gz").write_bytes(gzip.compress(content))
    data = load_letor(packed / "rank.train.gz")
    np.testing.assert_array_equal(data.qid, qid)
    np.testing.assert_array_equal(data.item_weight, WEIGHT)
    (tmp_path / "rank.train.gz").write_bytes(gzip.compress(path.read_bytes()))
    np.testing.assert_array_equal(load_letor(tmp_path / "rank.train.gz").qid, qid)


def test_several_files_have_several_queries(tmp_path: Path) -> None:
    first, second = written(tmp_path), written(tmp_path, "other")
    data = load_letor([first, second])
    np.testing.assert_array_equal(data.qid, np.concatenate([qid, qid + 9]))
    np.testing.assert_array_equal(data.item_weight, np.concatenate([WEIGHT, WEIGHT]))
    os.unlink(tmp_path / "other.weight")
    with pytest.raises(FileFormatError, match=r"train\.weight has weights of items, and .*other "):
        load_letor([first, second])
    with pytest.raises(FileFormatError, match=r"train\.query has the sizes of .*Leave it out"):
        load_letor([first, f"{first}.query"])


@pytest.mark.parametrize(
    ("suffix", "content", "says"),
    [
        (".query", "3\n4\n", r"has 2 sizes with the sum 7, and .*rank\.train has \d+ items\. Use"),
        (".query", "3\nx\n", r"line 2: found 'x', expected the size of a query"),
        (".query", "3\n-4\n", r"line 2: found '-4', expected .* not negative"),
        (".query", "3.5\n", r"line 1: found '3\.5', expected"),
        (".query", "", r"has 0 sizes with the sum 0"),
        (".weight", "1\n2\n", r"has 2 weights, and .* has \d+ items"),
        (".weight", "\n1 2\n", r"line 2: found '1 2', expected the weight of an item"),
        (".weight", "nan\n", r"line 1: found 'nan'"),
        (".weight", "-1\n", r"line 1: found '-1'"),
        (".weight", "0\n" * len(y), r"sample_weight"),
    ],
)
def test_wrong_files(tmp_path: Path, suffix: str, content: str, says: str) -> None:
    path = written(tmp_path)
    Path(f"{path}{suffix}").write_text(content, encoding="ascii")
    for read in (load_letor, open_files):
        with pytest.raises(ValueError, match=says):
            read(path)


def test_files_in_pieces_are_the_same_data(tmp_path: Path) -> None:
    path = written(tmp_path)
    data = load_letor(path)
    expected = LinearRankSVM().fit(*data, sample_weight=data.item_weight)
    for paths in (path, tmp_path, str(tmp_path / "rank*")):  # a folder has other files, too
        opened = open_files(paths)
        np.testing.assert_array_equal(opened.qid, qid)
        np.testing.assert_array_equal(opened.item_weight, WEIGHT)
        model = LinearRankSVM().fit_files(paths)
        np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-6)


def test_commands_read_them_and_say_so(run: Any, tmp_path: Path) -> None:
    path, model = written(tmp_path), tmp_path / "m.safetensors"
    code, out, err = run("train", path, "-o", model)
    assert code == 0
    assert f"{len(y)} items, 9 queries" in out
    assert f"{path}: sizes of queries from {path}.query and weights of items from" in err
    data = load_letor(path)
    expected = LinearRankSVM().fit(*data, sample_weight=data.item_weight)
    from ranksvm import load

    np.testing.assert_allclose(load(model).coef_, expected.coef_, rtol=1e-9)
    for arguments in (("train", path, "--memory", "1GB"), ("info", path)):
        code, out, err = run(*arguments)
        assert code == 0
        assert "9 queries" in out or re.search(r"queries +9", out)
        assert f"{path}.query" in err
    code, _, err = run("convert", path, tmp_path / "table.parquet")
    assert code == 0
    assert "weights of the items are not written" in err
    code, _, err = run("convert", path, tmp_path / "table.parquet", "--memory", "1GB")
    assert code == 2
    assert f"--memory does not read {path}.query" in err
    Path(f"{path}.query").write_text("3\n", encoding="ascii")
    code, _, err = run("train", path)
    assert code == 3
    assert f"the sum 3, and {path} has {len(y)} items. Use the files of one data set" in err
    assert "--ignore-qid" in err


def test_the_example_of_lightgbm(data_directory: Path) -> None:
    folder = data_directory / "lightgbm-lambdarank"
    if not folder.is_dir():
        pytest.skip("LightGBM's example data are not here")
    train = load_letor(folder / "rank.train.gz", n_features=301)
    test = load_letor(folder / "rank.test.gz", n_features=301)
    assert (train.n_items, train.groups.n_queries) == (3005, 201)
    assert (test.n_items, test.groups.n_queries) == (768, 50)
    model = LinearRankSVM().fit(*train, eval_set=tuple(test))
    assert model.history_[-1].metric > 0.65
