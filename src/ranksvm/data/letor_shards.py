"""Rows of LETOR text, which is converted once into a cache (:mod:`ranksvm.data.letor_cache`).

The parts of the cache are dense or CSR.  The rule of :func:`ranksvm.data.svmlight.load_letor`, for
all rows together, decides what X is.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ranksvm._messages import Message, Param, ParameterError
from ranksvm._vectors import Array, Rows
from ranksvm.data.letor_cache import LetorCache, Part
from ranksvm.data.letor_parts import IGNORE, INDEX, OPTIONS, Progress
from ranksvm.data.queries import by_appearance
from ranksvm.data.row_sources import RowSource
from ranksvm.data.svmlight import LetorError, is_dense_better


class LetorSource(RowSource):
    """The rows of LETOR text, from its cache; the cache is made if there is none.

    Parameters
    ----------
    paths : sequence of str
        Texts, plain or compressed, in the order of the rows.
    cache : str or None
        Folder for the caches; None: beside each text.
    dtype : dtype
        Type of X.
    block_bytes : int
        About the size of a part; the conversion needs a few times this memory.
    n_features : int or None
        Number of columns; None for the largest index.
    options : mapping
        How to read the text; see ``OPTIONS`` of :mod:`ranksvm.data.letor_parts`.
    ignore_qid : bool
        Whether there are no query ids, whatever the lines have.
    n_threads : int
        Number of threads for the conversion.
    progress : callable or None
        Called as ``progress(done, total)`` with bytes of text while a cache is made.
    """

    def __init__(
        self,
        paths: Sequence[str],
        *,
        cache: str | None = None,
        dtype: np.dtype[Any],
        block_bytes: int,
        n_features: int | None = None,
        options: Mapping[str, Any] | None = None,
        ignore_qid: bool = False,
        n_threads: int = 1,
        progress: Progress | None = None,
    ) -> None:
        super().__init__()
        unknown = sorted(set(options or ()) - set(OPTIONS))
        if unknown:
            raise TypeError(f"LETOR text has no option {unknown[0]!r}; it has {', '.join(OPTIONS)}")
        how = {**OPTIONS, **(options or {}), "qid": "ignore" if ignore_qid else "auto"}
        self._parts = list[Part]()
        self.file_rows = list[int]()  # number of items of each text
        total = sum(os.path.getsize(path) for path in paths)
        before = 0
        has_qid: bool | None = None
        for path in paths:

            def advance(done: int, _: int | None, before: int = before) -> None:
                if progress is not None:
                    progress(before + done, total)

            found = LetorCache(path, cache, dtype, how).open(block_bytes, n_threads, advance)
            before += os.path.getsize(path)
            # A cache may have ids that are to be ignored.
            ids = not ignore_qid and found[0].header["ids"] is not None
            if has_qid is not None and ids != has_qid:
                message = Message(
                    "has {no}query ids, unlike {first}. Add the query id to every line of all "
                    "files, or use {ignore} for one global ranking",
                    no="" if ids else "no ",
                    first=paths[0],
                    ignore=IGNORE,
                )
                raise LetorError(message, path)
            has_qid = ids
            self.file_rows.append(sum(part.rows for part in found))
            self._parts += [part for part in found if part.rows]
        self.has_qid = bool(has_qid)
        self.dtype = dtype
        self._starts: Rows = np.cumsum([0] + [part.rows for part in self._parts])
        self.n_items = int(self._starts[-1])
        width = max(part.width for part in self._parts)
        if n_features is not None and n_features < width:
            raise ParameterError(
                "{path} has {width} features, more than {n_features}. Leave {n_features} out, or "
                "give the number of features of the training set.",
                path=paths[0] if len(paths) == 1 else "the text",
                width=width,
                n_features=Param("n_features", n_features),
            )
        self.n_features = width if n_features is None else n_features
        nonzeros = sum(int(part.header["nonzeros"]) for part in self._parts)
        self.is_sparse = not is_dense_better(self.n_items, self.n_features, nonzeros, dtype)

    def vectors(self) -> tuple[Array, Rows | None, NDArray[Any] | None]:
        """Return labels, query ids, and the texts that the ids stand for.

        The ids are numbers, and the texts None, if all ids are integers in their usual form.
        """
        y = np.empty(self.n_items)
        for part, start in zip(self._parts, self._starts.tolist(), strict=False):
            y[start : start + part.rows] = part.array("y")
        if not self.has_qid:
            return y, None, None
        qid = np.empty(self.n_items, dtype=np.int64)
        as_text = any(part.header["ids"] == "text" for part in self._parts)
        numbers: dict[str, int] = {}
        for part, start in zip(self._parts, self._starts.tolist(), strict=False):
            codes = part.array("qid")
            if as_text:
                if part.header["ids"] == "text":
                    texts = part.array("ids").tobytes().decode("utf-8").split("\n")
                else:  # integers in their usual form
                    distinct, codes = by_appearance(codes)
                    texts = list(map(str, distinct.tolist()))
                known = [numbers.setdefault(text, len(numbers)) for text in texts]
                codes = np.array(known, dtype=np.int64)[codes]
            qid[start : start + part.rows] = codes
        return y, qid, np.array(list(numbers)) if as_text else None

    def read(self, begin: int, end: int) -> Any:
        parts = list[Any]()
        out: Any = None
        if not self.is_sparse:
            out = self.pool.empty((end - begin, self.n_features), self.dtype)
        first = int(np.searchsorted(self._starts, begin, side="right")) - 1
        for k in range(first, len(self._parts)):
            part, start = self._parts[k], int(self._starts[k])
            if start >= end:
                break
            rows = max(begin, start) - start, min(end, start + part.rows) - start
            with part.opened() as file:
                if self.is_sparse:
                    parts.append(self._read_sparse(file, part, *rows))
                else:
                    inside = out[start + rows[0] - begin : start + rows[1] - begin]
                    self._read_dense(file, part, *rows, inside)
        return _stacked(parts, self.n_features) if self.is_sparse else out

    def _read_dense(self, file: Any, part: Part, begin: int, end: int, out: NDArray[Any]) -> None:
        width = part.width
        if "x" not in part.header["arrays"]:
            values, indices, indptr = self._read_csr(file, part, begin, end)
            out[...] = 0.0
            out[np.repeat(np.arange(end - begin), np.diff(indptr)), indices] = values
        elif width == self.n_features:
            part.read(file, "x", begin, out)
        else:
            inside = np.empty((end - begin, width), dtype=self.dtype)
            part.read(file, "x", begin, inside)
            out[:, :width] = inside
            out[:, width:] = 0.0

    def _read_sparse(self, file: Any, part: Part, begin: int, end: int) -> Any:
        if "x" not in part.header["arrays"]:
            return self._read_csr(file, part, begin, end)
        dense = np.empty((end - begin, part.width), dtype=self.dtype)
        part.read(file, "x", begin, dense)
        rows, indices = np.nonzero(dense)
        indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=end - begin))])
        return dense[rows, indices], indices.astype(INDEX), indptr

    def _read_csr(self, file: Any, part: Part, begin: int, end: int) -> Any:
        indptr = np.empty(end - begin + 1, dtype=np.int64)
        part.read(file, "indptr", begin, indptr)
        first, last = int(indptr[0]), int(indptr[-1])
        indices = np.empty(last - first, dtype=INDEX)
        values = np.empty(last - first, dtype=self.dtype)
        part.read(file, "indices", first, indices)
        part.read(file, "values", first, values)
        return values, indices, indptr - first

    def identity(self) -> str:
        # The checksum of a header stands for the values, too: it covers their checksums.
        found = [(os.path.realpath(part.path), part.checksum) for part in self._parts]
        return repr((found, self.n_features, self.dtype.str))

    def row_bytes(self) -> Rows | None:
        if not self.is_sparse:
            return None
        each = self.dtype.itemsize + INDEX.itemsize
        found = np.zeros(self.n_items + 1, dtype=np.int64)
        for part, start in zip(self._parts, self._starts.tolist(), strict=False):
            if "x" in part.header["arrays"]:
                with part.opened() as file:
                    _, _, indptr = self._read_sparse(file, part, 0, part.rows)
            else:
                indptr = part.array("indptr")
            ends = found[start] + indptr[1:] * each
            found[start + 1 : start + part.rows + 1] = ends + INDEX.itemsize * np.arange(
                1, part.rows + 1
            )
        return found

    def where(self, row: int, column: int | None = None) -> str:
        k = int(np.searchsorted(self._starts, row, side="right")) - 1
        part = self._parts[k]
        first = k
        while first and self._parts[first - 1].source == part.source:
            first -= 1
        item = row - int(self._starts[first]) + 1
        place = f"{part.source}, item {item}"
        if column is None:
            return place
        return f"{place}, feature {column + (0 if part.header['options']['zero_based'] else 1)}"


def _stacked(parts: Sequence[Any], n_features: int) -> Any:
    from scipy import sparse

    before = np.cumsum([0] + [int(indptr[-1]) for _, _, indptr in parts]).tolist()
    indptr = [part[2][:-1] + shift for part, shift in zip(parts, before, strict=False)]
    whole = np.concatenate([*indptr, before[-1:]]).astype(INDEX)
    values = np.concatenate([part[0] for part in parts])
    indices = np.concatenate([part[1] for part in parts])
    X = sparse.csr_array((values, indices, whole), shape=(whole.size - 1, n_features), copy=False)
    X.has_canonical_format = True
    return X
