"""Files to arrays: data in any format, scores, models.

The format of a data file follows from its name: ``.csv``, ``.tsv`` and ``.parquet`` are tables with
named columns, everything else is LETOR / SVMlight text, compressed or not.  Models and scores are
told apart by what they begin with.
"""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from ranksvm._files import naming
from ranksvm._messages import Message
from ranksvm._vectors import Array
from ranksvm._waiting import blocking
from ranksvm.cli.options import DataOptions, Format, Missing
from ranksvm.cli.output import UsageProblem, counted, note, progress
from ranksvm.data.ranking_data import Origin, RankingData
from ranksvm.data.sources import name_of, standard_input, text_blocks
from ranksvm.models import Model

__all__ = [
    "base_of",
    "check_features",
    "documents_of",
    "labels_of",
    "look_at",
    "only_one_stdin",
    "read_any_model",
    "read_data",
    "read_scores",
    "without_missing",
]


_HEAD = 16  # bytes that tell models from data


def labels_of(data: RankingData) -> Array:
    """Return the labels, or raise an error that says which column was looked for."""
    if data.y is None:
        raise ValueError(
            f"{data.origin.name} has no column 'label'. Name the right one with --label-column."
        )
    return data.y


def documents_of(data: RankingData, option: str) -> Sequence[str | None]:
    """Return the document ids, or raise an error that names the option for row numbers."""
    if data.docids is None:
        raise ValueError(
            f"{data.origin.name} has no document ids: LETOR text has them in comments "
            "(#docid = ...), a table in the column 'docid' or that of --docid-column. Name items "
            f"by row numbers ({option} row)."
        )
    return data.docids


def only_one_stdin(*paths: str | None) -> None:
    """Refuse to read stdin twice."""
    if sum(path == "-" for path in paths) > 1:
        raise UsageProblem("only one input can come from standard input (-)")


