"""The table of docs/from-lightgbm.md: both columns are run, the left one if LightGBM is there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ranksvm
from ranksvm.data import load_letor, save_letor
from ranksvm.datasets import make_ranking

PAGE = Path(__file__).resolve().parents[2] / "docs" / "from-lightgbm.md"
ROW = re.compile(r"^\| `(?P<theirs>[^`]+)` \| `(?P<ours>[^`]+)` \|$", re.MULTILINE)
ROWS = [match.groupdict() for match in ROW.finditer(PAGE.read_text(encoding="utf-8"))]


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The variables of the page."""
    monkeypatch.chdir(tmp_path)
    X, y, qid, _ = make_ranking(60, (8, 15), 6, random_state=0)
    first = qid < 40
    sizes = np.bincount(qid)
    save_letor("rank.train", X, y, None)
    np.savetxt("rank.train.query", sizes, fmt="%d")
    return {
        "np": np,
        "load_letor": load_letor,
        **{name: getattr(ranksvm, name) for name in ranksvm.__all__},
        "X": X[first],
        "y": y[first],
        "qid": qid[first],
        "sizes": sizes[:40],
        "X_val": X[~first],
        "y_val": y[~first],
        "qid_val": qid[~first],
        "sizes_val": sizes[40:],
    }


def test_the_table_is_there() -> None:
    table = PAGE.read_text(encoding="utf-8").partition("| LightGBM |")[2].partition("\n\n")[0]
    assert len(ROWS) == len(table.splitlines()) - 2 >= 10  # without the rest of the first line


@pytest.mark.filterwarnings("ignore:LinearRankSVMCV. the best C")
def test_our_column(names: dict[str, Any]) -> None:
    for row in ROWS:
        exec(row["ours"], names)
    assert len(names["values"]) > 2
    assert names["scores"].shape == names["y_val"].shape
    assert names["data"].groups.n_queries == 60


@pytest.mark.filterwarnings("ignore")
def test_their_column(names: dict[str, Any]) -> None:
    names["lgb"] = pytest.importorskip("lightgbm")
    for row in ROWS:
        exec(row["theirs"], names)
    assert names["data"].num_data() == len(names["y"]) + len(names["y_val"])
