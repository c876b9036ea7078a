"""Why one item is ranked above another: a difference of scores as a sum of parts.

    linear     s_i - s_j = sum over features k of  w_k (x_ik - x_jk)
    kernel     s_i - s_j = sum over points m of    coef_m (k(x_i, z_m) - k(x_j, z_m))

The points of a kernel model are its support items, its landmarks, or its random features, of which
k is the cosine.  Both sums are exact, nothing is sampled or fitted.  A kernel mixes the features of
an item, so that parts of a kernel model that belong to single features do not exist.

The picture of an explanation has a bar for every part: to the right of the axis those that pull i
up, to the left those that pull j up.

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
from functools import partial
from itertools import takewhile
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ranksvm._checks import check_positive
from ranksvm._text import can_show, printable
from ranksvm._vectors import Array
from ranksvm.maps.expansion import Expansion, GivenExpansion
from ranksvm.maps.kernels import is_sparse, kernel_matrix
from ranksvm.maps.matrix import MatrixMap

__all__ = ["Explanation", "check_rows", "explain_kernel", "explain_linear"]

# Parts that ``str`` shows; columns of its picture; the narrowest one.
SHOWN = 20
WIDTH = 80
NARROWEST = 40
# The bar, its end to the right and to the left, the axis, what stands for the rest of a name.
BLOCKS, PLAIN = ("█", "▌", "▐", "│", "…"), ("#", "", "", "|", "~")
# What parts without names of their own are called, if not by their kind: i and j are items, too.
CALLED = {"support item": "training item"}
# What the sides of a picture are called where names do not fit.
SHORT = ("i", "j")


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """The parts of a difference of two scores, largest first.

    Attributes
    ----------
    part : str
        What the parts are: "feature", "support item", "landmark" or "random feature".
    names : tuple of str
        What each part is called.
    index : ndarray of int64, shape (n_parts,)
        Which it is: a column of X, a row of the training set (of a support item), or the place
        among the landmarks or random features; all from 0.
    contributions : ndarray of shape (n_parts,)
        What it adds to the difference, the largest absolute value first, ties by ``index``;
        parts that add nothing are left out.
    difference : float
        Score of i minus score of j: the sum of ``contributions`` and ``others``, up to rounding.
    scores : tuple of two floats
        Of i and of j.
    items : tuple of two str
        What i and j are called.
    others : float
        Sum of the parts that :meth:`top` has left out.
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
        """Return the same with the n largest parts alone; ``others`` is the sum of the rest."""
        if not isinstance(n, Integral) or isinstance(n, bool) or n < 0:
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
        """Draw the parts as bars.

        Parameters
        ----------
        width : int, default=80
            Columns, at least 40.  Names that are too long are cut, those of i and j so that they
            can be told apart; where this cannot be, they are called "i" and "j".
        encoding : str or None, default=None
            Of the terminal or file that it is for: what this cannot show is drawn in ASCII, and
            names are escaped.  None for that of standard output.

        Returns
        -------
        str
            Lines without an end of line after the last.
        """
        check_positive("width", width, integer=True)
        if encoding is None:
            encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
        return "\n".join(_draw(self, max(int(width), NARROWEST), encoding))

    def __str__(self) -> str:
        """Return the picture of the largest parts."""
        return self.top(SHOWN).picture()

    def __repr__(self) -> str:
        more = f" and {self.n_others} others" if self.n_others else ""
        return (
            f"<Explanation: {' against '.join(self.items)}, difference {self.difference:.6g}, "
            f"{len(self.names)} parts ({self.part}){more}>"
        )


def explain_linear(
    coef: Array,
    X: Any,
    i: int,
    j: int,
    *,
    names: Sequence[str] | None = None,
    items: tuple[str, str] | None = None,
    first: int = 0,
) -> Explanation:
    """Explain scores X w.

    Parameters
    ----------
    coef : ndarray of shape (n_features,)
    X : ndarray or SciPy sparse matrix of shape (n_items, n_features), finite
        Stays sparse if it is.
    i, j : int
        Rows of X.
    names : sequence of str or None, default=None
        Of the features; None numbers them.
    items : tuple of two str, or None, default=None
        What i and j are called; None for their row numbers.
    first : int, default=0
        What numbers begin at, in names that are made up.

    Returns
    -------
    Explanation
    """
    rows = _two_rows(X, i, j)
    with np.errstate(over="ignore", invalid="ignore"):
        if is_sparse(rows):
            moved = (rows[[0]] - rows[[1]]).tocsr()
            moved.sum_duplicates()
            columns, change = moved.indices.astype(np.int64), moved.data
        else:
            columns, change = np.arange(len(coef), dtype=np.int64), rows[0] - rows[1]
        contributions = coef[columns] * change
    scores = MatrixMap(rows).scores(coef)
    call: Callable[[int], str] | None = None if names is None else lambda k: str(names[k])
    return _explanation("feature", columns, contributions, scores, i, j, items, first, call)


