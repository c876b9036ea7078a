"""Files of pairs against a slow reader: by row number, and by document id."""

from __future__ import annotations

import io
import re
from random import Random
from typing import Any

from fuzz.cases import OTHER, damaged, repeat
from ranksvm.data import FileFormatError, read_pairs, write_pairs

Pair = tuple[int, int, float, bool]  # rows, weight, whether it is a tie

NUMBER = re.compile(rb"\+?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
ZERO = re.compile(rb"-(?:0+\.?0*|\.0+)(?:[eE][+-]?[0-9]+)?")  # -0 is not negative
ALPHABET = b"0123456789 \t\r\n,,##.eE-+_=qid:ab\x00\xff"


class Refused(Exception):
    """The text is bad, from this line on; None: it holds no pair."""


def lines_of(text: bytes) -> list[bytes]:
    return text.removeprefix(b"\xef\xbb\xbf").split(b"\n")


def fields_of(line: bytes) -> list[bytes]:
    return re.findall(rb"[^ \t\r\x0b\x0c]+", line)


def parse_weight(field: bytes) -> float:
    if not (NUMBER.fullmatch(field) or ZERO.fullmatch(field)) or float(field) == float("inf"):
        raise ValueError
    return float(field)


def parse_rows(fields: list[bytes], n_items: int | None, zero_based: bool) -> tuple[int, int]:
    rows = []
    for field in fields:
        if not re.fullmatch(rb"[0-9]{1,19}", field):
            raise ValueError
        row = int(field) - (not zero_based)
        if not 0 <= row < (2**53 if n_items is None else n_items):
            raise ValueError
        rows.append(row)
    if rows[0] == rows[1]:
        raise ValueError
    return rows[0], rows[1]


def parse_numbers(text: bytes, n_items: int | None, zero_based: bool) -> list[Pair]:
    found: list[Pair] = []
    for number, line in enumerate(lines_of(text), 1):
        try:
            if b"\0" in line:
                raise ValueError
            line = re.split(rb"(?:(?<=^)|(?<=[ \t\r\x0b\x0c,]))#", line, maxsplit=1)[0]
            fields = []
            if b"," in line:
                for part in line.split(b","):
                    words = fields_of(part)
                    if not words:
                        raise ValueError
                    fields += words
            else:
                fields = fields_of(line)
            if not fields:
                continue
            tie = len(fields) > 2 and fields[1] == b"="
            if tie:
                fields.pop(1)
            if len(fields) not in (2, 3) or fields[0].startswith(b"qid:"):
                raise ValueError
            weight = parse_weight(fields[2]) if len(fields) == 3 else 1.0
            found.append((*parse_rows(fields[:2], n_items, zero_based), weight, tie))
        except ValueError:
            raise Refused(number) from None
    if not found:
        raise Refused(None)
    return found


def parse_documents(text: bytes, docids: list[str | None], qid: list[int] | None) -> list[Pair]:
    found: list[Pair] = []
    for number, line in enumerate(lines_of(text), 1):
        try:
            if b"\0" in line:
                raise ValueError
            fields = fields_of(line)
            stop = next((k for k, field in enumerate(fields) if field.startswith(b"#")), None)
            fields = fields[:stop]
            if not fields:
                continue
            query = fields.pop(0)[4:] if fields[0].startswith(b"qid:") else None
            tie = len(fields) > 2 and fields[1] == b"="
            if tie:
                fields.pop(1)
            if len(fields) not in (2, 3):
                raise ValueError
            weight = parse_weight(fields[2]) if len(fields) == 3 else 1.0
            found.append((*resolve(fields[0], fields[1], query, docids, qid), weight, tie))
        except ValueError:
            raise Refused(number) from None
    if not found:
        raise Refused(None)
    return found


def resolve(
    better: bytes,
    worse: bytes,
    query: bytes | None,
    docids: list[str | None],
    qid: list[int] | None,
) -> tuple[int, int]:
    """Rows of two documents, by trying all queries."""
    if better == worse:
        raise ValueError
    rows = [
        [row for row, name in enumerate(docids) if name is not None and name.encode() == wanted]
        for wanted in (better, worse)
    ]
    if not rows[0] or not rows[1] or (query is not None and qid is None):
        raise ValueError
    if query is None and len(rows[0]) == len(rows[1]) == 1:
        return rows[0][0], rows[1][0]
    queries = ["" if qid is None else str(qid[row]) for row in range(len(docids))]
    shared = {queries[row] for row in rows[0]} & {queries[row] for row in rows[1]}
    if query is not None:
        shared &= {query.decode("utf-8", "replace")}
    if len(shared) != 1:
        raise ValueError
    inside = [[row for row in side if queries[row] in shared] for side in rows]
    if len(inside[0]) != 1 or len(inside[1]) != 1:
        raise ValueError
    return inside[0][0], inside[1][0]


def random_text(draw: Random, names: list[str], ids: list[str]) -> bytes:
    if draw.random() < 0.1:
        return bytes(draw.choices(ALPHABET, k=draw.randrange(60)))
    odd = draw.choice((0.0, 0.0, 0.1))
    lines = []
    for _ in range(draw.randrange(1, 12)):
        fields = [draw.choice(names), draw.choice(names)]
        if draw.random() < 0.2:
            fields.insert(1, "=")
        if ids and draw.random() < 0.4:
            fields.insert(0, "qid:" + draw.choice(ids))
        if draw.random() < 0.3:
            fields.append(draw.choice(("1", "0.5", "2e-3", "0", ".5", "7.", "1e300")))
        if draw.random() < odd:
            fields.append(
                draw.choice(("-1", "nan", "inf", "1_0", "-0", "-0.0e3", "1e999", "x", "9" * 20))
            )
        if draw.random() < odd:
            fields.pop(draw.randrange(len(fields)))
        if draw.random() < 0.1:
            fields.append("# note")
        separator = draw.choice((" ", "\t", "  ", ",", ", ") if not ids else (" ", "\t", "  "))
        lines.append(separator.join(fields))
    if draw.random() < 0.3:
        lines.insert(draw.randrange(len(lines)), draw.choice(("", "  ", "# c", "#")))
    text = draw.choice(("\n", "\r\n")).join(lines).encode() + draw.choice((b"", b"\n"))
    return damaged(draw, text, ALPHABET) if draw.random() < 0.3 else text


def case(draw: Random) -> None:
    """Check one text, by number or by document."""
    n_items = draw.choice((None, 5, 12))
    by_document = draw.random() < 0.5
    options: dict[str, Any] = {}
    if by_document:
        n_items = n_items or 8
        docids = [
            draw.choice(("a", "b", "c", "d", "e", "x#y", "1,2", None)) for _ in range(n_items)
        ]
        qid = draw.choice((None, sorted(draw.choices(range(3), k=n_items))))
        options = {"docids": docids, "qid": qid}
        names = ["a", "b", "c", "d", "e", "x#y", "1,2"]
        text = random_text(draw, names, ["0", "1", "2", "3"])
    else:
        options = {"n_items": n_items, "zero_based": draw.random() < 0.3}
        text = random_text(draw, [str(row) for row in range(13)], [])
    if OTHER.match(text):
        return
    try:
        if by_document:
            wanted = parse_documents(text, docids, qid)
        else:
            wanted = parse_numbers(text, n_items, bool(options["zero_based"]))
    except Refused as refused:
        (line,) = refused.args
        try:
            found: Any = read_pairs(io.BytesIO(text), **options)
        except FileFormatError as error:
            if error.line == line:
                return
            found = error
        raise AssertionError(f"{text!r}, {options}: line {line} is bad; got {found}") from None
    found = read_pairs(io.BytesIO(text), **options)
    check_same(found, wanted, f"{text!r}, {options}")
    written = io.BytesIO()
    write_pairs(written, found)
    check_same(read_pairs(io.BytesIO(written.getvalue())), wanted, f"{text!r} written")


def check_same(found: Any, wanted: list[Pair], what: str) -> None:
    n = len(found)
    weights = [1.0] * n if found.weight is None else found.weight.tolist()
    ties = [False] * n if found.tie is None else found.tie.tolist()
    got = list(zip(found.better.tolist(), found.worse.tolist(), weights, ties, strict=True))
    assert got == wanted, f"{what}: expected {wanted}, got {got}"


def run(seconds: float, seed: int) -> int:
    """Check texts for so long; return how many."""
    return repeat("pairs", case, seconds, seed)
