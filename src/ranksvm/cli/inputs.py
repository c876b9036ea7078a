"""Read data in any format, scores and models.

The format of a data file follows from its name: ``.csv``, ``.tsv`` and ``.parquet`` are tables with
named columns, everything else is LETOR / SVMlight text, compressed or not.  Models and scores are
told apart by their first bytes.
"""

from __future__ import annotations

import glob
import io
import math
import os
import stat
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from ranksvm._contents import is_safetensors, is_svmrank
from ranksvm._files import naming
from ranksvm._messages import Message
from ranksvm._sparse import is_sparse
from ranksvm._text import counted, listed, progress
from ranksvm._vectors import Array
from ranksvm.cli.options import DataOptions
from ranksvm.cli.output import UsageProblem, note
from ranksvm.data.ranking_data import SPECIAL, Origin, RankingData, no_features
from ranksvm.data.shard_memory import FitMemory, scoring_memory
from ranksvm.data.shards import ShardedMatrix
from ranksvm.data.sources import Source, name_of, standard_input, text_lines
from ranksvm.data.streams import FileStream
from ranksvm.estimators.plain import is_finite
from ranksvm.models.model import Model

_HEAD = 18  # bytes that tell models from data


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
    sources: Sequence[Source],
    options: DataOptions,
    *,
    labels: bool = True,
    comments: bool = False,
    features: Sequence[str] | None = None,
    zero_based: bool | None = None,
    fit: FitMemory | None = None,
    like: Origin | None = None,
) -> RankingData:
    """Read one or several files of one format, as one set.

    Parameters
    ----------
    sources : sequence of (str or binary file)
        "-" for stdin.
    options : DataOptions
    labels : bool
        Whether a table without a label column is an error.
    comments : bool
        Whether to keep the comments of LETOR text, and the document ids in them.
    features : sequence of str or None
        Columns of a table that are wanted, in this order; None for all that are numbers.
    zero_based : bool or None
        Whether features of LETOR text are counted from 0, if the options do not say.
    fit : FitMemory or None
        With --memory: what a fit needs, or scoring with features of the query; None if the data
        are only scored.
    like : Origin or None
        What the columns of a table were in the training set of a model.
    """
    names = [name_of(one) for one in sources]
    name = listed(names, most=1)
    if options.memory is not None:
        if comments:
            raise UsageProblem("--memory reads no document ids; leave it out, or use row numbers")
        if like is not None and like.encoding is not None:
            raise UsageProblem(
                "the model has categories, or fills in missing values, which --memory does not do: "
                "leave it out"
            )
        from ranksvm.cli.pieces import open_in_pieces

        data = open_in_pieces(
            sources,
            options,
            name,
            labels=labels,
            features=features,
            zero_based=zero_based,
            fit=fit,
            like=like,
        )
    else:
        data = read_whole(
            sources,
            options,
            name,
            labels=labels,
            comments=comments,
            features=features,
            zero_based=zero_based,
            like=like,
        )
    note_no_queries(data, options)
    if data.origin.beside:
        note(f"{data.origin.name}: {' and '.join(data.origin.beside)}")
    return data


def read_whole(
    sources: Sequence[Source],
    options: DataOptions,
    name: str,
    *,
    labels: bool = True,
    comments: bool = False,
    features: Sequence[str] | None = None,
    zero_based: bool | None = None,
    like: Origin | None = None,
) -> RankingData:
    """Read files into memory; ``name`` stands for all of them, the rest as in ``read_data``."""
    for one in sources:
        _check_one_file(one)
    formats = {options.format_of(name_of(one)) for one in sources}
    if len(formats) > 1:
        listed = ", ".join(sorted(formats))
        raise UsageProblem(f"files of different formats ({listed}) cannot be read as one set")
    form = formats.pop()
    if form == "letor":
        refuse_options_of_tables(options, name, "LETOR text")
        guessed = options.zero_based is None
        based = bool(zero_based if guessed else options.zero_based)
        data = _read_letor(sources, options, name, comments=comments, zero_based=based)
        origin = replace(data.origin, name=name, zero_based=based, base_guessed=guessed)
        return replace(data, origin=origin)
    from ranksvm.cli.tables import read_tables

    return read_tables(
        sources, form, options, name, labels=labels, wanted=features, documents=comments, like=like
    )


