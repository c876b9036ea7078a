"""What the columns of a table can be used for: numbers, categories, or nothing without more work.

Numbers and truth values are features as they are, and categories become one-hot columns
(:mod:`ranksvm.data.table_encoding`).  Dates, lists and the like are refused here.  Whether a column
of text is a category is decided by its values, in :mod:`ranksvm.estimators.encodings`.
"""

from __future__ import annotations

from typing import Any

import narwhals as nw

from ranksvm._messages import Param, ParameterError
from ranksvm._text import listed
from ranksvm.data.frames import LeftOut

DATES = (nw.Date, nw.Datetime, nw.Time, nw.Duration)
DECLARED = (nw.Categorical, nw.Enum)  # categories, whatever their values are
# Columns of text with these names are hardly features, if there are no query ids.
OF_QUERIES = frozenset(
    {"qid", "query", "query_id", "queryid", "session", "session_id", "search_id"}
)


def text_columns(X: Any) -> list[int]:
    """Return the numbers of the columns of a frame that are categories or text.

    Raises
    ------
    ParameterError
        If a column is neither that nor numeric; the error names it, and says what to do.
    """
    schema = nw.from_native(X, eager_only=True).schema
    dates = {name: dtype for name, dtype in schema.items() if dtype in DATES}
    if dates:
        raise ParameterError(
            "{wrong} {hold} dates or times, which are no features. Make numbers of them first, "
            "such as the age in days; or leave them out: {drop}.",
            wrong=listed(f"{name!r} ({dtype})" for name, dtype in dates.items()),
            hold="holds" if len(dates) == 1 else "hold",
            drop=LeftOut(next(iter(dates))),
        )
    wrong = {
        name: dtype for name, dtype in schema.items() if not (is_plain(dtype) or is_text(dtype))
    }
    if wrong:
        raise ParameterError(
            "{n} of {total} feature columns {are} not numeric: {wrong}. Make numbers of the "
            "values, or leave them out: {drop}.",
            n=len(wrong),
            total=len(schema),
            are="is" if len(wrong) == 1 else "are",
            wrong=listed(f"{name!r} ({dtype})" for name, dtype in wrong.items()),
            drop=LeftOut(next(iter(wrong))),
        )
    return [j for j, dtype in enumerate(schema.values()) if is_text(dtype)]


def is_plain(dtype: Any) -> bool:
    """Return whether a type of narwhals is numeric; of objects, their conversion will tell."""
    return bool(dtype.is_numeric()) or dtype in (nw.Boolean, nw.Object, nw.Unknown)


def is_text(dtype: Any) -> bool:
    """Return whether a type of narwhals is one of texts or categories."""
    return dtype == nw.String or dtype in DECLARED


def check_no_ids(X: Any) -> None:
    """Raise if a column of text is called like query ids, for a frame that has no query ids."""
    for name, dtype in nw.from_native(X, eager_only=True).schema.items():
        if is_text(dtype) and str(name).lower() in OF_QUERIES:
            raise ParameterError(
                "column {name!r} is not numeric, and its name says that it holds query ids: "
                "{qid}. If it is a category, rename it; if it is no feature, leave it out: {drop}.",
                qid=Param("qid", name),
                name=name,
                drop=LeftOut(name),
            )
