"""The parser against a slow one that is easy to believe, on good, damaged and random text.

Either both refuse the text, at the same line, or both read the same numbers, bit for bit, whatever
the number of threads and wherever the text is cut.
"""

from __future__ import annotations

import io
import re
import struct
import warnings
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ranksvm.data import LetorError, RankingData, load_letor

NUMBER = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
MISSING = re.compile(rb"null|na|[+-]?nan", re.IGNORECASE)
WHOLE = re.compile(rb"0|-?[1-9][0-9]*")
# How other kinds of files start; those are refused for another reason.
OTHER = re.compile(
    rb"\xff\xfe|\xfe\xff|\x1f[\x8b\x9d]|PAR1|PK|7z|Rar!|%PDF|BZh|ARROW1|SQLite|[\x04\x28\x7f\x89\x93\xfd]"
)


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


def parse_value(token: bytes, missing: str) -> float:
    if MISSING.fullmatch(token) and missing != "error":
        return float("nan") if missing == "nan" else 0.0
    return parse_number(token)


def parse_label(token: bytes) -> float:
    """Whole numbers are held exactly, or refused."""
    label = parse_number(token)
    if re.fullmatch(rb"[+-]?[0-9]+", token) and int(label) != int(token):
        raise ValueError
    return label


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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a last line that may have been cut off
        try:
            return load_letor(
                io.BytesIO(text),
                **options._asdict(),
                dense=dense,
                n_jobs=threads,
                _block_bytes=block_bytes,
                _piece_bytes=piece_bytes,
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

OPTIONS = st.builds(
    Options,
    zero_based=st.booleans(),
    n_features=st.sampled_from([None, None, 0, 4, 100]),
    missing=st.sampled_from(["error", "nan", "zero"]),
    unsorted=st.sampled_from(["sort", "error"]),
    duplicates=st.sampled_from(["error", "last", "sum"]),
    qid=st.sampled_from(["auto", "required", "ignore"]),
)
REALS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.floats(0, 1).map("{:.6f}".format),
    st.integers(-3, 10**20).map(str),
    st.sampled_from(["0", "-0.0", "+1", "1.", ".5", "5e-324", "1e400", "1e-400", "00012", "1E5"]),
    st.sampled_from(["NULL", "nan", "-NaN", "NA", "inf", "", "1_0", "0x1", "1e", "--1", "1,5"]),
    st.from_regex(r"\A[+-]?[0-9]{0,25}\.?[0-9]{0,25}([eE][+-]?[0-9]{1,3})?\Z"),
)
INDICES = st.one_of(st.integers(0, 6), st.integers(0, 2**33)).map(str)
BLANKS = st.sampled_from([" ", " ", " ", "\t", "  ", ""])


@st.composite
def lines(draw: st.DrawFn) -> str:
    tokens = [draw(REALS)]
    if draw(st.integers(0, 9)):
        ids = st.sampled_from(["1", "2", "-7", "007", "q1", "é", "9223372036854775808", "a:b", ""])
        tokens.append("qid:" + draw(ids))
    indices = draw(st.lists(INDICES, max_size=5))
    if draw(st.integers(0, 3)):
        indices.sort(key=int)
    tokens += [f"{index}:{draw(REALS)}" for index in indices]
    text = "".join(draw(BLANKS) + token for token in tokens)
    return text + draw(st.sampled_from(["", "", " ", "#", " # docid = 3", "#\r", "#a#b"]))


TEXTS = st.builds(
    lambda parts, end, last: end.join(parts).encode() + last.encode(),
    st.lists(st.one_of(lines(), st.sampled_from(["", "  ", "# c", "1 1:1", "1 qid:1 1:2"]))),
    st.sampled_from(["\n", "\r\n", "\n\n"]),
    st.sampled_from(["", "\n", "\r\n"]),
)


@settings(max_examples=200)
@given(TEXTS, OPTIONS)
def test_text_that_is_nearly_right(text, options):
    check(text, options, CUTS)


@settings(max_examples=200)
@given(st.binary(max_size=60), OPTIONS)
def test_random_bytes(text, options):
    if not OTHER.match(text):
        check(text, options, CUTS)


@settings(max_examples=200)
@given(st.text("0123456789:+-.eE# \t\r\nqidNUaf\0é", max_size=60), OPTIONS)
def test_random_text(text, options):
    check(text.encode(), options, CUTS)