def refuse_options_of_tables(options: DataOptions, name: str, kind: str) -> None:
    """Raise if there are options that only tables have."""
    if options.of_tables:
        raise UsageProblem(
            f"{options.of_tables[0]} is for tables, and {name} is {kind}: leave it out"
        )


def _check_one_file(source: Source) -> None:
    """Refuse folders and patterns that the shell has not expanded, which need --memory."""
    if not isinstance(source, str) or source == "-":
        return
    if os.path.isdir(source):
        what, files = "a folder", os.path.join(source, "*")
    elif glob.has_magic(source) and not os.path.exists(source):
        what, files = "a pattern", source
    else:
        return
    raise ValueError(
        f"{source} is {what}. Name its files ({files} without quotes), or use --memory SIZE with "
        "train, tune, predict and evaluate (but not for an exact kernel)"
    )


def _read_letor(
    sources: Sequence[Source], options: DataOptions, name: str, *, comments: bool, zero_based: bool
) -> RankingData:
    from ranksvm.data.svmlight import LetorError, load_letor

    with progress(f"reading {name}") as advance:
        try:
            return load_letor(
                sources,
                zero_based=zero_based,
                missing=options.missing,
                duplicates=options.duplicates,
                qid="ignore" if options.ignore_qid else "auto",
                comments=comments,
                **options.limits,
                n_jobs=options.jobs,
                progress=lambda done, total: advance(done, total, f"{done / 1e6:.0f} MB"),
            )
        except LetorError as error:
            if not options.may_keep_missing and isinstance(error.message, Message):
                error.message.parts["keep"] = ""  # --missing nan would not help
            raise


def note_no_queries(data: RankingData, options: DataOptions) -> None:
    """Print a note if data have no query ids, and the user does not seem to know."""
    if data.qid is not None or options.ignore_qid:
        return
    name = data.origin.name
    if data.feature_names is not None:  # a table
        note_one_query(name, "'qid' column", "Name the column with --qid-column, or use")
    elif data.origin.zero_based is not None:  # LETOR text
        note_one_query(name, "'qid:' fields")
    else:
        note_one_query(name, "query ids", "Name their .npy file with --qid-column, or use")


def note_no_labels(data: RankingData) -> None:
    """Print a note if a table has no labels, and the user does not seem to know."""
    if data.y is None:
        note(f"{data.origin.name} has no 'label' column. Name the column with --label-column.")


def note_one_query(name: str, lacks: str, remedy: str = "Use") -> None:
    """Print a note that all items are compared with each other, as they have no query ids."""
    note(
        f"{name} has no {lacks}; treating all items as one query. {remedy} --ignore-qid to "
        "silence this note."
    )


def read_scores(source: Source, n_items: int, **limits: Any) -> Array:
    """Read one number per line, as ``ranksvm predict`` writes them ("-" for stdin)."""
    scores, name = [], name_of(source)
    for number, line in enumerate(text_lines(source, **limits), start=1):
        try:
            score = float(line)
        except ValueError:
            score = math.nan
        if not math.isfinite(score):
            shown = line.strip()[:40].decode("utf-8", "replace")
            raise ValueError(
                f"{name}, line {number}: found {shown!r}, expected one finite number, the score of "
                f"item {number}."
            )
        scores.append(score)
    if len(scores) != n_items:
        raise ValueError(
            f"{name} has {len(scores)} scores for {n_items} items. Give one score for every item, "
            "in the order of the data file."
        )
    return np.array(scores)


class Opened(NamedTuple):
    """A file whose beginning has been read.

    ``source`` is its path, or an open file if it cannot be opened again: stdin, or a pipe.
    """

    source: Source
    is_model: bool
    is_svmrank: bool
    is_run: bool


