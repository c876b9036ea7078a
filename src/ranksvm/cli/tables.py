"""Tables: CSV, TSV and Parquet files with named columns, through pyarrow."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ranksvm._files import naming
from ranksvm._messages import UserError
from ranksvm._sparse import is_sparse
from ranksvm._text import counted, progress
from ranksvm._values import as_float, exact_vector, finite_values, merges_values
from ranksvm._vectors import Array
from ranksvm._waiting import blocking
from ranksvm.cli.inputs import note_one_query
from ranksvm.cli.options import DataOptions, Format, Missing
from ranksvm.cli.output import UsageProblem
from ranksvm.cli.write import open_output
from ranksvm.data.queries import ids_from_text
from ranksvm.data.ranking_data import Origin, RankingData
from ranksvm.data.sources import Source, name_of, standard_input, text_blocks


def read_tables(
    sources: Sequence[Source],
    form: Format,
    options: DataOptions,
    name: str,
    *,
    labels: bool,
    wanted: Sequence[str] | None,
    documents: bool,
) -> RankingData:
    """Read tables of one format as one set; see ``inputs.read_data``."""
    pyarrow = _import_pyarrow()
    with progress(f"reading {name}"):
        table, *others = (_read_table(one, form, options) for one in sources)
        if others:
            try:
                table = pyarrow.concat_tables([table, *others], promote_options="permissive")
            except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError) as error:
                raise ValueError(f"{name}: the columns do not fit together: {error}") from None
    if table.num_rows == 0:
        raise ValueError(f"{name} has no rows")
    named = special_columns(table.column_names, options, name, labels=labels)
    from ranksvm.data.frames import check_numeric, split_frame

    try:
        features, columns = split_frame(table, **named)
        if wanted is not None:  # the others do not matter
            there = set(features.column_names)
            features = features.select([one for one in wanted if one in there])
        check_numeric(features, other="docid")
        X = _matrix(features, options.missing)
    except UserError as error:
        raise error.after(f"{name}: ") from None
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    qid = None if options.ignore_qid else columns.get("qid")
    if qid is not None:
        qid = _as_ids(qid, f"{name}: column {named['qid']!r}")
    y = columns.get("label")
    if y is not None:
        y = _as_labels(y, f"{name}: column {named['label']!r}")
    document_ids = None
    if documents and "docid" in named:
        ids = table.column(named["docid"]).to_pylist()
        document_ids = [None if one in (None, "") else str(one) for one in ids]
    return RankingData(
        X,
        y,
        qid,
        feature_names=tuple(map(str, features.column_names)),
        document_ids=document_ids,
        origin=Origin(
            name,
            frame_columns=tuple(named.values()),
            qid_column=None if qid is None else named["qid"],
        ),
    )


def special_columns(
    names: Sequence[str], options: DataOptions, source: str, *, labels: bool
) -> dict[str, str]:
    """Return the names of the columns that are not features."""
    twice = sorted({name for name in names if list(names).count(name) > 1})
    if twice:
        raise ValueError(f"{source} has several columns called {twice[0]!r}; rename them")
    wanted = {
        "label": options.label_column,
        "qid": options.qid_column,
        "docid": options.docid_column,
    }
    found = {key: name or key for key, name in wanted.items() if (name or key) in names}
    for key, name in wanted.items():
        needed = name is not None or (key == "label" and labels)
        if needed and key not in found:
            raise ValueError(
                f"{source} has no column {name or key!r}; it has "
                f"{', '.join(map(repr, names[:8]))}{' ...' if len(names) > 8 else ''}. "
                f"Name the right one with --{key}-column."
            )
    if "qid" not in found and not options.ignore_qid:
        note_one_query(source, "'qid' column", "Name the column with --qid-column, or use")
    return found


def _as_ids(qid: NDArray[Any], where: str) -> NDArray[Any]:
    """Convert texts to integers if all of them are; refuse values that are not ids."""
    if qid.dtype.kind not in "OUT":
        return qid
    ids = qid.tolist()
    for number, value in enumerate(ids, start=1):
        if value == "":
            raise ValueError(
                f"{where} has no query id for item {number}. Give every item its query."
            )
        if isinstance(value, bytes):
            raise ValueError(f"{where} is not UTF-8 text in item {number}")
    return ids_from_text(ids) if all(isinstance(value, str) for value in ids) else qid


def _as_labels(y: Any, where: str) -> Array:
    try:
        exact = exact_vector("labels", y)
    except ValueError:
        exact = np.array([np.nan])
    if not finite_values(exact).all():
        raise ValueError(f"{where} must hold labels that are finite numbers, none missing.")
    if merges_values(exact):
        raise ValueError(
            f"{where}: labels too large (up to {exact.max()}): float64 cannot store every "
            "integer above 2^53, and different labels would become equal. Subtract an offset, or "
            "use ranks 0, 1, 2, ..."
        )
    return as_float("labels", exact)


def _import_pyarrow() -> Any:
    try:
        import pyarrow
    except ImportError:
        raise ImportError(
            "CSV and Parquet files need pyarrow: pip install 'ranksvm[tables]'"
        ) from None
    return pyarrow


def _read_table(source: Any, form: Format, options: DataOptions) -> Any:
    import pyarrow
    from pyarrow import csv, parquet

    name = name_of(source)
    try:
        if form == "parquet":
            # A Parquet file is read from its end, so a stream is read as a whole first.
            whole = standard_input() if source == "-" else source
            if not isinstance(whole, str):
                whole = pyarrow.BufferReader(blocking(whole).read())
            return parquet.ParquetFile(whole, page_checksum_verification=True).read()
        # Ids stay as they are: 007 is not 7.
        text = pyarrow.string()
        ids = (options.qid_column or "qid", options.docid_column or "docid")
        table = _read_csv(
            source,
            options.limits,
            parse_options=csv.ParseOptions(delimiter="\t" if form == "tsv" else ","),
            convert_options=csv.ConvertOptions(column_types=dict.fromkeys(ids, text)),
        )
        table.column_names  # noqa: B018 (names are decoded when they are asked for)
        return table
    except UnicodeDecodeError:
        raise ValueError(f"{name} is not UTF-8 text") from None
    except (pyarrow.ArrowInvalid, pyarrow.ArrowKeyError) as error:
        if "UTF8" in str(error):
            raise ValueError(f"{name}: ids are not UTF-8 text ({error})") from None
        raise ValueError(f"{name} cannot be read as {form}: {error}") from None
    except OSError as error:
        if error.errno is not None:
            with naming(name):  # in the words of the system, not those of pyarrow
                raise OSError(error.errno, os.strerror(error.errno)) from error
        raise ValueError(f"{name} cannot be read as {form}: {error}") from None


def _read_csv(source: Any, limits: dict[str, Any], **options: Any) -> Any:
    """Let pyarrow read the text from its own memory.

    Its threads would call Python to read a Python file and to release it.  One that does so while
    the interpreter ends crashes the process.
    """
    import pyarrow
    from pyarrow import csv

    text = pyarrow.BufferOutputStream()
    for block in text_blocks(source, **limits):
        with memoryview(block.text) as view:
            text.write(view[: block.size])
    return csv.read_csv(pyarrow.BufferReader(text.getvalue()), **options)


def _matrix(features: Any, missing: Missing) -> Array:
    """Convert columns of numbers to a matrix in Fortran order, one column at a time."""
    X = np.empty((features.num_rows, features.num_columns), order="F")
    for j, name in enumerate(features.column_names):
        X[:, j] = features.column(j).to_numpy()
        absent = np.isnan(X[:, j])
        if not absent.any() or missing == "nan":
            continue
        if missing == "error":
            raise ValueError(
                f"column {name!r} has {counted(int(absent.sum()), 'missing value')}, the first in "
                f"item {int(np.argmax(absent)) + 1}. Fill them in, or use --missing zero."
            )
        X[absent, j] = 0.0
    return X


def write_table(data: RankingData, target: str, form: Format) -> None:
    """Write items as a table: label, qid, docid, then the features."""
    pyarrow = _import_pyarrow()
    from pyarrow import csv, parquet

    X = data.X
    if is_sparse(X):
        if X.shape[0] * X.shape[1] > 50 * max(1, X.nnz):
            raise UsageProblem(
                f"a table would hold {X.shape[0] * X.shape[1]:,} values, of which {X.nnz:,} are "
                "not zero: write sparse data as LETOR text"
            )
        X = X.toarray()
    columns: dict[str, Any] = {"label": data.truth}
    if data.qid is not None:
        columns["qid"] = data.qid
    if data.docids is not None:
        columns["docid"] = list(data.docids)
    names = data.feature_names or [f"f{j + 1}" for j in range(X.shape[1])]
    taken = sorted(set(names) & set(columns))
    if taken:
        raise ValueError(f"features have the names of other columns: {', '.join(taken)}")
    columns.update((name, X[:, j]) for j, name in enumerate(names))
    table = pyarrow.table(columns)
    with open_output(target) as file:
        if form == "parquet":
            parquet.write_table(table, file, write_page_checksum=True)
        else:
            separator = "\t" if form == "tsv" else ","
            csv.write_csv(table, file, csv.WriteOptions(delimiter=separator))
