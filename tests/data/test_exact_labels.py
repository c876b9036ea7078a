"""Labels are compared exactly, whatever they come as; masked and missing ones are refused."""

from __future__ import annotations

import io
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ranksvm import (
    FactorizedRankSVM,
    KernelRankSVM,
    KernelRankSVMCV,
    LinearRankSVM,
    LinearRankSVMCV,
)
from ranksvm._values import as_float, as_levels, exact_vector, is_exact, merges_values
from ranksvm.data import LetorError, clicks_to_pairs, load_letor, save_letor
from ranksvm.kernel_approximation import Nystroem
from ranksvm.metrics import compare, evaluate, kendall_tau, ndcg, pairwise_accuracy, ranking_scorer

BIG = 2**60
INTS = [BIG, BIG + 1, BIG + 2]
DECIMALS = [Decimal(i) for i in INTS]
X = np.array([[1.0, 0.0], [2.0, 1.0], [3.0, 5.0]])

LABELS: dict[str, Any] = {
    "list": INTS,
    "int64": np.array(INTS),
    "uint64": np.array(INTS, dtype=np.uint64),
    "beyond uint64": [2**70, 2**70 + 1, 2**70 + 2],
    "beyond float64": [10**400, 10**400 + 1, 10**400 + 2],
    "signed and unsigned": [-1, 2**63, 2**63 + 1],
    "integers and a float": [0.5, BIG, BIG + 1],
    "the first integer that is lost": [0.5, 2**53, 2**53 + 1],
    "objects": np.array(INTS, dtype=object),
    "pandas Int64": pd.Series(INTS, dtype="Int64"),
    "pandas UInt64": pd.Series(INTS, dtype="UInt64"),
    "pandas Arrow": pd.Series(INTS, dtype="int64[pyarrow]"),
    "pandas frame": pd.Series(INTS, dtype="Int64").array,
    "pandas decimals": pd.Series(DECIMALS, dtype=pd.ArrowDtype(pa.decimal128(30))),
    "polars": pl.Series(INTS),
    "polars Int128": pl.Series(INTS, dtype=pl.Int128),
    "polars decimals": pl.Series(DECIMALS),
    "Arrow": pa.array(INTS),
    "Arrow chunks": pa.chunked_array([INTS[:1], INTS[1:]]),
    "Arrow decimals": pa.array(DECIMALS),
    "Decimal": DECIMALS,
    "Fraction": [Fraction(1, 3), Fraction(1, 3) + Fraction(1, 10**30), Fraction(1)],
    "all together": [Fraction(2 * BIG - 1, 2), BIG, Decimal(BIG + 1)],
    "huge exponents": [Decimal("1E+999999999"), Decimal("1.1E+999999999"), Decimal("2E+999999999")],
}
if np.finfo(np.longdouble).nmant > 60:
    LABELS["longdouble"] = np.array(INTS, dtype=np.longdouble)
every_kind = pytest.mark.parametrize("labels", LABELS.values(), ids=list(LABELS))


@every_kind
def test_no_pair_is_lost_in_a_fit(labels: Any) -> None:
    for model in (LinearRankSVM(), KernelRankSVM(), FactorizedRankSVM(n_factors=2, random_state=0)):
        assert model.fit(X, labels).n_pairs_ == 3
        assert model.score(X, labels) == 1.0
    # The first and the second are different: in the wrong order one pair of three is.
    turned = LinearRankSVM().fit(X, labels)
    assert turned.score(X[[1, 0, 2]], labels) == pytest.approx(2 / 3)
    both = LinearRankSVM().fit_pairs(X, [0], [2], y=labels)
    assert both.n_pairs_ == 4