def look_at(path: str) -> Opened:
    """Find out from its first bytes whether a file holds a model, a TREC run or other data."""
    file: BinaryIO = standard_input() if path == "-" else open(path, "rb")  # noqa: SIM115
    stream = FileStream(file)
    try:
        with naming(name_of(path)):
            head = stream.peek(_HEAD)
    except OSError:
        file.close()
        raise
    source: Source = path
    if path != "-" and stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
    else:
        source = io.BufferedReader(_StreamFile(stream, name_of(path)))
    # A file that is cut off is still a model, and its reader says what is wrong.
    ours = is_safetensors(head) or path.lower().endswith(".safetensors")
    second = head.split(None, 2)[1:2]
    return Opened(source, ours or is_svmrank(head), is_svmrank(head), second == [b"Q0"])


class _StreamFile(io.RawIOBase):
    """A stream as a file."""

    def __init__(self, stream: FileStream, name: str) -> None:
        self._stream, self.name = stream, name

    def readable(self) -> bool:
        return True

    def readinto(self, view: Any) -> int:
        return self._stream.readinto(view)


def read_any_model(opened: Opened) -> Model:
    """Read a model file of ours or a linear one of SVM^rank."""
    source: Any = opened.source
    if opened.is_svmrank:
        from ranksvm.export.svmrank import read_svmrank

        return read_svmrank(source)
    from ranksvm.learners import read_model

    return read_model(source)


def read_with_model(
    model_path: str,
    paths: Sequence[str],
    options: DataOptions,
    *,
    labels: bool = False,
    comments: bool = False,
    queries: bool = True,
) -> tuple[Model, RankingData]:
    """Read a model and the items that it is for; see :func:`read_data`.

    Without ``queries``, query ids are left out, unless the model needs them.
    """
    model = read_any_model(look_at(model_path))
    if not (queries or model.view):
        options = replace(options, ignore_qid=True)
    items = read_data(
        paths,
        remembering(options, model),
        labels=labels,
        comments=comments,
        features=input_names(model),
        zero_based=base_of(model),
        fit=scoring_memory(model.view),
        like=Origin.of_facts(model.facts),
    )
    return model, items


def remembering(options: DataOptions, *models: Model) -> DataOptions:
    """Return options that look for labels and ids where models found them in training."""
    usual = {
        key: model.facts[f"{key}_column"]
        for model in models
        for key in SPECIAL
        if model.facts.get(f"{key}_column") is not None
    }
    return replace(options, usual=usual)


def input_names(model: Model) -> tuple[str, ...] | None:
    """Return the names of the columns that a model is made for; None if they have none."""
    if model.encoding is None:
        return model.feature_names
    if model.encoding.columns is None:
        raise UsageProblem(
            "the model was trained on an array with missing values to fill in, which commands "
            "cannot do: use it in Python, or train it on a table"
        )
    return model.encoding.columns


def base_of(*models: Model) -> bool | None:
    """Return whether models count features from 0; None if none of them says."""
    facts = (model.facts.get("zero_based") for model in models)
    bases = {base for base in facts if isinstance(base, bool)}
    if len(bases) > 1:
        raise UsageProblem(
            "some of the models were trained on indices that start at 0, others at 1: say which "
            "the data have with --zero-based or --one-based"
        )
    return bases.pop() if bases else None


def without_missing(options: DataOptions) -> DataOptions:
    """Return options for items that a model is to work with; refuse to keep missing values."""
    if options.missing == "nan":
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
        raise no_features(name, is_table=data.feature_names is not None)
    if isinstance(data.X, ShardedMatrix):
        return  # values are checked when they are read
    X = data.X if rows is None else data.X[list(rows)]
    values = X.data if is_sparse(X) else X
    if is_finite(values):
        return
    bad = ~np.isfinite(values)
    if not bad.any():
        return
    if is_sparse(X):
        entries, at = X.tocoo(), int(np.argmax(bad))
        row, column = entries.row[at], entries.col[at]
    else:
        row, column = np.argwhere(bad)[0]
    row = 1 + (row if rows is None else rows[row])
    number = column if data.origin.zero_based else column + 1
    feature = data.feature_names[column] if data.feature_names else str(number)
    n_bad = int(bad.sum())
    raise ValueError(
        f"{name} has {counted(n_bad, 'value')} that {'is' if n_bad == 1 else 'are'} missing or "
        f"infinite, the first in item {row}, feature {feature}. Fill them in; --missing zero does "
        "so for missing ones."
    )