GOOD = (
    b"2 qid:1 1:0.5 2:-1.25e-3 46:1 #docid = GX008-86-4444840 inc = 1 prob = 0.0866\r\n"
    b"# a comment\n"
    b"0 qid:1 1:0.333333 3:1e3\n"
    b"\n"
    b"1 qid:2\t2:NULL  7:0.1 # \xe9\n"
    b"0 qid:q7 1:-0.0 5:12345678901234567890 6:2.2250738585072011e-308\n"
)
BYTES = np.frombuffer(b"0123456789:+-.eE# \t\r\nqidNUL\x00\xff\xc3", dtype=np.uint8)


def damaged(rng: np.random.Generator) -> bytes:
    """The good text with some bytes changed, dropped, inserted, or a stretch repeated."""
    text = bytearray(GOOD)
    for _ in range(rng.integers(1, 4)):
        at = int(rng.integers(len(text)))
        match rng.integers(4):
            case 0:
                text[at] = rng.choice(BYTES)
            case 1:
                del text[at : at + int(rng.integers(1, 4))]
            case 2:
                text.insert(at, rng.choice(BYTES))
            case _:
                text[at:at] = text[int(rng.integers(len(text))) :][: int(rng.integers(1, 40))]
    return bytes(text)


def test_damaged_text():
    rng = np.random.default_rng(0)
    good = 0
    for _ in range(1500):
        options = Options(
            missing=str(rng.choice(["nan", "zero"])),
            duplicates=str(rng.choice(["error", "last", "sum"])),
            qid=str(rng.choice(["auto", "ignore"])),
        )
        good += check(damaged(rng), options, CUTS[:4])
    assert 300 < good < 1300  # both outcomes are tried


@pytest.mark.parametrize("missing", ["error", "nan"])
def test_every_prefix(missing):
    for end in range(len(GOOD) + 1):
        check(GOOD[:end], Options(missing=missing), CUTS)


def test_numbers_are_those_of_python():
    """Near the borders of the fast path, halfway cases, and numbers of any length."""
    rng = np.random.default_rng(1)
    texts = [repr(float(v)) for v in rng.integers(0, 2**63, 2000).view(np.float64) if v == v]
    for digits in (1, 5, 14, 15, 16, 17, 18, 19, 20, 40, 800):
        for _ in range(60):
            number = "".join(map(str, rng.integers(0, 10, digits)))
            point = int(rng.integers(0, digits + 1))
            texts.append(f"{number[:point]}.{number[point:]}e{rng.integers(-30, 31)}")
    for exponent in range(-345, 312):
        texts += [f"1e{exponent}", f"9007199254740993e{exponent}", f"-4.5e{exponent}"]
    for power in range(50, 70):  # halfway between two doubles, and a little beside it
        halfway = 2**power + 2 ** (power - 53) if power >= 53 else 2**power
        texts += [str(halfway), f"{halfway}.0000000000000000000000001", f"{halfway - 1}.99999"]
    texts = [text for text in texts if abs(float(text)) != float("inf")]
    # Whole numbers that no double is are refused as labels, see test_exact_labels.py.
    texts = [text for text in texts if not text.isdigit() or int(float(text)) == int(text)]
    data = load_letor(io.StringIO("".join(f"{t} 1:{t}\n" for t in texts)), dense=True)
    expected = [bits(float(text)) for text in texts]
    assert [bits(value) for value in data.y] == expected
    assert [bits(value) for value in data.X[:, 0]] == expected


def nearest_float32(text: str) -> np.float32:
    """Return the nearest float32, of two equally near the one with even bits, exactly."""
    exact = Fraction(text)
    middle = np.float32(float(text))
    below, above = (np.nextafter(middle, np.float32(to)) for to in (-np.inf, np.inf))
    return min(
        (below, middle, above),
        key=lambda f: (abs(Fraction(float(f)) - exact), int(f.view(np.uint32)) % 2),
    )


def test_float32_is_the_nearest():
    rng = np.random.default_rng(2)
    texts = []
    for _ in range(1000):
        number = rng.standard_normal() * 10.0 ** rng.integers(-30, 30)
        texts.append(f"{number:.{rng.integers(0, 25)}e}")
        # Halfway between two floats, exactly or with one more digit.
        value = np.float32(number)
        above = np.nextafter(value, np.float32(np.inf))
        halfway = (Fraction(float(value)) + Fraction(float(above))) / 2
        texts.append(f"{float(halfway)!r}")
        texts.append(f"{Decimal(float(halfway)):f}{'0' * 5}1".replace("-", ""))
    texts = [text for text in texts if "." in text]
    data = load_letor(
        io.StringIO("".join(f"1 1:{text}\n" for text in texts)), dtype=np.float32, dense=True
    )
    expected_values = [nearest_float32(text) for text in texts]
    assert data.X[:, 0].tobytes() == np.array(expected_values, dtype=np.float32).tobytes()