@every_kind
def test_metrics_of_the_order_see_all_pairs(labels: Any) -> None:
    assert pairwise_accuracy(labels, [2, 1, 3]) == pytest.approx(2 / 3)
    assert kendall_tau(labels, [2, 1, 3]) == pytest.approx(1 / 3)
    assert evaluate(labels, [2, 1, 3], metrics="pairwise_accuracy") == {
        "pairwise_accuracy": pytest.approx(2 / 3)
    }
    found = compare(labels, {"a": [1, 2, 3], "b": [2, 1, 3]}, metrics="pairwise_accuracy")
    assert found.rows[0].difference == pytest.approx(-1 / 3)
    # Scores, too, are compared exactly.
    assert pairwise_accuracy([1, 2, 3], labels) == 1.0
    model = LinearRankSVM().fit(X, [1, 2, 3])
    scorer = ranking_scorer("pairwise_accuracy", global_ranking=True)
    assert scorer(model, X[[1, 0, 2]], labels) == pytest.approx(2 / 3)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
@pytest.mark.parametrize("kind", ["Int64", "UInt64", "decimal"])
def test_no_pair_is_lost_in_a_column(make: Any, kind: str) -> None:
    columns: dict[str, Any] = {"a": X[:, 0], "b": X[:, 1]}
    if kind == "decimal":
        columns["y"] = DECIMALS
    elif make is pd.DataFrame:
        columns["y"] = pd.array(INTS, dtype=kind)
    else:
        columns["y"] = np.array(INTS, dtype=kind.lower())
    frame = make(columns)
    model = LinearRankSVM().fit(frame, "y")
    assert model.n_pairs_ == 3
    assert model.score(frame, "y") == 1.0


def searched(labels: Any, metric: str) -> float:
    rng = np.random.default_rng(0)
    items, qid = rng.normal(size=(60, 3)), np.repeat(np.arange(12), 5)
    return float(
        LinearRankSVMCV(Cs=[1.0, 10.0], cv=3, metric=metric).fit(items, labels, qid).best_score_
    )


@pytest.mark.filterwarnings("ignore:.*of the grid")
def test_a_search_judges_the_labels_themselves(tmp_path) -> None:
    """Ranks stand for them in the fits; gains are those of the values."""
    grade = np.random.default_rng(1).integers(0, 3, 60).tolist()
    near = [BIG + g for g in grade]
    assert searched(near, "pairwise_accuracy") == searched(grade, "pairwise_accuracy")
    values = [(BIG + 1) * g for g in grade]
    for metric in ("ndcg@3", "map", "mrr"):
        assert searched(values, metric) == searched([float(v) for v in values], metric)
    rng = np.random.default_rng(0)
    items, qid = rng.normal(size=(60, 3)), np.repeat(np.arange(12), 5)
    search = KernelRankSVMCV([1.0], [1.0], cv=2, metric="map", checkpoint=tmp_path / "cells")
    first = search.fit(items, [Decimal(v) for v in values], qid).best_score_
    assert search.fit(items, [Decimal(v) for v in values], qid).best_score_ == first
    with pytest.raises(ValueError, match="items"):  # other values in the same order
        search.fit(items, [Decimal(v + 3) for v in values], qid)
    seen = []

    def metric(y: Any, scores: Any, ids: Any) -> float:
        seen.append(y)
        return pairwise_accuracy(y, scores, ids)

    model = FactorizedRankSVM(n_factors=2, random_state=0, max_iter=3)
    model.fit(X, INTS, eval_set=(X, INTS), eval_metric=metric)
    assert seen[0].tolist() == INTS


def test_gains_of_huge_labels() -> None:
    """2^y has a limit for y - max(y), not for y."""
    assert ndcg([2**61 + 4096, 2**60, 0], [3, 2, 1]) == 1.0
    assert ndcg([2**61, 2**60, 0], [1, 2, 3]) == pytest.approx(0.5)


