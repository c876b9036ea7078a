"""The reader of LETOR text against the slow one of ``fuzz.text``, and numbers against Python's."""

from __future__ import annotations

import io
import sys
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ranksvm.data import load_letor

ROOT = Path(__file__).resolve().parents[2]
if not (ROOT / "fuzz").is_dir():
    pytest.skip("the slow reader comes with the sources", allow_module_level=True)
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from fuzz.cases import OTHER, damaged  # noqa: E402
from fuzz.text import ALPHABET, CUTS, GOOD, Options, bits, check  # noqa: E402

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


def test_damaged_text():
    draw = Random(0)
    good = 0
    for _ in range(1500):
        options = Options(
            missing=draw.choice(["nan", "zero"]),
            duplicates=draw.choice(["error", "last", "sum"]),
            qid=draw.choice(["auto", "ignore"]),
        )
        good += check(damaged(draw, GOOD, ALPHABET), options, CUTS[:4])
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
