"""The reader of LETOR text against a simple reference reader.

Either both refuse a text, at the same line, or both read the same numbers, bit for bit, whatever
the number of threads and wherever the text is cut.
"""

from __future__ import annotations

import io
import re
import struct
import warnings
from itertools import pairwise
from random import Random
from typing import NamedTuple
from unittest.mock import patch

import numpy as np

from fuzz.cases import OTHER, damaged, repeat
from ranksvm.data import LetorError, RankingData, load_letor, svmlight

NUMBER = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
MISSING = re.compile(rb"null|na|[+-]?nan", re.IGNORECASE)
WHOLE = re.compile(rb"0|-?[1-9][0-9]*")


class Options(NamedTuple):
    zero_based: bool = False
    n_features: int | None = None
    missing: str = "error"
    unsorted: str = "sort"
    duplicates: str = "error"
    qid: str = "auto"


class Item(NamedTuple):
    label: float
    qid: bytes | None
    values: dict[int, float]
    comment: bytes | None


class Refused(Exception):
    def __init__(self, line: int | None) -> None:
        super().__init__(line)
        self.line = line


def parse_number(token: bytes) -> float:
    if not NUMBER.fullmatch(token) or abs(float(token)) == float("inf"):
        raise ValueError
    return float(token)


def parse_label(token: bytes) -> float:
    """Whole numbers are held exactly, or refused."""
    label = parse_number(token)
    if re.fullmatch(rb"[+-]?[0-9]+", token) and int(label) != int(token):
        raise ValueError
    return label


def parse_value(token: bytes, missing: str) -> float:
    if MISSING.fullmatch(token) and missing != "error":
        return float("nan") if missing == "nan" else 0.0
    return parse_number(token)


def parse_id(token: bytes) -> bytes:
    if not re.fullmatch(rb"[^\x00-\x1f\x7f:]{1,1024}", token):
        raise ValueError
    token.decode("utf-8")  # UnicodeDecodeError is a ValueError
    return token


def parse_features(tokens: list[bytes], options: Options) -> dict[int, float]:
    values: dict[int, float] = {}
    last = -1
    for token in tokens:
        index, colon, value = token.partition(b":")
        if not colon or not re.fullmatch(rb"[0-9]+", index):
            raise ValueError
        column = int(index) - (not options.zero_based)
        if not 0 <= column < 2**31 - 1:
            raise ValueError
        if options.n_features is not None and column >= options.n_features:
            raise ValueError
        number = parse_value(value, options.missing)
        if options.unsorted == "error" and column < last:
            raise ValueError
        last = column
        if column in values:
            if options.duplicates == "error":
                raise ValueError
            number = number + values[column] if options.duplicates == "sum" else number
        if abs(number) == float("inf"):
            raise ValueError
        values[column] = number
    return values


