"""Tables: CSV, TSV and Parquet files with named columns, through pyarrow."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import combinations
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
from ranksvm.cli.options import DataOptions, Format, Missing
from ranksvm.cli.output import UsageProblem, note
from ranksvm.cli.write import open_output
from ranksvm.data.parquet.columns import index_columns
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
    """Return the columns of a table that are not features: "label", "qid" and "docid", if present.

    Parameters
    ----------
    names : sequence of str
        All columns.
    options : DataOptions
    source : str
        Name of the table, for messages.
    labels : bool
        Whether a table without a label column is an error.
    """
    twice = sorted({name for name in names if list(names).count(name) > 1})
    if twice:
        raise ValueError(f"{source} has several columns called {twice[0]!r}; rename them")
    found = {key: name for key, name in options.columns.items() if name in names}
    for key, name in options.columns.items():
        needed = key in options.named_columns or (key == "label" and labels)
        if needed and key not in found:
            raise ValueError(
                f"{source} has no column {name!r}; it has "
                f"{', '.join(map(repr, names[:8]))}{' ...' if len(names) > 8 else ''}. "
                f"Name the right one with --{key}-column."
            )
    for one, other in combinations(found, 2):
        if found[one] == found[other]:
            raise UsageProblem(
                f"--{one}-column and --{other}-column are both {found[one]!r}; name two columns"
            )
    return found


def unused_index(schema: Any, options: DataOptions) -> list[str]:
    """Return the columns of a Parquet file that are the index of a pandas frame.

    They are no features, as in pandas.  A column that an option names is not among them.
    """
    return [one for one in index_columns(schema) if one not in options.columns.values()]


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
            file = parquet.ParquetFile(whole, page_checksum_verification=True)
            return file.read().drop_columns(unused_index(file.schema_arrow, options))
        # Ids stay as they are: 007 is not 7.
        text = pyarrow.string()
        ids = (options.columns["qid"], options.columns["docid"])
        table = _read_csv(
            source,
            options.limits,
            parse_options=csv.ParseOptions(
                delimiter="\t" if form == "tsv" else ",",
                newlines_in_values=True,  # or a field of several lines may be cut in two
            ),
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


class TableColumns:
    """The columns of a table that holds some items: label, qid, docid, then the features.

    The items may come in several parts, which :meth:`add` looks at before any is written.
    """

    def __init__(self) -> None:
        self.n_items = self.n_features = self.n_values = 0
        self._names: tuple[str, ...] | None = None
        self._has_labels = self._has_docids = self._has_comments = False
        self._has_qid = self._has_text_ids = False

    def add(self, data: RankingData) -> None:
        """Look at some of the items."""
        has_qid = data.qid is not None
        if self.n_items and has_qid != self._has_qid:
            raise ValueError(
                f"{data.origin.name}: query ids must be on all lines or on none. Add them, or use "
                "--ignore-qid."
            )
        self._has_qid = has_qid
        self._has_text_ids |= has_qid and data.groups.ids.dtype.kind not in "iu"
        self._has_labels |= data.y is not None
        self._has_docids |= data.docids is not None
        self._has_comments |= data.comments is not None
        self._names = data.feature_names
        self.n_items += data.n_items
        self.n_features = max(self.n_features, data.n_features)
        self.n_values += data.X.nnz if is_sparse(data.X) else data.X.size

    def schema(self) -> Any:
        """Return the names and types of the columns."""
        pyarrow = _import_pyarrow()
        size = self.n_items * self.n_features
        if size > 50 * max(1, self.n_values):
            raise UsageProblem(
                f"a table would hold {size:,} values, of which {self.n_values:,} are not zero: "
                "write sparse data as LETOR text"
            )
        if self._has_comments and not self._has_docids:
            note("comments that name no document (docid = ...) have no place in a table")
        kinds = {"label": pyarrow.float64()} if self._has_labels else {}
        if self._has_qid:
            kinds["qid"] = pyarrow.string() if self._has_text_ids else pyarrow.int64()
        if self._has_docids:
            kinds["docid"] = pyarrow.string()
        names = self._names or [f"f{j + 1}" for j in range(self.n_features)]
        taken = sorted(set(names) & set(kinds))
        if taken:
            raise ValueError(f"features have the names of other columns: {', '.join(taken)}")
        return pyarrow.schema(kinds | dict.fromkeys(names, pyarrow.float64()))

    def table(self, data: RankingData, schema: Any) -> Any:
        """Return some of the items as a table with these columns."""
        pyarrow = _import_pyarrow()
        X = data.X.toarray() if is_sparse(data.X) else data.X
        columns: list[Any] = [data.truth] if self._has_labels else []
        if self._has_qid:
            assert data.qid is not None
            columns.append(data.qid.astype(str) if self._has_text_ids else data.qid)
        if self._has_docids:
            columns.append([None] * data.n_items if data.docids is None else list(data.docids))
        columns += [X[:, j] for j in range(X.shape[1])]
        columns += [np.zeros(data.n_items)] * (self.n_features - X.shape[1])
        arrays = [
            pyarrow.array(values, field.type) for values, field in zip(columns, schema, strict=True)
        ]
        return pyarrow.table(arrays, schema=schema)


def write_table(data: RankingData, target: str, form: Format) -> None:
    """Write items as a table."""
    _import_pyarrow()
    from pyarrow import csv, parquet

    columns = TableColumns()
    columns.add(data)
    table = columns.table(data, columns.schema())
    with open_output(target) as file:
        if form == "parquet":
            parquet.write_table(table, file, write_page_checksum=True)
        else:
            separator = "\t" if form == "tsv" else ","
            csv.write_csv(table, file, csv.WriteOptions(delimiter=separator))
