"""Tables in files: CSV and TSV, which are read as a whole, and Parquet, read column by column.

Several files are one table.  A matrix of the numbers of Parquet files is filled a few columns at a
time, in their own precision, so that it takes hardly more memory than itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ranksvm._files import naming
from ranksvm._waiting import blocking
from ranksvm.cli.options import DataOptions, Format
from ranksvm.data.parquet.columns import index_columns
from ranksvm.data.sources import Source, name_of, standard_input, text_blocks

_AT_A_TIME = 1 << 23  # bytes of the columns that are read at a time


def import_pyarrow() -> Any:
    """Return pyarrow, or raise an error that says how to install it."""
    try:
        import pyarrow
    except ImportError:
        raise ImportError(
            "CSV and Parquet files need pyarrow: pip install 'ranksvm[tables]'"
        ) from None
    return pyarrow


def unused_index(schema: Any, options: DataOptions) -> list[str]:
    """Return the columns of a Parquet file that are the index of a pandas frame.

    They are no features, as in pandas.  A column that an option names is not among them.
    """
    return [one for one in index_columns(schema) if one not in options.columns.values()]


class TableFiles:
    """One or several files of one format, as one table.

    Parameters
    ----------
    sources : sequence of (str or binary file)
    form : {"csv", "tsv", "parquet"}
    options : DataOptions
    name : str
        What messages call the files.
    texts : sequence of str
        Columns of CSV files that are texts, whatever they look like.

    Attributes
    ----------
    schema : pyarrow.Schema
        Names and types of the columns.
    n_rows : int
    """

    def __init__(
        self,
        sources: Sequence[Source],
        form: Format,
        options: DataOptions,
        name: str,
        texts: Sequence[str] = (),
    ) -> None:
        pyarrow = import_pyarrow()
        self._form = form
        make = _ParquetFile if form == "parquet" else _TextFile
        self._files = [make(one, form, options, texts) for one in sources]
        schemas = [one.schema for one in self._files]
        for schema in schemas:
            twice = sorted({one for one in schema.names if schema.names.count(one) > 1})
            if twice:
                raise ValueError(f"{name} has several columns called {twice[0]!r}; rename them")
        try:
            self.schema = pyarrow.unify_schemas(schemas, promote_options="permissive")
        except (pyarrow.ArrowInvalid, pyarrow.ArrowTypeError) as error:
            raise ValueError(f"{name}: the columns do not fit together: {error}") from None
        self.n_rows = sum(one.n_rows for one in self._files)

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return list(self.schema.names)

    def empty(self, names: Sequence[str]) -> Any:
        """Return an Arrow table with some of the columns, and no rows."""
        return self.schema.empty_table().select(list(names))

    def read(self, names: Sequence[str]) -> Any:
        """Return some of the columns as an Arrow table."""
        pyarrow = import_pyarrow()
        schema = pyarrow.schema([self.schema.field(name) for name in names])
        parts = [
            one.read([name for name in names if name in one.schema.names]) for one in self._files
        ]
        table = pyarrow.concat_tables(parts, promote_options="permissive")
        return table.select(list(names)).cast(schema)

    def read_texts(self, names: Sequence[str]) -> Any:
        """Return some columns as an Arrow table; an empty text in a CSV file is a missing value."""
        import pyarrow.compute as compute
        from pyarrow import types

        table = self.read(names)
        if self._form == "parquet":
            return table
        for j, field in enumerate(table.schema):
            if types.is_string(field.type):
                column = table.column(j)
                is_empty = compute.equal(column, "")
                table = table.set_column(j, field, compute.if_else(is_empty, None, column))
        return table

    def read_numbers(self, names: Sequence[str]) -> NDArray[Any]:
        """Return columns of numbers as a matrix in Fortran order; missing ones are NaN.

        It is float32 if all columns are exact in it, and one is float32; otherwise float64.
        """
        dtype = self._common_type(names)
        X = np.empty((self.n_rows, len(names)), dtype=dtype, order="F")
        pool = import_pyarrow().default_memory_pool()
        step = max(1, _AT_A_TIME // max(1, self.n_rows * dtype.itemsize))
        for begin in range(0, len(names), step):
            table = self.read(names[begin : begin + step])
            for j in range(table.num_columns):
                X[:, begin + j] = table.column(j).to_numpy()
            del table
            pool.release_unused()  # or it keeps what it had for the largest column
        return X

    def _common_type(self, names: Sequence[str]) -> np.dtype[Any]:
        from pyarrow import types

        kinds = [self.schema.field(name).type for name in names]
        simple = all(
            types.is_boolean(k) or types.is_integer(k) or types.is_floating(k) for k in kinds
        )
        if not simple or not any(types.is_float32(kind) for kind in kinds):
            return np.dtype(np.float64)
        numpy_types = [np.dtype(kind.to_pandas_dtype()) for kind in kinds]
        common = np.result_type(*numpy_types)
        return common if common == np.float32 else np.dtype(np.float64)


class _ParquetFile:
    """A Parquet file, whose columns are read when they are asked for."""

    def __init__(
        self, source: Any, form: Format, options: DataOptions, texts: Sequence[str]
    ) -> None:
        import pyarrow
        from pyarrow import parquet

        del texts
        self._name, self._form = name_of(source), form
        with _named_errors(self._name, form):
            # A Parquet file is read from its end, so a stream is read as a whole first.
            whole = standard_input() if source == "-" else source
            if not isinstance(whole, str):
                whole = pyarrow.BufferReader(blocking(whole).read())
            self._file = parquet.ParquetFile(whole, page_checksum_verification=True)
            schema = self._file.schema_arrow
            unused = unused_index(schema, options)
            self.schema = pyarrow.schema([field for field in schema if field.name not in unused])
            self.n_rows = int(self._file.metadata.num_rows)

    def read(self, names: list[str]) -> Any:
        import pyarrow

        if not names:  # a table without columns has no rows, either
            return pyarrow.table({"": pyarrow.nulls(self.n_rows)})
        with _named_errors(self._name, self._form):
            return self._file.read(columns=names).select(names)


class _TextFile:
    """A CSV or TSV file, read as a whole."""

    def __init__(
        self, source: Any, form: Format, options: DataOptions, texts: Sequence[str]
    ) -> None:
        import pyarrow
        from pyarrow import csv

        with _named_errors(name_of(source), form):
            # Ids stay as they are: 007 is not 7.
            ids = (options.columns["qid"], options.columns["docid"], *texts)
            self._table = _read_csv(
                source,
                options.limits,
                parse_options=csv.ParseOptions(
                    delimiter="\t" if form == "tsv" else ",",
                    newlines_in_values=True,  # or a field of several lines may be cut in two
                ),
                convert_options=csv.ConvertOptions(
                    column_types=dict.fromkeys(ids, pyarrow.string())
                ),
            )
            self._table.column_names  # noqa: B018 (names are decoded when they are asked for)
            self.schema = self._table.schema
            self.n_rows = int(self._table.num_rows)

    def read(self, names: list[str]) -> Any:
        import pyarrow

        if not names:
            return pyarrow.table({"": pyarrow.nulls(self.n_rows)})
        return self._table.select(names)


@contextmanager
def _named_errors(name: str, form: Format) -> Iterator[None]:
    """Raise the errors of pyarrow with the name of the file."""
    import pyarrow

    try:
        yield
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
