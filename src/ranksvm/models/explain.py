"""Why one item is ranked above another: the difference of two scores as a sum of contributions.

    linear     s_i - s_j = sum over features k of  w_k (x_ik - x_jk)
    kernel     s_i - s_j = sum over points m of    coef_m (k(x_i, z_m) - k(x_j, z_m))

The points of a kernel model are its support items, its landmarks or its random features; for the
latter, k is a cosine.  Both sums are exact; nothing is sampled or fitted.  A kernel mixes the
features of an item, so contributions of single features do not exist in a kernel model.

The bar chart of an explanation has one bar per contribution: to the right of the axis those that
favor i, to the left those that favor j.

    row 0 is above row 3: 1.7 against 0.2, difference 1.5

                                row 3 up │ row 0 up
    bm25      +1.2                       │█████████████████████
    length    -0.1                     ██│
    2 others  +0.4                       │███████
    sum       +1.5
"""

from __future__ import annotations

import math
import sys
import textwrap
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ranksvm._checks import check_integer, is_integer
from ranksvm._text import can_show, printable
from ranksvm._vectors import Array

SHOWN = 20  # number of parts that ``str`` shows
WIDTH = 80  # of a chart, in columns
NARROWEST = 40
# Full block, half blocks at the right and left end of a bar, axis, mark of a shortened name.
BLOCKS, PLAIN = ("█", "▌", "▐", "│", "…"), ("#", "", "", "|", "~")
# Names of the two sides of a chart if the names of the items do not fit.
SHORT = ("i", "j")


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """The contributions to the difference of two scores, largest first.

    Attributes
    ----------
    part : str
        Kind of the parts: "feature", "support item", "landmark" or "random feature".
    names : tuple of str
        Name of each part.
    index : ndarray of int64, shape (n_parts,)
        Index of each part, from 0: a column of X, a row of the training set (for a support item),
        or the index of the landmark or random feature.
    contributions : ndarray of shape (n_parts,)
        Contribution of each part to the difference, in order of decreasing absolute value, ties by
        ``index``.  Parts that contribute nothing are omitted.
    difference : float
        Score of i minus score of j: the sum of ``contributions`` and ``others``, up to rounding.
    scores : tuple of two floats
        Scores of i and j.
    items : tuple of two str
        Names of i and j.
    others : float
        Sum of the contributions that :meth:`top` has removed.
    n_others : int
        Their number.
    """

    part: str
    names: tuple[str, ...]
    index: NDArray[np.int64]
    contributions: Array
    difference: float
    scores: tuple[float, float]
    items: tuple[str, str]
    others: float = 0.0
    n_others: int = 0

    def top(self, n: int) -> Explanation:
        """Return the explanation with only the n largest parts; ``others`` sums up the rest."""
        if not is_integer(n) or n < 0:
            raise ValueError(f"n must be a non-negative integer; got {n!r}")
        if n >= len(self.names):
            return self
        rest = self.contributions[n:]
        return replace(
            self,
            names=self.names[:n],
            index=self.index[:n],
            contributions=self.contributions[:n],
            others=math.fsum([self.others, *rest.tolist()]),
            n_others=self.n_others + len(rest),
        )

    def picture(self, width: int = WIDTH, *, encoding: str | None = None) -> str:
        """Return a bar chart as text.

        Parameters
        ----------
        width : int, default=80
            Width in columns, at least 40.  Long names are shortened, those of i and j so that they
            stay different; if that is impossible, they are called "i" and "j".
        encoding : str or None, default=None
            Encoding of the terminal or file; None for that of standard output.  If it has no block
            characters, the chart is ASCII; characters of names that it lacks are escaped.

        Returns
        -------
        str
            The lines of the chart, without a newline at the end.
        """
        check_integer("width", width)
        if encoding is None:
            encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
        return "\n".join(_draw(self, max(int(width), NARROWEST), encoding))

    def __str__(self) -> str:
        """Return a bar chart of the largest contributions."""
        return self.top(SHOWN).picture()

    def __repr__(self) -> str:
        more = f" and {self.n_others} others" if self.n_others else ""
        return (
            f"<Explanation: {' against '.join(self.items)}, difference {self.difference:.6g}, "
            f"{len(self.names)} parts ({self.part}){more}>"
        )