def read_data(
    paths: Sequence[str],
    options: DataOptions,
    *,
    labels: bool = True,
    comments: bool = False,
    features: Sequence[str] | None = None,
    zero_based: bool | None = None,
    file: BinaryIO | None = None,
) -> RankingData:
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
    features : sequence of str or None
        Columns of a table that are wanted, in this order; None for all that are numbers.
    zero_based : bool or None
        What holds for LETOR text if the options say nothing.
    file : binary file or None
        The content of the one path, if it is open already.
    """
    formats = {options.format_of(path) for path in paths}
    if len(formats) > 1:
        names = ", ".join(sorted(form.value for form in formats))
        raise UsageProblem(f"files of different formats ({names}) cannot be read as one set")
    source = paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"
    content = list(paths) if file is None else [file]
    if formats == {Format.letor}:
        guessed = options.zero_based is None
        based = bool(zero_based if guessed else options.zero_based)
        data = _read_letor(content, options, source, comments=comments, zero_based=based)
        return replace(data, origin=Origin(source, zero_based=based, base_guessed=guessed))
    from ranksvm.cli.tables import read_tables

    form = formats.pop()
    return read_tables(
        content, form, options, source, labels=labels, wanted=features, documents=comments
    )


def _read_letor(
    content: Sequence[Any], options: DataOptions, source: str, *, comments: bool, zero_based: bool
) -> RankingData:
    from ranksvm.data.svmlight import LetorError, load_letor

    try:
        with progress(f"reading {source}") as advance:
            data = load_letor(
                list(content) if len(content) > 1 else content[0],
                zero_based=zero_based,
                missing=options.missing.value,
                duplicates=options.duplicates.value,
                qid="ignore" if options.ignore_qid else "auto",
                comments=comments,
                **options.limits,
                n_jobs=options.jobs,
                progress=lambda done, total: advance(done, total, f"{done / 1e6:.0f} MB"),
            )
    except LetorError as error:
        if isinstance(error.message, Message) and not options.may_keep_missing:
            error.message.parts["keep"] = ""
        raise
    if data.qid is None and not options.ignore_qid:
        tell_one_query(source, "'qid:' fields")
    return data


def tell_one_query(source: str, lacks: str, remedy: str = "Use") -> None:
    """Say that items without query ids are all compared with each other."""
    note(
        f"{source} has no {lacks}; treating all items as one query. {remedy} --ignore-qid to "
        "silence this note."
    )


def read_scores(path: str, n_items: int, file: BinaryIO | None = None, **limits: Any) -> Array:
    """One number a line, as ``ranksvm predict`` writes them ("-" for stdin)."""
    blocks = text_blocks(path if file is None else file, **limits)
    text = b"".join(bytes(memoryview(block.text)[: block.size]) for block in blocks)
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


class Opened(NamedTuple):
    """A file whose beginning has been looked at.

    ``file`` is there when it cannot be opened a second time: standard input, or a pipe.
    """

    path: str
    is_model: bool
    is_foreign: bool
    file: BinaryIO | None


def look_at(path: str) -> Opened:
    """Tell models from data by what a file begins with."""
    file: BinaryIO = standard_input() if path == "-" else open(path, "rb")  # noqa: SIM115
    try:
        with naming(name_of(path)):
            file = blocking(file)
            head = file.read(_HEAD)
    except OSError:
        file.close()
        raise
    again: Any = None
    if path != "-" and stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
    else:
        again = io.BufferedReader(_Rejoined(head, file, name_of(path)))
    foreign = head.startswith(b"SVM-light")
    # Ours: the length of the header in eight bytes, then the header; eight letters are far more
    # than 2^32. A file that is cut off is still a model, and its reader says what is wrong.
    ours = head[8:9] == b"{" and int.from_bytes(head[:8], "little") < 2**32
    ours = ours or path.lower().endswith(".safetensors")
    return Opened(path, ours or foreign, foreign, again)


class _Rejoined(io.RawIOBase):
    """A stream with its beginning, which was read already, in front."""

    def __init__(self, head: bytes, rest: BinaryIO, name: str) -> None:
        self._head, self._rest, self.name = head, rest, name

    def readable(self) -> bool:
        return True

    def readinto(self, view: Any) -> int:
        part = self._head[: len(view)] or self._rest.read1(len(view))  # type: ignore[attr-defined]
        self._head = self._head[len(part) :] if self._head else b""
        view[: len(part)] = part
        return len(part)


def read_any_model(path: str | Opened) -> Model:
    """Read a model file of ours or a linear one of SVM^rank."""
    opened = look_at(path) if isinstance(path, str) else path
    source: Any = opened.path if opened.file is None else opened.file
    if opened.is_foreign:
        from ranksvm.export.svmrank import read_svmrank

        return read_svmrank(source)
    from ranksvm.learners import read_model

    return read_model(source)


def base_of(*models: Model) -> bool | None:
    """Whether models count features from 0; None if none of them says."""
    told = (model.facts.get("zero_based") for model in models)
    bases = {base for base in told if isinstance(base, bool)}
    if len(bases) > 1:
        raise UsageProblem(
            "some of the models were trained on indices that begin at 0, others at 1: say what "
            "holds for the data with --zero-based or --one-based"
        )
    return bases.pop() if bases else None


def without_missing(options: DataOptions) -> DataOptions:
    """Return options for items that a model is to work with; refuse to keep missing values."""
    if options.missing is Missing.nan:
        raise UsageProblem(
            "--missing nan does not work with models, which need numbers. Fill the values in, or "
            "use --missing zero"
        )
    return replace(options, may_keep_missing=False)


def check_features(data: RankingData, rows: Sequence[int] | None = None) -> None:
    """Refuse items without features, and features that are missing or infinite.

    ``rows`` are those to look at; None for all.
    """
    name = data.origin.name
    if data.n_features == 0:
        what, zeros = "feature columns", ""
        if data.feature_names is None:
            what = "features (index:value)"
            zeros = " If every feature is 0, write 1:0 on the first line."
        raise ValueError(
            f"{name} has labels and ids but no {what}. Pass the file with the features.{zeros}"
        )
    X = data.X if rows is None else data.X[list(rows)]
    values = X.data if hasattr(X, "indptr") else X
    bad = ~np.isfinite(values)
    if not bad.any():
        return
    if hasattr(X, "indptr"):
        at = int(np.argmax(bad))
        row = int(np.searchsorted(X.indptr, at, side="right")) - 1
        column = int(X.indices[at])
    else:
        row, column = (int(k) for k in np.unravel_index(int(np.argmax(bad)), values.shape))
    row = 1 + (row if rows is None else rows[row])
    number = column if data.origin.zero_based else column + 1
    feature = data.feature_names[column] if data.feature_names else str(number)
    n_bad = int(bad.sum())
    raise ValueError(
        f"{name} has {counted(n_bad, 'value')} that {'is' if n_bad == 1 else 'are'} missing or "
        f"infinite, the first in item {row}, feature {feature}. Fill them in; --missing zero does "
        "so for missing ones."
    )
