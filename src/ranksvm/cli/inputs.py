"""Files to arrays: data in any format, scores, models.

The format of a data file follows from its name: ``.csv``, ``.tsv`` and ``.parquet`` are tables with
named columns, everything else is LETOR / SVMlight text, compressed or not.  Models and scores are
told apart by what they begin with.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from ranksvm._vectors import Array
from ranksvm.cli.options import DataOptions, Format
from ranksvm.cli.output import UsageProblem, counted, note, progress
from ranksvm.data.queries import QueryGroups
from ranksvm.model_io import ModelRecord

__all__ = [
    "Items",
    "aligned_columns",
    "check_finite",
    "is_model",
    "only_one_stdin",
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
    zero_based : bool or None
        Whether the indices in the file begin at 0; None for tables.
    others : tuple of str
        Columns of a table that are no features.
    """

    X: Any
    y: Array | None
    qid: NDArray[Any] | None
    comments: Sequence[str | None] | None
    documents: Callable[[], Sequence[str | None] | None]
    feature_names: tuple[str, ...] | None
    source: str
    zero_based: bool | None = None
    others: tuple[str, ...] = ()

    @property
    def groups(self) -> QueryGroups:
        return QueryGroups.from_qid(self.qid, self.X.shape[0])

    @property
    def labels(self) -> Array:
        """The labels, or an error that says which column was looked for."""
        if self.y is None:
            raise ValueError(
                f"{self.source} has no column 'label'. Name the right one with --label-column."
            )
        return self.y


def only_one_stdin(*paths: str | None) -> None:
    """Refuse to read stdin twice."""
    if sum(path == "-" for path in paths) > 1:
        raise UsageProblem("only one input can come from standard input (-)")


def read_items(
    paths: Sequence[str],
    options: DataOptions,
    *,
    labels: bool = True,
    comments: bool = False,
    record: ModelRecord | None = None,
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
    record : ModelRecord or None
        The model that the items are for; it knows whether its indices begin at 0.
    """
    formats = {options.format_of(path) for path in paths}
    if len(formats) > 1:
        names = ", ".join(sorted(form.value for form in formats))
        raise UsageProblem(f"files of different formats ({names}) cannot be read as one set")
    source = paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"
    if formats == {Format.letor}:
        base = None if record is None else record.facts.get("zero_based")
        if base is False and options.zero_based:
            raise UsageProblem("--zero-based: the model was trained on indices that begin at 1")
        zero_based = options.zero_based or bool(base)
        return _read_letor(paths, options, source, comments=comments, zero_based=zero_based)
    from ranksvm.cli.tables import read_tables

    return read_tables(paths, formats.pop(), options, source, labels=labels)


def _read_letor(
    paths: Sequence[str], options: DataOptions, source: str, *, comments: bool, zero_based: bool
) -> Items:
    from ranksvm.data.svmlight import load_letor

    with progress(f"reading {source}") as advance:
        data = load_letor(
            list(paths) if len(paths) > 1 else paths[0],
            zero_based=zero_based,
            missing=options.missing.value,
            duplicates=options.duplicates.value,
            qid="ignore" if options.ignore_qid else "auto",
            comments=comments,
            n_jobs=options.jobs,
            progress=lambda done, total: advance(done, total, f"{done / 1e6:.0f} MB"),
        )

    def documents() -> list[str | None] | None:
        ids = data.docids
        known = ids is not None and any(one is not None for one in ids)
        return ids.tolist() if ids is not None and known else None

    return Items(
        data.X, data.y, data.qid, data.comments, documents, None, source, zero_based=zero_based
    )


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
        return _begins_like_a_model(_peek_stdin(), None)
    with open(path, "rb") as file:
        return _begins_like_a_model(file.read(16), os.fstat(file.fileno()).st_size)


def _peek_stdin() -> bytes:
    """Return what stdin begins with, and leave it there."""
    buffer: Any = sys.stdin.buffer
    return bytes(buffer.peek(16)[:16])


def _begins_like_a_model(head: bytes, size: int | None) -> bool:
    if head.startswith(b"SVM-light"):
        return True
    # The length of the header in eight bytes, then the header; text would be far too long.
    length = int.from_bytes(head[:8], "little")
    return head[8:9] == b"{" and length < (2**32 if size is None else size)


def read_any_model(path: str) -> ModelRecord:
    """Read a model file of ours or a linear one of SVM^rank."""
    if path == "-":
        head = _peek_stdin()
    else:
        with open(path, "rb") as file:
            head = file.read(16)
    source: Any = sys.stdin.buffer if path == "-" else path
    if head.startswith(b"SVM-light"):
        from ranksvm.export.svmrank import read_svmrank

        return read_svmrank(source)
    from ranksvm.model_io import read_model

    return read_model(source)


def score_items(record: ModelRecord, items: Items, jobs: int | None) -> Array:
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
    mine = items.feature_names
    if mine is not None and names is None:
        names = tuple(f"f{j + 1}" for j in range(n_features))  # as `ranksvm convert` calls them
        if not set(mine) <= set(names):
            strange = next(name for name in mine if name not in set(names))
            raise ValueError(
                f"the {whose} has {n_features} features without names, and {items.source} has "
                f"named columns, {strange!r} for example. Columns f1 to f{n_features} would be "
                "matched; `ranksvm convert` writes such tables."
            )
        here = np.arange(len(mine))
        return here, np.array([int(name[1:]) - 1 for name in mine], dtype=np.int64)
    if names is not None and mine is not None:
        columns = {name: j for j, name in enumerate(mine)}
        missing = [name for name in names if name not in columns]
        if missing:
            raise ValueError(
                f"{items.source} lacks {len(missing)} of the {n_features} features of the {whose}, "
                f"among them {missing[0]!r}."
            )
        here = np.array([columns[name] for name in names], dtype=np.int64)
        return here, np.arange(n_features)
    if names is not None and items.X.shape[1] != n_features:
        raise ValueError(
            f"the {whose} has {n_features} features with names, {names[0]!r} for example, and "
            f"{items.source} has {items.X.shape[1]} without. Use a table with these columns."
        )
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
    bad = ~np.isfinite(values)
    if not bad.any():
        return
    if hasattr(items.X, "indptr"):
        at = int(np.argmax(bad))
        row = int(np.searchsorted(items.X.indptr, at, side="right"))
        column = int(items.X.indices[at])
    else:
        row, column = (int(k) for k in np.unravel_index(int(np.argmax(bad)), values.shape))
        row += 1
    name = items.feature_names[column] if items.feature_names else str(column + 1)
    raise ValueError(
        f"{items.source} has {counted(int(bad.sum()), 'value')} that are missing or infinite, the "
        f"first in item {row}, feature {name}. Fill them in; --missing zero does so for missing "
        "ones."
    )
