"""Commands with ``--memory``: files that are read, or converted, in pieces.

What a command says about them is what it says about data in memory; see :mod:`ranksvm.cli.inputs`
and :mod:`ranksvm.cli.tables`.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ranksvm._memory import parse_memory
from ranksvm._messages import UserError
from ranksvm._text import progress
from ranksvm._threads import resolve_n_jobs
from ranksvm.cli.inputs import (
    note_no_labels,
    note_no_queries,
    read_whole,
    refuse_options_of_tables,
)
from ranksvm.cli.options import DataOptions, format_named
from ranksvm.cli.output import UsageProblem
from ranksvm.cli.write import open_output
from ranksvm.data.array_shards import is_npy
from ranksvm.data.file_sets import CALLED, find_files
from ranksvm.data.parquet.columns import read_schema
from ranksvm.data.ranking_data import Origin, RankingData, no_features
from ranksvm.data.shard_files import open_files
from ranksvm.data.shard_memory import FitMemory
from ranksvm.data.side_files import QUERY, WEIGHT, side_file
from ranksvm.data.sources import BLOCK_BYTES, text_blocks
from ranksvm.data.streams import FileFormatError

# Part of the memory that a piece of text takes: its numbers, and their columns, take several times
# as much.
_TEXT_SHARE = 24
_MOST_TEXT = 1 << 26  # bytes


def open_in_pieces(
    sources: Sequence[Any],
    options: DataOptions,
    name: str,
    *,
    labels: bool,
    features: Sequence[str] | None,
    zero_based: bool | None,
    fit: FitMemory | None,
    like: Origin | None = None,
) -> RankingData:
    """Open files for reading in pieces; ``name`` stands for all of them, the rest as in read_data.

    If ``labels`` is False, the result has none.
    """
    assert options.memory is not None
    for source in sources:
        _check_format(source, options)
    kind, files = find_files(sources)
    if options.format not in ("auto", kind):
        raise UsageProblem(
            f"--format {options.format}: {files[0]} is {CALLED[kind]}. With --memory, the content "
            "of a file decides; leave --format out"
        )
    if kind != "letor" and options.missing != "error":
        raise UsageProblem(
            f"--missing {options.missing} and --memory "
            + (
                "do not work together"
                if options.imputes
                else f"work together with LETOR text only, and {files[0]} is {CALLED[kind]}"
            )
            + ": fill the values in"
        )
    _check_table_options(kind, files[0], options)
    guessed = options.zero_based is None
    based = bool(zero_based if guessed else options.zero_based)
    wanted: dict[str, Any] = {"y": "label", "qid": "qid"}
    about: dict[str, Any] = {"name": name}
    if kind == "letor":
        about |= {"zero_based": based, "base_guessed": guessed}
    elif kind == "array":
        wanted = _vectors(files[0], options, labels=labels)
    else:
        named, chosen, left_out = parquet_columns(
            files[0], options, name, labels=labels, wanted=features, like=like
        )
        wanted |= {"y": named.get("label"), "qid": named.get("qid"), "drop": named.values()}
        wanted["sample_weight"] = named.get("weight")
        if left_out or features is not None:
            wanted["columns"] = chosen
        about["frame_columns"] = (*named.values(), *left_out)
        about |= {f"{key}_column": named.get(key) for key in ("label", "docid")}
    if not labels:
        wanted["y"] = None
    if options.ignore_qid:
        wanted["qid"] = None
    with progress(f"reading {name}") as advance:
        data = open_files(
            files,
            **wanted,
            memory_budget=options.memory,
            cache=options.cache,
            letor_options={
                "zero_based": based,
                "missing": options.missing,
                "duplicates": options.duplicates,
                **options.limits,
            },
            fit=fit,
            n_threads=resolve_n_jobs(options.jobs),
            cache_progress=lambda done, total: advance(done, total, f"{done / 1e6:.0f} MB"),
        )
    data = replace(data, origin=replace(data.origin, **about)).with_groups(data.groups)
    check_ids(data)
    return data


def _check_table_options(kind: Any, file: str, options: DataOptions) -> None:
    """Refuse options of tables that do nothing for files in pieces."""
    if kind != "parquet":
        refuse_options_of_tables(options, file, CALLED[kind])
    for name in ("query_weight_column", "min_frequency"):
        if getattr(options, name) is not None:
            flag = f"--{name.replace('_', '-')}"
            raise UsageProblem(f"{flag} cannot be combined with --memory: leave one of them out")


def check_ids(data: RankingData) -> None:
    """Refuse items whose query id is an empty text, as in memory."""
    ids = data.groups.ids
    if data.qid is None or ids.dtype.kind not in "OUT":
        return
    empty = np.flatnonzero([one == "" for one in ids])
    if empty.size:
        item = int(data.groups.rows[data.groups.offsets[empty[0]]])
        raise ValueError(
            f"{data.origin.name} has no query id for item {item + 1}. Give every item its query."
        )


def _check_format(source: Any, options: DataOptions) -> None:
    """Refuse what can only be read once or as a whole."""
    if not isinstance(source, str) or source == "-":
        raise UsageProblem("--memory reads the data several times, so it needs files")
    form, named = options.format_of(source), format_named(source)
    if form in ("csv", "tsv"):
        raise UsageProblem(
            f"--memory does not work with {form.upper()} files. Convert them to Parquet first: "
            f"ranksvm convert data.{form} data.parquet --memory {options.memory}"
        )
    if named in ("csv", "tsv"):
        raise UsageProblem(
            f"--format {form}: with --memory, {source} would be a {named.upper()} file because of "
            "its name. Rename it"
        )


def _vectors(file: str, options: DataOptions, *, labels: bool) -> dict[str, Any]:
    """Return where labels and query ids of a .npy file are: in other .npy files."""
    for key, path in options.named_columns.items():
        if key == "docid":
            raise UsageProblem(f"--docid-column names a column of a table; {file} is a .npy file")
        if not path.endswith(".npy") or not is_npy(path):
            raise UsageProblem(
                f"--{key}-column {path}: {file} has no columns with names, so this must be a .npy "
                "file with one value for each row"
            )
    if labels and options.label_column is None:
        raise UsageProblem(f"{file} has no labels: name their .npy file with --label-column")
    return {"y": options.label_column, "qid": options.qid_column}


def parquet_columns(
    file: str,
    options: DataOptions,
    name: str,
    *,
    labels: bool,
    wanted: Sequence[str] | None = None,
    like: Origin | None = None,
) -> tuple[dict[str, str], list[str], list[str]]:
    """Return columns of a Parquet file: with a meaning of their own, features, and the others.

    The first have the keys "label", "qid", "docid" and "weight".  ``name`` stands for the file in
    messages; ``wanted`` are the features of a model, and the rest is as in ``read_data``.
    """
    from ranksvm.cli.table_choice import chosen_features, known_features, special_columns
    from ranksvm.cli.table_files import unused_index
    from ranksvm.data.frames import check_numeric

    schema = read_schema(file)
    index = unused_index(schema, options)
    there = [one for one in schema.names if one not in index]
    named = special_columns(there, options, name, labels=labels)
    others = [one for one in there if one not in named.values()]
    if wanted is None:
        features = chosen_features(others, options, name)
        if not features:
            raise no_features(name, is_table=True)
    else:
        features = known_features(others, wanted, like, name)
        if not features:
            raise ValueError(f"{name} has none of the features, {wanted[0]!r} for example")
    try:
        check_numeric(schema.empty_table().select(features), other="docid")
    except UserError as error:
        raise error.after(f"{name}: ") from None
    return named, features, [one for one in others if one not in features]


# --- Conversion ----------------------------------------------------------------------------------


def convert_in_pieces(source: str, target: str, options: DataOptions) -> None:
    """Write CSV, TSV or LETOR text as a Parquet file, a row group for each piece.

    Features are written plain, which is read fastest; see docs/scale.md.

    The text is read twice: which columns there are, and whether all query ids are integers, is
    known at its end only.
    """
    from pyarrow import parquet

    from ranksvm.cli.tables import TableColumns

    for suffix in (QUERY, WEIGHT):
        beside = side_file(source, suffix)
        if beside is not None and not (suffix == QUERY and options.ignore_qid):
            raise UsageProblem(f"--memory does not read {beside}: leave --memory out")
    columns = TableColumns()
    for data in _pieces(source, options):
        if not columns.n_items:
            note_no_labels(data)
            note_no_queries(data, options)
        columns.add(data)
        if data.y is not None and np.abs(data.truth).max() >= 2.0**53:
            raise ValueError(
                f"{data.origin.name}: labels too large: float64 cannot store every integer above "
                "2^53. Subtract an offset, use ranks 0, 1, 2, ..., or convert without --memory."
            )
    if columns.n_items == 0:
        read_whole([source], replace(options, memory=None), source)  # says what is wrong
    schema = columns.schema()
    with (
        open_output(target) as file,
        parquet.ParquetWriter(
            file,
            schema,
            compression="none",
            use_dictionary=[name for name in ("label", "qid", "docid") if name in schema.names],
            write_page_checksum=True,
        ) as writer,
    ):
        for data in _pieces(source, options):
            writer.write_table(columns.table(data, schema))


class _Text(io.BytesIO):
    """A piece of a text, as a file with a name."""

    def __init__(self, text: bytes, name: str) -> None:
        super().__init__(text)
        self.name = name


def _pieces(source: str, options: DataOptions) -> Iterator[RankingData]:
    """Read a text in pieces; what is wrong with one of them is named by its place in the text."""
    form = options.format_of(source)
    whole = replace(options, memory=None, format=form)
    budget = parse_memory("memory_budget", options.memory)
    size = max(1, min(_MOST_TEXT, budget // _TEXT_SHARE))
    header, line, name = b"", 1, source
    for text in _texts(source, size, options):
        piece = _Text(header + text, name)
        if form == "letor":
            if not _has_items(text):
                line += text.count(b"\n")
                continue
        elif not header:
            first = next(one for one in io.BytesIO(text) if one.strip())
            header = first.rstrip(b"\r\n") + b"\n"
        try:
            yield read_whole([piece], whole, name, labels=False, comments=True)
        except FileFormatError as error:
            if error.line is not None:
                error.line += line - 1
                error.file = source
            raise
        line += text.count(b"\n")
        name = f"{source} (from line {line:,} on)"


def _texts(source: str, size: int, options: DataOptions) -> Iterator[bytes]:
    """Yield pieces of whole lines, of about this size."""
    parts, n_quotes = list[bytes](), 0
    for block in text_blocks(source, block_bytes=min(size, BLOCK_BYTES), **options.limits):
        parts.append(bytes(memoryview(block.text)[: block.size]))
        n_quotes += parts[-1].count(b'"')
        # Not inside of a quoted field of a table, which may have several lines.
        is_between = options.format_of(source) == "letor" or n_quotes % 2 == 0
        if sum(map(len, parts)) >= size and is_between:
            yield b"".join(parts)
            parts.clear()
    if any(parts):
        yield b"".join(parts)


def _has_items(text: bytes) -> bool:
    """Return whether LETOR text has a line that is neither blank nor a comment."""
    return any(line.strip() and not line.lstrip().startswith(b"#") for line in io.BytesIO(text))
