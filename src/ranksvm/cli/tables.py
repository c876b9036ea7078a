"""Tables: CSV, TSV and Parquet files with named columns, through pyarrow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ranksvm._checks import check_item_weight
from ranksvm._messages import UserError
from ranksvm._sparse import is_sparse
from ranksvm._text import counted, listed, progress
from ranksvm._values import as_float, exact_vector, finite_values, merges_values
from ranksvm._vectors import Array
from ranksvm.cli.options import DataOptions, Format
from ranksvm.cli.output import UsageProblem, note
from ranksvm.cli.table_choice import chosen_features, known_features, special_columns
from ranksvm.cli.table_files import TableFiles, import_pyarrow
from ranksvm.cli.write import open_output
from ranksvm.data.frames import check_numeric, split_frame
from ranksvm.data.queries import ids_from_text
from ranksvm.data.ranking_data import Origin, RankingData
from ranksvm.data.sources import Source
from ranksvm.data.table_encoding import TableEncoding
from ranksvm.estimators.plain import is_finite
from ranksvm.learners.weights import check_query_weight

# Columns with weights, and their options.
WEIGHTS = {"weight": "--weight-column", "query_weight": "--query-weight-column"}


def read_tables(
    sources: Sequence[Source],
    form: Format,
    options: DataOptions,
    name: str,
    *,
    labels: bool,
    wanted: Sequence[str] | None,
    documents: bool,
    like: Origin | None,
) -> RankingData:
    """Read tables of one format as one set; see ``inputs.read_data``."""
    encoding = None if like is None else like.encoding
    categories = () if encoding is None else [encoding.column_name(j) for j in encoding.values]
    with progress(f"reading {name}"):
        tables = TableFiles(sources, form, options, name, categories)
        if tables.n_rows == 0:
            raise ValueError(f"{name} has no rows")
        named = special_columns(tables.names, options, name, labels=labels)
        others = [one for one in tables.names if one not in named.values()]
        if wanted is None:
            chosen = chosen_features(others, options, name)
        else:
            chosen = known_features(others, wanted, like, name)
        try:
            _, columns = split_frame(tables.read(list(named.values())), **named)
            has_ids = "qid" in named or options.ignore_qid
            X, encoding = _features(
                tables, chosen, options, encoding, wanted is None, has_ids, name
            )
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
        ids = tables.read([named["docid"]]).column(0).to_pylist()
        document_ids = [None if one in (None, "") else str(one) for one in ids]
    names = chosen if encoding is None else encoding.feature_names
    data = RankingData(
        X,
        y,
        qid,
        feature_names=None if names is None else tuple(map(str, names)),
        document_ids=document_ids,
        origin=Origin(
            name,
            frame_columns=tuple(one for one in tables.names if one not in chosen),
            label_column=named.get("label"),
            qid_column=None if qid is None else named["qid"],
            docid_column=named.get("docid"),
            encoding=encoding,
        ),
    )
    return with_weights(data, columns, named)


def _features(
    tables: TableFiles,
    chosen: list[str],
    options: DataOptions,
    encoding: TableEncoding | None,
    is_first: bool,
    has_ids: bool,
    name: str,
) -> tuple[Any, TableEncoding | None]:
    """Return the matrix of the features, and what the columns became in it, if not numbers.

    ``is_first``: no model or training set says what the columns are.
    """
    if encoding is not None:
        lacking = [repr(one) for one in encoding.columns or () if one not in chosen]
        if lacking:
            raise ValueError(
                f"it lacks {len(lacking)} of the {encoding.n_columns} columns of the model: "
                f"{listed(lacking, most=20)}."
            )
        from ranksvm.data.table_features import encode

        table = tables.read_texts(chosen)
        return encode(encoding, table, zero=options.missing == "zero"), encoding
    if is_first and options.may_encode:
        from ranksvm.data.table_kinds import check_no_ids, text_columns

        if not has_ids:
            check_no_ids(tables.empty(chosen))
        if text_columns(tables.empty(chosen)) or (options.imputes and chosen):
            return _learned_features(tables.read_texts(chosen), options, name)
    check_numeric(tables.empty(chosen), other="docid")
    X = tables.read_numbers(chosen)
    _fill(X, chosen, options)
    return X, None


def _learned_features(
    table: Any, options: DataOptions, name: str
) -> tuple[Any, TableEncoding | None]:
    """Learn from a training set what its columns become, and tell."""
    from ranksvm.data.table_features import encode
    from ranksvm.estimators.encodings import learn_encoding

    zero = options.missing == "zero"
    encoding = learn_encoding(
        table,
        missing="impute" if options.imputes else "error",
        min_frequency=options.frequency,
    )
    assert encoding is not None
    if encoding.values:
        texts = [f"{encoding.column_name(j)!r} ({len(v)})" for j, v in encoding.values.items()]
        note(
            f"{name}: {'this column is' if len(texts) == 1 else 'these columns are'} a category, "
            f"with one feature for each value: {listed(texts)}. --drop leaves columns out."
        )
    X = encode(encoding, table, zero=zero)
    if not is_sparse(X):
        _fill(X, [encoding.feature_name(k) for k in range(encoding.n_features)], options)
    return X, encoding


def with_weights(
    data: RankingData, columns: Mapping[str, Any], named: Mapping[str, str]
) -> RankingData:
    """Return a data set with the weights of its items and queries, if there are such columns."""
    name = data.origin.name
    for key, flag in WEIGHTS.items():
        if key not in named:
            continue
        values = columns[key]
        try:
            if key == "weight":
                weight = check_item_weight(values, data.n_items)
                data = replace(data, item_weight=weight).with_groups(data.groups)
            else:
                weight = _query_weight(values, data)
                data = replace(data, query_weight=weight).with_groups(data.groups)
        except (TypeError, ValueError) as error:
            raise ValueError(f"{name}: {flag} {named[key]!r}: {error}") from None
    return data


def _query_weight(values: Any, data: RankingData) -> Array | None:
    """Return the weights of the queries, of which every item has that of its query."""
    if data.qid is None:
        raise UsageProblem("--query-weight-column needs query ids (--qid-column)")
    groups = data.groups
    found = np.asarray(values, dtype=np.float64)
    first = found[groups.rows[groups.offsets[:-1]]]
    differs = found != first[groups.index]
    if differs.any():
        row = int(np.argmax(differs))
        raise ValueError(
            f"the items of a query must have the same weight, and those of query "
            f"{groups.ids[groups.index[row]]} have {first[groups.index[row]]:g} and {found[row]:g}"
        )
    return check_query_weight(first, groups)


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


def _fill(X: Array, names: Sequence[str], options: DataOptions) -> None:
    """Refuse missing values, or make them zero, in place."""
    if options.missing == "nan" or is_finite(X, options.jobs):
        return
    for j, name in enumerate(names):
        absent = np.isnan(X[:, j])
        if not absent.any():
            continue
        if options.missing == "error":
            impute = " or --missing impute" if options.may_encode else ""
            raise ValueError(
                f"column {name!r} has {counted(int(absent.sum()), 'missing value')}, the first in "
                f"item {int(np.argmax(absent)) + 1}. Fill them in, or use --missing zero{impute}."
            )
        X[absent, j] = 0.0


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
        pyarrow = import_pyarrow()
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
        pyarrow = import_pyarrow()
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
    import_pyarrow()
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
