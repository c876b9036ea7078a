"""TREC's qrels and runs against a slow reader, their join, and runs that are written and read."""

from __future__ import annotations

import io
import math
import re
from random import Random
from typing import Any

import numpy as np

from fuzz.cases import OTHER, damaged, repeat
from fuzz.pairs import Refused, fields_of, lines_of
from ranksvm.data.trec import TrecError, read_qrels, read_run
from ranksvm.data.trec_join import join
from ranksvm.data.trec_writer import write_run

Line = tuple[str, str, float]  # query, document, relevance or score

NUMBER = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
GRADE = re.compile(rb"[+-]?[0-9]{1,18}")
WHOLE = re.compile(r"0|-?[1-9][0-9]*")
ALPHABET = b"0123456789 \t\r\n.eE-+_Qdt#\x00\xff\xc3\xa9"


def parse(text: bytes, kind: str) -> list[Line]:
    n_columns, at = {"qrels": (4, 3), "run": (6, 4)}[kind]
    found: list[Line] = []
    seen = set()
    for number, line in enumerate(lines_of(text), 1):
        fields = fields_of(line)
        try:
            if b"\0" in line:
                raise ValueError
            if not fields:
                continue
            if len(fields) != n_columns:
                raise ValueError
            query, document, value = fields[0].decode(), fields[2].decode(), fields[at]
            if (query, document) in seen:
                raise ValueError
            seen.add((query, document))
            if not (GRADE if kind == "qrels" else NUMBER).fullmatch(value):
                raise ValueError
            if not math.isfinite(float(value)) or (kind == "qrels" and abs(int(value)) > 2**53):
                raise ValueError
            found.append((query, document, int(value) if kind == "qrels" else float(value)))
        except ValueError:
            raise Refused(number) from None
    if not found:
        raise Refused(None)
    return found


def random_text(draw: Random, kind: str) -> bytes:
    if draw.random() < 0.1:
        return bytes(draw.choices(ALPHABET, k=draw.randrange(60)))
    odd = draw.choice((0.0, 0.0, 0.05))
    lines = []
    queries = draw.choice((["1", "2", "30"], ["q1", "007", "é"]))
    pool = [(query, f"d{k}") for query in queries for k in range(6)]
    chosen = draw.sample(pool, draw.randrange(1, 12))
    if draw.random() < odd:
        chosen.append(chosen[0])
    for query, document in chosen:
        value = draw.choice(("0", "1", "2", "-1", "+3"))
        if kind == "run":
            value = draw.choice(("1.5", "2", "-3e-2", ".5", "1.5", repr(draw.gauss(0, 1))))
        if draw.random() < odd:
            value = draw.choice(("x", "nan", "inf", "1_0", "1e999", "1.5", "9" * 19, ""))
        fields = [query, "0", document, value]
        if kind == "run":
            fields = [query, "Q0", document, str(len(lines) + 1), value, "tag"]
        lines.append(draw.choice((" ", "\t", "  ")).join(fields))
    text = draw.choice(("\n", "\r\n")).join(lines).encode() + draw.choice((b"", b"\n", b"\n\n"))
    return damaged(draw, text, ALPHABET) if draw.random() < 0.3 else text


def read_both(text: bytes, kind: str) -> tuple[Any, list[Line]] | None:
    """Return what the two readers found; None if both refuse the text."""
    read = read_qrels if kind == "qrels" else read_run
    try:
        wanted = parse(text, kind)
    except Refused as refused:
        (line,) = refused.args
        try:
            found: Any = read(io.BytesIO(text))
        except TrecError as error:
            if error.line == line:
                return None
            found = error
        raise AssertionError(f"{kind} {text!r}: line {line} is bad; got {found}") from None
    found = read(io.BytesIO(text))
    whole = all(WHOLE.fullmatch(query) and abs(int(query)) < 2**63 for query, _, _ in wanted)
    assert (found.qid.dtype == np.int64) == whole, f"{kind} {text!r}: ids are {found.qid.dtype}"
    got = list(
        zip(map(str, found.qid.tolist()), found.docid.tolist(), found[2].tolist(), strict=True)
    )
    assert got == wanted, f"{kind} {text!r}: expected {wanted}, got {got}"
    return found, wanted


def check_join(qrels: Any, run: Any, judged: list[Line], ranked: list[Line]) -> None:
    both = {query for query, _, _ in judged} & {query for query, _, _ in ranked}
    grades = {(query, document): grade for query, document, grade in judged}
    scores = {(query, document): score for query, document, score in ranked}
    names = {key for key in {*grades, *scores} if key[0] in both}
    try:
        joined = join(qrels, run)
    except ValueError:
        assert not both
        return
    rows = list(zip(map(str, joined.qid.tolist()), joined.docid.tolist(), strict=True))
    assert len(rows) == len(set(rows))
    assert set(rows) == names
    assert joined.y.tolist() == [max(0, grades.get(row, 0)) for row in rows]
    assert joined.scores.tolist() == [scores.get(row, -math.inf) for row in rows]
    for query in both:
        keys = [(scores[row], row[1]) for row in rows if row[0] == query and row in scores]
        assert keys == sorted(keys, reverse=True)


def case(draw: Random) -> None:
    """Check qrels, a run and the two together."""
    texts = {kind: random_text(draw, kind) for kind in ("qrels", "run")}
    if any(OTHER.match(text) for text in texts.values()):
        return
    found = {kind: read_both(text, kind) for kind, text in texts.items()}
    qrels, run = found["qrels"], found["run"]
    if run is not None:
        written = io.BytesIO()
        write_run(written, run[0].qid, run[0].docid, run[0].score, tag="t")
        again = parse(written.getvalue(), "run")
        assert sorted(again) == sorted(run[1]), f"{texts['run']!r} written: {again}"
    if qrels is not None and run is not None:
        check_join(qrels[0], run[0], qrels[1], run[1])


def run(seconds: float, seed: int) -> int:
    """Check files for so long; return how many."""
    return repeat("trec", case, seconds, seed)