def check_rows(i: Any, j: Any, n_items: int) -> tuple[int, int]:
    """Return two different row numbers of X, or raise a ValueError."""
    for name, row in (("i", i), ("j", j)):
        if not is_integer(row):
            raise ValueError(f"{name} must be a row number of X, an integer; got {row!r}")
        if not 0 <= int(row) < n_items:
            raise ValueError(
                f"{name} must be a row number of X, from 0 to {n_items - 1}; got {row}"
            )
    if i == j:
        raise ValueError(
            f"i and j are the same item, row {i}: there is no difference to explain. Pass two rows."
        )
    return int(i), int(j)


def _draw(explained: Explanation, width: int, encoding: str) -> list[str]:
    """Return the lines of the chart: title, names of the sides, one bar per part, sum."""
    signs = BLOCKS if can_show("".join(BLOCKS), encoding) else PLAIN
    full, half_right, half_left, axis, rest = signs
    per_column = 2 if half_right else 1
    parts = list(zip(explained.names, explained.contributions.tolist(), strict=True))
    if explained.n_others:
        what = "other" if explained.n_others == 1 else "others"
        parts.append((f"{explained.n_others:,} {what}", explained.others))
    total = math.fsum([*explained.contributions.tolist(), explained.others])
    figures = [f"{value:+.4g}" for _, value in parts] + [f"{total:+.4g}"]
    longest = max(_cells(printable(name, encoding)) for name, _ in [*parts, ("sum", 0.0)])
    wide = min(longest, width // 3)
    figure = max(map(len, figures))
    side = (width - wide - figure - 5) // 2
    called = [printable(name, encoding) for name in explained.items]
    i, j = _apart(called, (side - 4, side - 4), rest)

    def line(name: str, number: str, left: str, right: str) -> str:
        shown = _fitted(printable(name, encoding), wide, rest)
        shown += " " * (wide - _cells(shown))
        left = " " * (side - _cells(left)) + left
        return f"{shown}  {number:>{figure}}  {left}{axis}{right}".rstrip()

    largest = max((abs(value) for _, value in parts), default=0.0)
    lines = [*_title(explained, called, width, rest), "", line("", "", f"{j} up ", f" {i} up")]
    for (name, value), number in zip(parts, figures, strict=False):
        steps = round(per_column * side * (abs(value) / largest)) if largest else 0
        bar = full * (steps // per_column)
        if steps % per_column:
            bar = bar + half_right if value > 0.0 else half_left + bar
        lines.append(line(name, number, *(("", bar) if value > 0.0 else (bar, ""))))
    lines.append(f"{'sum':<{wide}}  {figures[-1]:>{figure}}")
    return lines


def _title(explained: Explanation, called: Sequence[str], width: int, rest: str) -> list[str]:
    """Return the title, which says which item is ranked higher, in one or more lines."""
    one, other = explained.scores
    order = "above" if one > other else "below" if one < other else "level with"
    figures = f"{one:.6g} against {other:.6g}, difference {explained.difference:.6g}"
    whole = f"{called[0]} is {order} {called[1]}: {figures}"
    if _cells(whole) <= width:
        return [whole]
    room = width - len(f" is {order} :")
    widths = [max(room // 2, room - _cells(other)) for other in reversed(called)]
    i, j = _apart(called, widths, rest)
    return [f"{i} is {order} {j}:", *textwrap.wrap(figures, width)]


def _cells(text: str) -> int:
    """Return the number of terminal columns that a text occupies."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 1 + (unicodedata.east_asian_width(char) in "WF")
        for char in text
    )


def _fitted(text: str, width: int, rest: str) -> str:
    """Shorten a text to ``width`` columns."""
    if _cells(text) <= width:
        return text
    while text and _cells(text) > width - 1:
        text = text[:-1]
    return text + rest


def _apart(texts: Sequence[str], widths: Sequence[int], rest: str) -> Sequence[str]:
    """Shorten two texts to their widths such that the results differ.

    Keeps the beginning, the end, or the part after the common prefix, whichever gives different
    results first.  If none does, returns the names in ``SHORT``.
    """
    alike = (a == b for a, b in zip(*texts, strict=False))
    same = sum(takewhile(bool, alike))
    cuts: tuple[Callable[[str, int], str], ...] = (
        lambda text, width: _fitted(text, width, rest),
        lambda text, width: _fitted(text[::-1], width, rest)[::-1],
        lambda text, width: _fitted(rest + text[same:], width, rest),
    )
    for cut in cuts:
        one, other = map(cut, texts, widths)
        if one != other:
            return one, other
    return SHORT