def explain_kernel(
    expansion: Expansion | GivenExpansion,
    support: NDArray[np.int64] | None,
    X: Any,
    i: int,
    j: int,
    *,
    items: tuple[str, str] | None = None,
    first: int = 0,
) -> Explanation:
    """Explain scores that are sums of kernel values.

    Parameters
    ----------
    expansion : Expansion or GivenExpansion
        The model.
    support : ndarray of int64, shape (n_points,), or None
        Rows of the training set that its points are; None for landmarks and random features.
    X : ndarray or CSR of shape (n_items, n_features), finite
        For a precomputed kernel its values with all training items.
    i, j, items, first
        As for :func:`explain_linear`.

    Returns
    -------
    Explanation
    """
    rows = _two_rows(X, i, j)
    if isinstance(expansion, GivenExpansion):
        rows = rows.toarray() if is_sparse(rows) else rows
        values = rows[:, expansion.items]
    else:
        values = kernel_matrix(expansion.kernel, rows, expansion.points, shift=expansion.shift)
    with np.errstate(over="ignore", invalid="ignore"):
        contributions = expansion.coef * (values[0] - values[1])
    scores = expansion.scores(rows)
    if support is not None:
        return _explanation("support item", support, contributions, scores, i, j, items, first)
    is_fourier = isinstance(expansion, Expansion) and expansion.shift is not None
    part = "random feature" if is_fourier else "landmark"
    places = np.arange(len(contributions), dtype=np.int64)
    return _explanation(part, places, contributions, scores, i, j, items, first)


def check_rows(i: Any, j: Any, n_items: int) -> tuple[int, int]:
    """Return two different row numbers of X, or raise a ValueError."""
    for name, row in (("i", i), ("j", j)):
        if not isinstance(row, Integral) or isinstance(row, bool):
            raise ValueError(f"{name} must be a row number of X, an integer; got {row!r}")
        if not 0 <= int(row) < n_items:
            raise ValueError(
                f"{name} must be a row number of X, from 0 to {n_items - 1}; got {row}"
            )
    if i == j:
        raise ValueError(
            f"i and j are the same item, row {i}: there is no difference to explain. Give two rows."
        )
    return int(i), int(j)


def _two_rows(X: Any, i: int, j: int) -> Any:
    """Rows i and j as float64, dense or CSR."""
    rows = X[[i, j]]
    return (rows.tocsr() if is_sparse(rows) else rows).astype(np.float64)


def _explanation(
    part: str,
    index: NDArray[np.int64],
    contributions: Array,
    scores: Array,
    i: int,
    j: int,
    items: tuple[str, str] | None,
    first: int,
    call: Callable[[int], str] | None = None,
) -> Explanation:
    """Sort the parts, and leave out those that are zero."""
    one, other = (float(score) for score in scores)
    if not np.isfinite([one, other, one - other]).all() or not np.isfinite(contributions).all():
        raise OverflowError(
            f"the scores {one:g} and {other:g}, or parts of their difference, overflow float64 and "
            "cannot be explained. Scale the features down."
        )
    if call is None:
        call = partial(_numbered, CALLED.get(part, part), first)
    there = np.flatnonzero(contributions)
    there = there[np.lexsort((index[there], -np.abs(contributions[there])))]
    return Explanation(
        part=part,
        names=tuple(call(k) for k in index[there].tolist()),
        index=index[there],
        contributions=contributions[there],
        difference=one - other,
        scores=(one, other),
        items=items if items is not None else (f"row {i + first}", f"row {j + first}"),
    )


def _numbered(what: str, first: int, k: int) -> str:
    return f"{what} {k + first}"


def _draw(explained: Explanation, width: int, encoding: str) -> list[str]:
    """Lines of the picture: a title, the sides, a bar for every part, the sum."""
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
    """Lines that tell who is above whom: one if that is enough."""
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
    """Columns of a terminal that a text takes."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(sign) else 1 + (unicodedata.east_asian_width(sign) in "WF")
        for sign in text
    )


def _fitted(text: str, width: int, rest: str) -> str:
    """Cut a text to so many columns."""
    if _cells(text) <= width:
        return text
    while text and _cells(text) > width - 1:
        text = text[:-1]
    return text + rest


def _apart(texts: Sequence[str], widths: Sequence[int], rest: str) -> Sequence[str]:
    """Cut two texts, each to its columns, but not to the same.

    What is kept is the beginning, the end, or what follows the characters that both begin with: the
    first of these that tells them apart.  Where nothing does, they are called by short names.
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
