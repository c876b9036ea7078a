"""CSV and TSV files as the commands read them: what is in them comes out, or an error does.

A table is drawn, written with Python's module csv, damaged perhaps, compressed perhaps, and read.
What module csv reads back from the damaged text is the truth, wherever the commands accept it.
"""

from __future__ import annotations

import bz2
import contextlib
import csv
import gzip
import io
import lzma
import math
import struct
from random import Random

import numpy as np

from fuzz.cases import OTHER, damaged, repeat
from ranksvm.cli.inputs import read_data
from ranksvm.cli.options import DataOptions, Format, Missing
from ranksvm.cli.output import UsageProblem
from ranksvm.data.ranking_data import RankingData

ALPHABET = b'0123456789,"\t \r\n.eE-+ax\x00\xff'
COMPRESS = (bytes, gzip.compress, bz2.compress, lzma.compress)


def random_table(draw: Random) -> list[list[str]]:
    names = ["label", "qid", *(["docid"] if draw.random() < 0.5 else [])]
    n_special = len(names)
    names += [f"x{j}" for j in range(draw.randrange(4))]
    rows = [names]
    ids = draw.choice((("1", "2"), ("007", "7"), ("a", "b c"), ("x,y", 'q"')))
    for row in range(draw.randrange(1, 8)):
        values = [str(draw.randrange(4)), draw.choice(ids), f"d{row}"][:n_special]
        for _ in names[n_special:]:
            value = struct.unpack("d", draw.randbytes(8))[0]
            values.append(repr(value) if math.isfinite(value) else f"{draw.gauss(0, 1):.3f}")
        rows.append(values)
    return rows


def read(content: bytes, form: Format, missing: Missing) -> RankingData | None:
    """Read a table from memory; None if it is refused."""
    options = DataOptions(format=form, missing=missing, ignore_qid=False)
    try:
        with contextlib.redirect_stderr(io.StringIO()):  # notes about query ids
            return read_data([io.BytesIO(content)], options, comments=True)
    except (ValueError, UsageProblem):
        return None


def as_number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def check_same(items: RankingData, table: list[list[str]], what: str) -> None:
    columns = {name: [row[j] for row in table[1:]] for j, name in enumerate(table[0])}
    assert items.y is not None
    assert items.y.tolist() == [as_number(value) for value in columns["label"]], what
    if "qid" in columns:
        assert items.qid is not None
        assert list(map(str, items.qid.tolist())) == columns["qid"], what
    if "docid" in columns:
        documents = items.docids or []
        assert [one or "" for one in documents] == columns["docid"], what
    for j, name in enumerate(items.feature_names or ()):
        wanted = np.array([as_number(value) for value in columns[name]])
        got = items.X[:, j]
        assert np.array_equal(got, wanted, equal_nan=True) or set(columns[name]) <= {
            "true",
            "false",
        }, f"{what}: column {name} is {got}, expected {wanted}"


def case(draw: Random) -> None:
    """Check one table."""
    form = draw.choice(("csv", "tsv"))
    separator = "," if form == "csv" else "\t"
    table = random_table(draw)
    out = io.StringIO()
    quoting = draw.choice((csv.QUOTE_MINIMAL, csv.QUOTE_ALL))
    end = draw.choice(("\n", "\r\n"))
    csv.writer(out, delimiter=separator, quoting=quoting, lineterminator=end).writerows(table)
    text = out.getvalue().encode()
    if draw.random() < 0.2:
        text = text.rstrip(b"\r\n")
    good = draw.random() < 0.5
    if not good:
        text = damaged(draw, text, ALPHABET)
        if OTHER.match(text):
            return
    items = read(draw.choice(COMPRESS)(text), form, draw.choice(("error", "nan")))
    what = f"{text!r} as {form}"
    if good:
        assert items is not None, f"{what} is refused"
        check_same(items, table, what)
    elif items is not None:
        assert b"\0" not in text, what
        assert items.y is not None
        assert np.isfinite(items.y).all(), what
        assert items.X.shape == (len(items.y), len(items.feature_names or ())), what
        parsed = [
            row
            for row in csv.reader(io.StringIO(text.decode(), newline=""), delimiter=separator)
            if row
        ]
        plain = b'"' not in text and all(len(row) == len(parsed[0]) for row in parsed)
        if plain and len(set(map(len, parsed))) == 1 and b"\r" not in text.replace(b"\r\n", b""):
            check_same(items, parsed, what)


def run(seconds: float, seed: int) -> int:
    """Check tables for so long; return how many."""
    return repeat("csv", case, seconds, seed)
