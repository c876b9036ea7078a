"""Learn how the columns of a table become features, with scikit-learn's transformers.

Medians are those of ``SimpleImputer``, and categories those of ``OneHotEncoder``.  The result is a
:class:`TableEncoding`, which needs neither of them.  Commands import this module only for tables
with categories or missing values, because scikit-learn takes most of a second.
"""

from __future__ import annotations

from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder

from ranksvm._messages import Message, Param, ParameterError
from ranksvm._text import counted
from ranksvm.data.frames import LeftOut
from ranksvm.data.table_encoding import TableEncoding
from ranksvm.data.table_features import column_of, numbers_of, texts_of
from ranksvm.data.table_kinds import DECLARED, text_columns

# A column of text is a category if it has at most this many values, each this often on average.
MOST_VALUES, OFTEN = 100, 2


def learn_encoding(
    table: Any, *, missing: str = "error", min_frequency: float | None = None
) -> TableEncoding | None:
    """Return what the columns of a training set become; None if they are features as they are.

    Parameters
    ----------
    table : frame, or ndarray of shape (n_items, n_columns)
    missing : {"error", "impute"}
        Whether missing values are filled in.
    min_frequency : int, float or None
        How often a value must occur to have a feature, as in ``OneHotEncoder``: a number of items,
        or a share of them.  None: once.

    Raises
    ------
    ParameterError
        If a column can be no feature; the error names it, and says what to do.
    """
    is_frame = not isinstance(table, np.ndarray)
    texts = text_columns(table) if is_frame else []
    fills = missing == "impute"
    if not texts and not fills:
        return None
    schema = list(nw.from_native(table, eager_only=True).schema.items()) if is_frame else []
    names = [name for name, _ in schema] or list(range(table.shape[1]))
    values: dict[int, tuple[str, ...]] = {}
    medians, marked = [0.0] * len(names), set()
    for j, name in enumerate(names):
        column = column_of(table, j)
        if j in texts:
            declared = schema[j][1] in DECLARED
            values[j], has_mark = _learn_values(column, str(name), declared, min_frequency)
        else:
            if not fills:
                continue
            medians[j], has_mark = _learn_median(numbers_of(column, str(name)), name)
        if has_mark and fills:
            marked.add(j)
    named = is_frame and all(isinstance(name, str) for name in names)
    return TableEncoding(
        len(names),
        tuple(names) if named else None,
        values,
        tuple(medians) if fills else None,
        frozenset(marked),
    )


def _learn_median(numbers: NDArray[Any], name: Any) -> tuple[float, bool]:
    """Return the median of the numbers that are there, and whether some are not."""
    absent = np.isnan(numbers) if numbers.dtype.kind == "f" else np.zeros(1, dtype=bool)
    if absent.all():
        raise _all_missing(name)
    if numbers.dtype.kind == "f" and np.isinf(numbers).any():
        raise ValueError(
            f"column {name!r} has {counted(int(np.isinf(numbers).sum()), 'infinite value')}. Only "
            "missing values are filled in: replace these, or drop the rows."
        )
    imputer = SimpleImputer(strategy="median").fit(numbers.astype(np.float64)[:, None])
    return float(imputer.statistics_[0]), bool(absent.any())


def _learn_values(
    column: Any, name: str, declared: bool, min_frequency: float | None
) -> tuple[tuple[str, ...], bool]:
    """Return the values of a category that are kept, and whether some items have none."""
    texts = texts_of(column)
    cells = np.array(texts, dtype=object)[:, None]
    encoder = OneHotEncoder(min_frequency=min_frequency, handle_unknown="ignore").fit(cells)
    every = encoder.categories_[0].tolist()
    there = [one for one in every if one is not None]
    if not there:
        raise _all_missing(name)
    rare: Any = () if min_frequency is None else encoder.infrequent_categories_[0]
    left_out = set(() if rare is None else rare.tolist() if hasattr(rare, "tolist") else rare)
    kept = tuple(one for one in there if one not in left_out)
    few = len(kept) <= MOST_VALUES
    if min_frequency is None:
        few &= OFTEN * len(there) <= len(texts)
    if not kept or not (few or declared):
        raise _is_text(name, len(there), len(kept), len(texts), min_frequency)
    return kept, None in every and None not in left_out


def _all_missing(name: Any) -> ParameterError:
    return ParameterError(
        "column {name!r} has only missing values. Leave it out: {drop}.",
        drop=LeftOut(name),
        name=name,
    )


def _is_text(
    name: str, n_values: int, n_kept: int, n_items: int, min_frequency: float | None
) -> ParameterError:
    """Return the error for a column of text, with the ways out."""
    frequent: Message | str = ""
    if min_frequency is not None:
        kept = "none of them" if n_kept == 0 else f"{n_kept:,} of them"
        frequent = Message(
            ", and {kept} as often as {asked}",
            kept=kept,
            asked=Param("min_frequency", min_frequency),
        )
    return ParameterError(
        "column {name!r} is text: {values} in {items}{frequent}. A category has at most {most} "
        "values, each at least twice on average. What you can do: leave the column out ({drop}); "
        "keep its frequent values only ({some}); or turn the text into numbers first, with tf-idf "
        "for example: docs/tables.md shows how.",
        some=Param(
            "min_frequency", 10 if min_frequency is None else 10 * max(1, int(min_frequency))
        ),
        drop=LeftOut(name),
        name=name,
        values=counted(n_values, "different value"),
        items=counted(n_items, "row"),
        frequent=frequent,
        most=MOST_VALUES,
    )