def parse(text: bytes, options: Options) -> list[Item]:
    items: list[Item] = []
    for number, line in enumerate(text.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        line = line.removesuffix(b"\r")
        before, hash_sign, comment = line.partition(b"#")
        tokens = re.split(rb"[ \t]+", before.strip(b" \t"))
        try:
            if b"\0" in line:
                raise ValueError
            if tokens == [b""]:
                continue
            label = parse_label(tokens.pop(0))
            has_id = bool(tokens) and tokens[0].startswith(b"qid:")
            if options.qid != "ignore":
                if options.qid == "required" and not has_id:
                    raise ValueError
                if items and has_id != (items[0].qid is not None):
                    raise ValueError
            qid = tokens.pop(0)[4:] if has_id else None
            if options.qid == "ignore":
                qid = None
            values = parse_features(tokens, options) if qid is None or parse_id(qid) else {}
            items.append(Item(label, qid, values, comment if hash_sign else None))
        except ValueError:
            raise Refused(number) from None
    if not items:
        raise Refused(None)
    return items


def expected(text: bytes, options: Options) -> tuple[int | None, list[Item] | None]:
    """Return the first bad line (None: there is no item at all) or the items."""
    try:
        return None, parse(text, options)
    except Refused as refused:
        return refused.line, None


def bits(value: float) -> bytes:
    return b"nan" if value != value else struct.pack("d", value)


def check_same(data: RankingData, items: list[Item], options: Options) -> None:
    n_features = max((1 + max(item.values, default=-1) for item in items), default=0)
    if options.n_features is not None:
        n_features = options.n_features
    assert data.n_features == n_features == data.X.shape[1]
    assert [bits(label) for label in data.y] == [bits(item.label) for item in items]
    ids = [item.qid for item in items]
    if ids[0] is None:
        assert data.qid is None
    elif all(WHOLE.fullmatch(i) and -(2**63) <= int(i) < 2**63 for i in ids):
        assert data.qid.dtype == np.int64
        assert data.qid.tolist() == [int(i) for i in ids]
    else:
        assert data.qid.tolist() == [i.decode() for i in ids]
    comments = [
        None if item.comment is None else item.comment.decode("utf-8", "surrogateescape")
        for item in items
    ]
    assert (data.comments is None) == (set(comments) == {None})
    assert data.comments is None or list(data.comments) == comments
    if isinstance(data.X, np.ndarray):
        rows = [{c: v for c, v in enumerate(row) if bits(v) != bits(0.0)} for row in data.X]
        kept = [{c: v for c, v in i.values.items() if bits(v) != bits(0.0)} for i in items]
    else:
        starts = data.X.indptr
        assert data.X.indices.dtype == np.int32
        rows = []
        for begin, end in pairwise(starts):
            columns = data.X.indices[begin:end].tolist()
            assert columns == sorted(columns)
            rows.append(dict(zip(columns, data.X.data[begin:end], strict=True)))
        kept = [{c: v for c, v in i.values.items() if v != 0.0} for i in items]
    assert [{c: bits(v) for c, v in row.items()} for row in rows] == [
        {c: bits(v) for c, v in row.items()} for row in kept
    ]


def load(text: bytes, options: Options, dense: bool, cut: tuple[int, int, int]) -> object:
    """Return the data, or the error that was raised."""
    threads, block_bytes, piece_bytes = cut
    sizes = patch.multiple(svmlight, block_size=lambda _: block_bytes, PIECE_BYTES=piece_bytes)
    with sizes, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a last line that may have been cut off
        try:
            return load_letor(
                io.BytesIO(text),
                **options._asdict(),
                dense=dense,
                n_jobs=threads,
            )
        except LetorError as error:
            return error


def check(text: bytes, options: Options, cuts: tuple[tuple[int, int, int], ...]) -> bool:
    """Compare for all (threads, block size, piece size); return whether the text is good."""
    bad_line, items = expected(text, options)
    if items is None:
        errors = [load(text, options, False, cut) for cut in cuts]
        for error in errors:
            assert isinstance(error, LetorError), f"{text!r}: line {bad_line} is bad"
            assert error.line == bad_line, f"{text!r}: {error}"
        assert len(set(map(str, errors))) == 1
        return False
    small = all(max(item.values, default=0) < 99 for item in items)
    for number, cut in enumerate(cuts):
        data = load(text, options, small and number % 2 == 0, cut)
        assert isinstance(data, RankingData), f"{text!r}: {data}"
        check_same(data, items, options)
    return True


CUTS = ((1, 1 << 22, 1 << 18), (2, 64, 1), (5, 1000, 16), (1, 1, 1), (2, 37, 20))

# --- Text that is nearly right -------------------------------------------------------------------

GOOD = (
    b"2 qid:1 1:0.5 2:-1.25e-3 46:1 #docid = GX008-86-4444840 inc = 1 prob = 0.0866\r\n"
    b"# a comment\n"
    b"0 qid:1 1:0.333333 3:1e3\n"
    b"\n"
    b"1 qid:2\t2:NULL  7:0.1 # \xe9\n"
    b"0 qid:q7 1:-0.0 5:12345678901234567890 6:2.2250738585072011e-308\n"
)
ALPHABET = b"0123456789:+-.eE# \t\r\nqidNUL\x00\xff\xc3"
ODD_NUMBERS = (
    "0", "-0.0", "+1", "1.", ".5", "5e-324", "1e400", "1e-400", "00012", "1E5", "2147483648",
    "NULL", "nan", "-NaN", "NA", "inf", "", "1_0", "0x1", "1e", "--1", "1,5", "1e23",
    "9007199254740993",
)  # fmt: skip
IDS = ("1", "2", "-7", "007", "q1", "é", "9223372036854775808", "a:b", "", "x" * 1025)
ENDS = ("", "", "", " ", "#", " # docid = 3", "#\r", "#a#b")


def random_number(draw: Random) -> str:
    match draw.randrange(5):
        case 0:
            return repr(struct.unpack("d", draw.randbytes(8))[0])
        case 1:
            return f"{draw.random():.6f}"
        case 2:
            return str(draw.randrange(-3, 10 ** draw.randrange(1, 25)))
        case 3:
            digits = "".join(draw.choices("0123456789", k=draw.randrange(1, 45)))
            point = draw.randrange(len(digits) + 1)
            return f"{digits[:point]}.{digits[point:]}e{draw.randrange(-340, 320)}"
        case _:
            return draw.choice(ODD_NUMBERS)


def random_line(draw: Random, odd: float) -> str:
    def number() -> str:
        return random_number(draw) if draw.random() < odd else f"{draw.uniform(-9, 9):.4g}"

    tokens = [number()]
    if draw.random() > 0.05 * odd:
        tokens.append(
            "qid:" + (draw.choice(IDS) if draw.random() < odd else str(draw.randrange(9)))
        )
    most = 10 ** draw.randrange(1, 4 if draw.random() > odd else 11)
    indices = [
        draw.randrange(draw.random() > 0.1 * odd, most + 1) for _ in range(draw.randrange(6))
    ]
    if draw.random() > 0.2 * odd:
        indices = sorted(set(indices))
    tokens += [f"{index}:{number()}" for index in indices]
    return draw.choice((" ", " ", "\t", "  ")).join(tokens) + draw.choice(ENDS)


def random_text(draw: Random) -> bytes:
    match draw.randrange(8):
        case 0:
            return damaged(draw, GOOD, ALPHABET)
        case 1:
            return bytes(draw.choices(ALPHABET, k=draw.randrange(80)))
        case 2:
            text = draw.randbytes(draw.randrange(60))
            return b"" if OTHER.match(text) else text
    odd = draw.choice((0.0, 0.02, 0.3))
    lines = [random_line(draw, odd) for _ in range(draw.randrange(1, 30))]
    if draw.random() < 0.3:
        lines.insert(draw.randrange(len(lines)), draw.choice(("", "  ", "# c")))
    end = draw.choice(("\n", "\n", "\r\n", "\n\n"))
    text = end.join(lines).encode() + draw.choice((b"", b"\n", b"\r\n"))
    return damaged(draw, text, ALPHABET) if draw.random() < 0.2 else text


def random_options(draw: Random) -> Options:
    if draw.random() < 0.5:
        return Options(missing=draw.choice(("nan", "zero")))
    return Options(
        zero_based=draw.random() < 0.5,
        n_features=draw.choice((None, None, 0, 4, 100)),
        missing=draw.choice(("error", "nan", "zero")),
        unsorted=draw.choice(("sort", "error")),
        duplicates=draw.choice(("error", "last", "sum")),
        qid=draw.choice(("auto", "required", "ignore")),
    )


def case(draw: Random) -> bool:
    """Check one text; return whether it is good."""
    cut = (draw.choice((1, 2, 5)), draw.randrange(1, 200), draw.randrange(1, 60))
    return check(random_text(draw), random_options(draw), (CUTS[0], cut))


def run(seconds: float, seed: int) -> int:
    """Check texts for so long; return how many."""
    return repeat("letor", case, seconds, seed)