@pytest.mark.parametrize(
    "labels",
    [
        pd.Series([1, None, 2], dtype="Int64"),
        [1, None, BIG + 1],
        [1, Decimal("NaN"), 2],
        [1, Decimal("sNaN"), 2],
        [1, pd.NA, 2],
        [1, float("inf"), BIG + 1],
        pa.array([1, None, 2]),
        pl.Series([1, None, 2]),
        np.array([1, np.nan, 2], dtype=np.longdouble),
    ],
)
def test_missing_labels_are_told(labels: Any) -> None:
    with pytest.raises(
        ValueError, match="y contains NaN or infinity in 1 of 3 rows, first in row 1"
    ):
        LinearRankSVM().fit(X, labels)
    with pytest.raises(ValueError, match=r"y must be finite; got .* in row 1"):
        evaluate(labels, [1, 2, 3])


@pytest.mark.parametrize("labels", [["a", "b", "c"], [1, "2", 3], [1, 2j, 3], [1, [], 3]])
def test_what_is_no_number_is_told(labels: Any) -> None:
    y = np.empty(3, dtype=object)
    y[:] = labels
    with pytest.raises(ValueError, match=r"y must hold real numbers; got .*larger is better"):
        LinearRankSVM().fit(X, y)
    with pytest.raises(ValueError, match="y must hold real numbers"):
        evaluate(y, [1, 2, 3])


def test_exact_vectors() -> None:
    small = exact_vector("y", [Fraction(1, 2), 3, Decimal("0.25"), True])
    assert is_exact(small)
    assert as_levels(small).tolist() == [0.5, 3.0, 0.25, 1.0]
    near = exact_vector("y", INTS)
    assert not is_exact(near)
    assert as_levels(near).tolist() == [0.0, 1.0, 2.0]
    assert as_float("y", near).tolist() == [float(BIG)] * 3
    assert merges_values(near)
    assert not merges_values(exact_vector("y", [Decimal("0.1"), 2**53 + 1]))
    with pytest.raises(ValueError, match="too large for float64"):
        as_float("y", exact_vector("y", [Decimal("1E400")]))


# --- Files ---------------------------------------------------------------------------------------


def test_a_file_with_labels_that_no_double_is() -> None:
    with pytest.raises(LetorError, match="label '9007199254740993' is too large"):
        load_letor(io.StringIO("9007199254740992 1:1\n9007199254740993 1:1\n"))
    text = "1152921504606846976 qid:1 1:1\n1152921504606846977 qid:1 1:2\n"
    with pytest.raises(
        LetorError, match=r"line 2, column 1: label '1152921504606846977' is too large.*2\^53"
    ):
        load_letor(io.StringIO(text))
    held = ["1152921504606846976", "-9007199254740994", "1e22", "36893488147419103232", "0.1"]
    data = load_letor(io.StringIO("".join(f"{label} 1:1\n" for label in held)))
    assert data.y.tolist() == [float(label) for label in held]


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_table_with_labels_that_no_double_is(suffix: str, tmp_path, run_cli) -> None:
    def written(labels: list[Any]) -> str:
        table = pa.table({"label": labels, "qid": ["1"] * 3, "a": X[:, 0], "b": X[:, 1]})
        path = tmp_path / f"set{suffix}"
        if suffix == ".csv":
            path.write_text(table.to_pandas().to_csv(index=False))
        else:
            pq.write_table(table, path)
        return str(path)

    code, err = run_cli("train", written(INTS), "-o", str(tmp_path / "m"))
    assert code == 3
    assert "float64 cannot store every integer above 2^53" in err
    assert "Subtract an offset" in err
    code, _ = run_cli("train", written([0, BIG, 2 * BIG]), "-o", str(tmp_path / "m"))
    assert code == 0


def test_labels_that_a_file_cannot_hold() -> None:
    for labels in (INTS, pd.Series(INTS, dtype="Int64"), DECIMALS, [Fraction(1, 3)] * 3):
        with pytest.raises(
            ValueError, match=r"y holds the number .* which float64 cannot represent"
        ):
            save_letor(io.BytesIO(), X, labels)
    file = io.BytesIO()
    save_letor(file, X, [Fraction(1, 2), Decimal(3), 2])
    assert load_letor(io.BytesIO(file.getvalue())).y.tolist() == [0.5, 3.0, 2.0]


