"""Files to arrays: data in any format, scores, models.

The format of a data file follows from its name: ``.csv``, ``.tsv`` and ``.parquet`` are tables with
named columns, everything else is LETOR / SVMlight text, compressed or not.  Models and scores are
told apart by what they begin with.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from ranksvm._vectors import Array
from ranksvm.cli.options import DataOptions, Format, Missing
from ranksvm.cli.output import UsageProblem, note, progress
from ranksvm.data.queries import QueryGroups

__all__ = [
    "Items",
    "aligned_columns",
    "check_finite",
    "is_model",
    "read_any_model",
    "read_items",
    "read_scores",
    "score_items",
]


@dataclass(frozen=True)
class Items:
    """What was read.

    Attributes
    ----------
    X : ndarray or csr_array of shape (n_items, n_features)
    y : ndarray of shape (n_items,), or None in a table without labels
    qid : ndarray of shape (n_items,) or None
    comments : sequence of (str or None), or None
        Of the lines of LETOR text.
    documents : callable
        Gives the document ids, one or None an item; or None if there are none.
    feature_names : tuple of str, or None
    source : str
        Name of the file or files, for messages.
    """

    X: Any
    y: Array | None
    qid: NDArray[Any] | None
    comments: Sequence[str | None] | None
    documents: Callable[[], Sequence[str | None] | None]
    feature_names: tuple[str, ...] | None
    source: str

    @property
    def groups(self) -> QueryGroups:
        return QueryGroups.from_qid(self.qid, self.X.shape[0])

    @property
    def labels(self) -> Array:
        """The labels, or an error that says which column was looked for."""
        if self.y is None:
            raise ValueError(
                f"{self.source} has no column with labels. Name it with --label-column."
            )
        return self.y


def read_items(
    paths: Sequence[str], options: DataOptions, *, labels: bool = True, comments: bool = False
) -> Items:
    """Read one or several files of one format, as one set.

    Parameters
    ----------
    paths : sequence of str
        "-" for stdin.
    options : DataOptions
    labels : bool
        Whether a table without a label column is an error.
    comments : bool
        Whether to keep the comments of LETOR text, and the document ids in them.
    """
    formats = {options.format_of(path) for path in paths}
    if len(formats) > 1:
        names = ", ".join(sorted(form.value for form in formats))
        raise UsageProblem(f"files of different formats ({names}) cannot be read as one set")
    source = paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"
    if formats == {Format.letor}:
        return _read_letor(paths, options, source, comments=comments)
    return _read_tables(paths, formats.pop(), options, source, labels=labels)


def _read_letor(
    paths: Sequence[str], options: DataOptions, source: str, *, comments: bool
) -> Items:
    from ranksvm.data.svmlight import load_letor

    with progress(f"reading {source}") as advance:
        data = load_letor(
            list(paths) if len(paths) > 1 else paths[0],
            zero_based=options.zero_based,
            missing=options.missing.value,
            comments=comments,
            n_jobs=options.jobs,
            progress=lambda done, total: advance(done, total, f"{done / 1e6:.0f} MB"),
        )

    def documents() -> list[str | None] | None:
        ids = data.docids
        return None if ids is None else ids.tolist()

    return Items(data.X, data.y, data.qid, data.comments, documents, None, source)


def _read_tables(
    paths: Sequence[str], form: Format, options: DataOptions, source: str, *, labels: bool
) -> Items:
    pyarrow = _import_pyarrow()
    with progress(f"reading {source}"):
        tables = [_read_table(path, form) for path in paths]
        try:
            table = pyarrow.concat_tables(tables, promote_options="permissive")
        except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError) as error:
            raise ValueError(f"{source}: the columns do not fit together: {error}") from None
    from ranksvm.data.frames import check_numeric, split_frame

    there = set(table.column_names)
    if labels and options.label_column not in there:
        raise ValueError(
            f"{source} has no column {options.label_column!r} with the labels; it has "
            f"{', '.join(map(repr, table.column_names[:8]))}. Name it with --label-column."
        )
    if options.qid_column not in there and options.qid_column != DataOptions.qid_column:
        raise ValueError(f"{source} has no column {options.qid_column!r} with the query ids.")
    named = {
        "label": options.label_column,
        "qid": options.qid_column,
        "docid": options.docid_column,
    }
    features, columns = split_frame(
        table, **{key: name for key, name in named.items() if name in there}
    )
    try:
        check_numeric(features)
        X = _matrix(features, options.missing)
    except ValueError as error:
        raise ValueError(f"{source}: {error}") from None
    y = columns.get("label")
    if y is not None:
        y = np.asarray(y)
        if y.dtype.kind not in "biuf" or not np.isfinite(y.astype(np.float64)).all():
            raise ValueError(
                f"{source}: the labels in column {options.label_column!r} must be finite numbers, "
                "none missing."
            )
        y = y.astype(np.float64)

    def documents() -> list[str | None] | None:
        ids = columns.get("docid")
        return None if ids is None else [None if d is None else str(d) for d in ids.tolist()]

    names = tuple(map(str, features.column_names))
    return Items(X, y, columns.get("qid"), None, documents, names, source)


def _import_pyarrow() -> Any:
    try:
        import pyarrow
    except ImportError:
        raise ImportError(
            "CSV and Parquet files need pyarrow: pip install 'ranksvm[tables]'"
        ) from None
    return pyarrow


def _read_table(path: str, form: Format) -> Any:
    import pyarrow
    from pyarrow import csv, parquet

    # A table is read as a whole, so stdin is too.
    file: Any = pyarrow.BufferReader(sys.stdin.buffer.read()) if path == "-" else path
    try:
        if form is Format.parquet:
            return parquet.ParquetFile(file).read()
        separator = "\t" if form is Format.tsv else ","
        return csv.read_csv(file, parse_options=csv.ParseOptions(delimiter=separator))
    except (pyarrow.ArrowInvalid, pyarrow.ArrowKeyError) as error:
        raise ValueError(f"{path} cannot be read as {form.value}: {error}") from None


def _matrix(features: Any, missing: Missing) -> Array:
    """Columns of numbers to a matrix in Fortran order, one column at a time."""
    X = np.empty((features.num_rows, features.num_columns), order="F")
    for j, name in enumerate(features.column_names):
        column = features.column(j)
        X[:, j] = column.to_numpy()
        absent = np.isnan(X[:, j])
        if not absent.any() or missing is Missing.nan:
            continue
        if missing is Missing.error:
            raise ValueError(
                f"column {name!r} has {int(absent.sum())} missing values, the first in row "
                f"{int(np.argmax(absent)) + 1}. Fill them in, or use --missing zero."
            )
        X[absent, j] = 0.0
    return X


def read_scores(path: str, n_items: int) -> Array:
    """One number a line, as ``ranksvm predict`` writes them ("-" for stdin)."""
    file: BinaryIO = sys.stdin.buffer if path == "-" else open(path, "rb")  # noqa: SIM115
    try:
        text = file.read()
    finally:
        if path != "-":
            file.close()
    lines = text.split()
    try:
        scores = np.array(lines, dtype=np.float64) if lines else np.empty(0)
    except ValueError:
        scores = None
    if scores is None or len(lines) != len(text.splitlines()) or not np.isfinite(scores).all():
        _complain_about_scores(path, text)
        raise ValueError(f"{path} must hold one finite number a line")
    if len(scores) != n_items:
        raise ValueError(
            f"{path} has {len(scores)} scores for {n_items} items. Give one score for every item, "
            "in the order of the data file."
        )
    return scores


def _complain_about_scores(path: str, text: bytes) -> None:
    for at, line in enumerate(text.splitlines(), start=1):
        try:
            fine = bool(np.isfinite(float(line)))
        except ValueError:
            fine = False
        if not fine:
            shown = line[:40].decode("utf-8", "replace")
            raise ValueError(
                f"{path}, line {at}: found {shown!r}, expected one finite number, the score of "
                f"item {at}."
            )


def is_model(path: str) -> bool:
    """Whether a file begins like a model: ours, or one of SVM^rank."""
    if path == "-":
        return False
    with open(path, "rb") as file:
        head = file.read(16)
    return head.startswith(b"SVM-light") or (len(head) > 8 and head[8:9] == b"{")


def read_any_model(path: str) -> Any:
    """Read a model file of ours or a linear one of SVM^rank; returns a ModelRecord."""
    if path == "-":
        from ranksvm.model_io import read_model

        return read_model(sys.stdin.buffer)
    with open(path, "rb") as file:
        foreign = file.read(9) == b"SVM-light"
    if foreign:
        from ranksvm.export.svmrank import read_svmrank

        return read_svmrank(path)
    from ranksvm.model_io import read_model

    return read_model(path)


def score_items(record: Any, items: Items, jobs: int | None) -> Array:
    """Scores of items under a model.

    With feature names on both sides, columns are matched by name.  Without, features that the
    training set did not have weigh nothing.
    """
    from ranksvm._threads import resolve_n_jobs
    from ranksvm.maps.matrix import MatrixMap

    check_finite(items)
    coef = record.arrays["coef"]
    weights = np.zeros(items.X.shape[1])
    here, there = _matched(items, record.feature_names, len(coef), "model")
    weights[here] = coef[there]
    return MatrixMap(items.X, n_threads=resolve_n_jobs(jobs)).scores(weights)


def aligned_columns(train: Items, items: Items) -> Any:
    """X of some items with the columns of the training set, in their order."""
    here, there = _matched(items, train.feature_names, train.X.shape[1], "training set")
    n_features = train.X.shape[1]
    X = items.X
    if X.shape[1] == n_features and np.array_equal(here, there):
        return X
    if hasattr(X, "indptr"):
        from scipy.sparse import csr_array

        ones = (np.ones(len(here)), (here, there))
        return (X @ csr_array(ones, shape=(X.shape[1], n_features))).tocsr()
    aligned = np.zeros((X.shape[0], n_features))
    aligned[:, there] = X[:, here]
    return aligned


def _matched(
    items: Items, names: Sequence[str] | None, n_features: int, whose: str
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Columns of the items that somebody else has too, and where they are there."""
    if names is not None and items.feature_names is not None:
        columns = {name: j for j, name in enumerate(items.feature_names)}
        missing = [name for name in names if name not in columns]
        if missing:
            raise ValueError(
                f"{items.source} lacks {len(missing)} of the {n_features} features of the {whose}, "
                f"among them {missing[0]!r}."
            )
        here = np.array([columns[name] for name in names], dtype=np.int64)
        return here, np.arange(n_features)
    if items.X.shape[1] > n_features:
        note(
            f"{items.source} has {items.X.shape[1]} features, the {whose} {n_features}: the others "
            "weigh nothing"
        )
    both = np.arange(min(items.X.shape[1], n_features))
    return both, both


def check_finite(items: Items) -> None:
    """Refuse features that are missing or infinite."""
    values = items.X.data if hasattr(items.X, "indptr") else items.X
    if not np.isfinite(values).all():
        raise ValueError(
            f"{items.source} has missing or infinite feature values. Use --missing zero, or fill "
            "them in first."
        )