@pytest.fixture
def run_cli(capsys):
    pytest.importorskip("typer")
    from ranksvm.cli import main

    def run(*argv: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as end:
            main(argv)
        return int(end.value.code or 0), capsys.readouterr().err

    return run


# --- Masks ---------------------------------------------------------------------------------------


def masked(values: Any, *places: Any) -> Any:
    array = np.ma.array(values)
    for place in places:
        array[place] = np.ma.masked
    return array


Y = [0, 1, 2]
ONES = np.ones(3)


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("X", lambda: LinearRankSVM().fit(masked(X, (1, 0)), Y)),
        ("X", lambda: KernelRankSVM().fit(masked(X, (1, 0)), Y)),
        ("X", lambda: LinearRankSVM().fit(list(masked(X, (1, 0))), Y)),
        ("X", lambda: LinearRankSVM().fit(X, Y).predict(masked(X, (1, 0)))),
        ("X", lambda: LinearRankSVM().fit(X, Y).rank(masked(X, (1, 0)))),
        ("X", lambda: LinearRankSVM().fit(X, Y).explain(masked(X, (1, 0)), 0, 2)),
        ("X", lambda: Nystroem(n_components=2).fit(masked(X, (1, 0)))),
        ("X", lambda: save_letor(io.BytesIO(), masked(X, (1, 0)), Y)),
        ("y", lambda: LinearRankSVM().fit(X, masked(Y, 1))),
        ("y", lambda: LinearRankSVM().fit(X, Y).score(X, masked(Y, 1))),
        ("y", lambda: LinearRankSVMCV(cv=2).fit(X, masked(Y, 1))),
        ("y", lambda: FactorizedRankSVM().fit(X, Y, eval_set=(X, masked(Y, 1)))),
        ("y", lambda: evaluate(masked(Y, 1), Y)),
        ("scores", lambda: evaluate(Y, masked(Y, 1))),
        ("y", lambda: save_letor(io.BytesIO(), X, masked(Y, 1))),
        ("qid", lambda: save_letor(io.BytesIO(), X, Y, masked(Y, 1))),
        ("qid", lambda: LinearRankSVM().fit(X, Y, masked(Y, 1))),
        ("sample_weight", lambda: LinearRankSVM().fit(X, Y, sample_weight=masked(ONES, 1))),
        ("query_weight", lambda: LinearRankSVM().fit(X, Y, Y, query_weight=masked(ONES, 1))),
        ("weight", lambda: LinearRankSVM().fit_pairs(X, Y, [1, 2, 0], weight=masked(ONES, 1))),
        ("better", lambda: LinearRankSVM().fit_pairs(X, masked(Y, 1), [1, 2, 0])),
        ("sample_weight", lambda: pairwise_accuracy(Y, Y, sample_weight=masked(ONES, 1))),
        (
            "position",
            lambda: clicks_to_pairs(
                {"query": Y, "position": masked([1, 2, 3], 1), "document": Y, "clicked": [0, 0, 1]}
            ),
        ),
    ],
)
def test_masked_values_are_missing(name: str, call: Any) -> None:
    with pytest.raises(ValueError, match=f"^{name} has 1 masked value.*filled"):
        call()


def test_a_mask_that_hides_nothing_is_fine() -> None:
    plain = LinearRankSVM().fit(X, Y, sample_weight=ONES)
    model = LinearRankSVM().fit(
        np.ma.array(X), np.ma.array(Y, mask=False), np.ma.array([7, 7, 7]),
        sample_weight=np.ma.array(ONES, mask=[False] * 3),
    )  # fmt: skip
    np.testing.assert_array_equal(model.coef_, plain.coef_)
    with pytest.raises(ValueError, match="X has 4 masked values, the first in row 1"):
        model.predict(masked(X, 1, 2))
