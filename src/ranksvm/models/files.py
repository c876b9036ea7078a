"""Writing and reading model files; the format is described in :mod:`ranksvm.models`."""

from __future__ import annotations

import os
import reprlib
import stat
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, BinaryIO, NoReturn

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors import numpy as safetensors

from ranksvm._contents import (
    COMPRESSIONS,
    HEAD_BYTES,
    LETOR,
    OTHER_FILES,
    is_svmrank,
    starts_with,
)
from ranksvm._files import atomic_write, naming
from ranksvm._text import printable
from ranksvm._version import library_version
from ranksvm._waiting import blocking, file_name
from ranksvm.data.scaling import scaling_arrays, scaling_from
from ranksvm.data.table_encoding import FACT
from ranksvm.models.description import (
    check_extent,
    checksum,
    from_json,
    plain,
    restored,
    to_json,
)
from ranksvm.models.formats import check_model, own_arrays, sorted_names
from ranksvm.models.model import Model, ModelFileError

SCHEMA = 2
TEXT = "ranksvm"  # key of the description in the metadata
ENTRIES: dict[str, type | tuple[type, ...]] = {
    "schema": int,
    "written_by": str,
    "kind": str,
    "params": dict,
    "feature_names": (list, type(None)),
    "facts": dict,
    "sha256": str,
}
TYPES = ("F64", "F32", "I64", "I32")  # as safetensors calls them

LONGEST_HEADER = 100_000_000  # bytes; the limit of safetensors
LARGEST_BODY = 2**33  # bytes: a billion weights
PIECE = 2**20  # bytes to read at a time

COPY_AGAIN = "copy the file again or save the model again"
GIVE_ANOTHER = "use a file that was written by `save` or `ranksvm train`"
UPDATE = "update ranksvm"
DECOMPRESS = "decompress it first"

CONVERT = "read it with ranksvm.export.read_svmrank or `ranksvm convert`"


def write_model(target: str | os.PathLike[str] | BinaryIO, model: Model) -> None:
    """Write a model file.

    Parameters
    ----------
    target : path-like or binary file
        A path is replaced atomically: if anything goes wrong, an existing file stays as it was.
    model : Model
        The model to write.

    Raises
    ------
    TypeError, ValueError
        If a model file cannot represent the model.
    OSError
        If the file cannot be written.
    """
    try:
        content = _to_bytes(model)
    except (TypeError, ValueError) as error:
        wrong = TypeError if isinstance(error, TypeError) else ValueError
        name = os.fspath(target) if isinstance(target, str | os.PathLike) else file_name(target)
        raise wrong(f"cannot save the model to {name}: {error}") from None
    if not isinstance(target, str | os.PathLike):
        with naming(file_name(target)):
            target.write(content)
        return
    with atomic_write(target) as file:
        file.write(content)


def read_model(
    source: str | os.PathLike[str] | BinaryIO, models: Mapping[str, type[Model]]
) -> Model:
    """Read a model file.

    Parameters
    ----------
    source : path-like or binary file
        A file object, for example a pipe, is read from its current position to its end.
    models : mapping of str to type
        Model classes by the names of their formats.

    Returns
    -------
    Model
        Its arrays are copies, in native byte order.

    Raises
    ------
    ModelFileError
        If the file is not a model, or is truncated, damaged, or written by a newer version.
    OSError
        If the file does not exist or cannot be read.
    """
    if not isinstance(source, str | os.PathLike):
        if not hasattr(source, "read"):
            raise TypeError(
                "a model is read from a path or a file opened in binary mode; got "
                f"{type(source).__name__}"
            )
        return _Reader(blocking(source), file_name(source), None, models).model()
    name = os.fspath(source)
    try:
        with open(name, "rb") as file:
            status = os.fstat(file.fileno())
            size = status.st_size if stat.S_ISREG(status.st_mode) else None
            return _Reader(file, name, size, models).model()
    except IsADirectoryError:
        raise ModelFileError(f"{name}: not a model file but a directory; {GIVE_ANOTHER}.") from None


def _quoted(error: Exception) -> str:
    """Return the message of an error, shortened and printable because it may quote the file."""
    return printable(str(error)[:300])


def _to_bytes(model: Model) -> bytes:
    every = {**model.arrays(), **scaling_arrays(model.scaling)}
    arrays = {name: _little_endian(np.asarray(array)) for name, array in every.items()}
    names = model.feature_names
    if names is not None and not isinstance(names, list | tuple):
        raise TypeError(f"feature_names must be a tuple of strings; got {type(names).__name__}")
    entries = {
        "schema": 2 if FACT in model.facts else 1,  # older versions can read the latter
        "written_by": library_version(),
        "kind": model.kind,
        "params": plain(dict(model.params), "params", depth=1),
        "feature_names": plain(names, "feature_names", depth=1),
        "facts": plain(dict(model.facts), "facts", depth=1),
    }
    check_model(model.kind, model.FORMATS, arrays, entries["feature_names"], model.facts)
    size = sum(array.nbytes for array in arrays.values())
    if size > LARGEST_BODY:
        raise ValueError(
            f"its arrays take {size} bytes, but a model file can hold at most {LARGEST_BODY}; use "
            "fewer items or features, or an approximation"
        )
    entries["sha256"] = checksum(entries, arrays)
    # A single metadata entry, because older versions of safetensors write several in any order.
    text = to_json(entries)
    try:
        check_extent(text.encode("ascii"))
    except ValueError as error:
        raise ValueError(f"names, parameters and facts contain {error}") from None
    content = safetensors.save(arrays, metadata={TEXT: text})
    length = int.from_bytes(content[:8], "little")
    if length > LONGEST_HEADER:
        raise ValueError(
            f"names, parameters and facts take {length} bytes, but a model file can hold at most "
            f"{LONGEST_HEADER}; shorten the feature names or drop them"
        )
    return content


def _little_endian(array: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")


class _Reader:
    """Reads a model from a file in one pass; ``size`` is None unless it is a regular file."""

    def __init__(
        self, file: BinaryIO, name: str, size: int | None, models: Mapping[str, type[Model]]
    ) -> None:
        self.file = file
        self.name = name
        self.size = size
        self.models = models

    def model(self) -> Model:
        head, header = self._head()
        table = self._parsed(header, "its header")
        entries, values = self._description(table)
        start = len(head) + len(header)
        end = start + self._body_length(table)
        if self.size is not None:
            self._check_size(self.size, end)
        body = self._take(end - start + 1)
        self._check_size(start + len(body), end)
        try:
            loaded = safetensors.load(b"".join((head, header, body)))
        except (SafetensorError, ValueError, OverflowError) as error:
            self._damaged(_quoted(error))
        arrays = {name: _little_endian(array) for name, array in loaded.items()}
        if entries.pop("sha256") != checksum(entries, arrays):
            self._refuse("checksum mismatch: the file is damaged or was edited", COPY_AGAIN)
        kind, names = values["kind"], values["feature_names"]
        model_class = self.models[kind]
        try:
            check_model(kind, model_class.FORMATS, arrays, names, values["facts"])
        except ValueError as error:
            self._refuse(f"not a valid model ({_quoted(error)})", GIVE_ANOTHER)
        native = {k: np.array(v, dtype=v.dtype.newbyteorder("=")) for k, v in arrays.items()}
        own, of_scaling = own_arrays(native)
        model = model_class.from_arrays(
            own,
            params=values["params"],
            facts=values["facts"],
            feature_names=None if names is None else tuple(names),
        )
        if not of_scaling:
            return model
        return replace(model, scaling=scaling_from(of_scaling, model.n_columns))

    def _take(self, count: int) -> bytes:
        """Read up to ``count`` bytes, without allocating memory in advance."""
        pieces = []
        while count > 0:
            with naming(self.name):
                piece = self.file.read(min(count, PIECE))
            if not isinstance(piece, bytes):
                raise TypeError(
                    f"{self.name}: a model is read from a path or a file opened in binary mode; "
                    f"read() returned a {type(piece).__name__}"
                )
            if not piece:
                break
            pieces.append(piece)
            count -= len(piece)
        return b"".join(pieces)

    def _head(self) -> tuple[bytes, bytes]:
        """Return the first eight bytes and the header."""
        head = self._take(8)
        if not head:
            self._refuse("not a model file: it is empty", GIVE_ANOTHER)
        length = int.from_bytes(head, "little")
        if len(head) == 8 and 0 < length <= LONGEST_HEADER:
            header = self._take(length)
            if not header or header.startswith(b"{"):
                self._check_size(8 + len(header), 8 + length)
                return head, header
        head += self._take(HEAD_BYTES - len(head))
        if is_svmrank(head):
            self._refuse("not a model file but a model of SVM^light or SVM^rank", CONVERT)
        compression, what = starts_with(head, COMPRESSIONS), starts_with(head, OTHER_FILES)
        if compression is not None:
            self._refuse(f"not a model file but compressed with {compression}", DECOMPRESS)
        if what is not None or LETOR.is_it(head):
            self._refuse(f"not a model file but {what or 'ranking data'}", GIVE_ANOTHER)
        self._refuse("not a ranksvm model", GIVE_ANOTHER)

    def _parsed(self, text: bytes, what: str) -> dict[str, Any]:
        try:
            check_extent(text)
        except ValueError as error:
            self._refuse(f"not a model file: {what} contains {error}", GIVE_ANOTHER)
        try:
            value = from_json(text.decode("utf-8"))
        except (ValueError, RecursionError) as error:
            self._damaged(f"{what} is not valid JSON ({_quoted(error)})")
        if not isinstance(value, dict):
            self._damaged(f"{what} is a {type(value).__name__}")
        return value

    def _description(self, table: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Remove the description from the table of arrays; return it as written and decoded."""
        texts = table.pop("__metadata__", None)
        if not isinstance(texts, dict) or not isinstance(texts.get(TEXT), str):
            arrays = sorted_names(table) or "none"
            self._refuse(f"a safetensors file of another program (arrays: {arrays})", GIVE_ANOTHER)
        text = texts[TEXT].encode("utf-8", "surrogatepass")
        entries = self._parsed(text, "its description")
        self._check_version(entries)
        absent = ", ".join(name for name in ENTRIES if name not in entries)
        if absent:
            self._damaged(f"its description has no {absent}")
        unknown = sorted_names(entries.keys() - ENTRIES.keys())
        if unknown:
            self._damaged(f"its description has unknown entries: {unknown}")
        try:
            values: dict[str, Any] = restored(entries)
        except ValueError as error:
            self._damaged(_quoted(error))
        for name, value in values.items():
            if not isinstance(value, ENTRIES[name]):
                self._damaged(f"{name} in its description is a {type(value).__name__}")
        return entries, values

    def _check_version(self, entries: dict[str, Any]) -> None:
        """Check the entries that every schema has: its number, the version and the kind."""
        schema, kind, version = (entries.get(name) for name in ("schema", "kind", "written_by"))
        there = printable(version[:40]) if isinstance(version, str) else "of an unknown version"
        if type(schema) is not int or schema < 1:
            self._damaged(f"its schema is {reprlib.repr(schema)}")
        if schema > SCHEMA:
            self._refuse(
                f"written by a newer version, ranksvm {there}, in schema {reprlib.repr(schema)}; "
                f"this is ranksvm {library_version()}, which reads schemas up to {SCHEMA}",
                UPDATE,
            )
        if isinstance(kind, str) and kind not in self.models:
            self._refuse(
                f"a model of kind {reprlib.repr(kind)}, written by ranksvm {there}; this is "
                f"ranksvm {library_version()}, which reads only {sorted_names(self.models)}",
                UPDATE,
            )

    def _body_length(self, table: dict[str, Any]) -> int:
        """Return the size of the arrays according to the header; safetensors checks the rest."""
        length = 0
        for name, entry in table.items():
            what = f"array {reprlib.repr(name)} in its header"
            if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
                self._damaged(f"{what} must have dtype, shape and data_offsets")
            if entry["dtype"] not in TYPES:
                self._damaged(f"{what} has dtype {reprlib.repr(entry['dtype'])}")
            offsets = entry["data_offsets"]
            if not isinstance(offsets, list) or [type(one) for one in offsets] != [int, int]:
                self._damaged(f"{what} has the offsets {reprlib.repr(offsets)}")
            length = max(length, *offsets)
        if length > LARGEST_BODY:
            claim = reprlib.repr(length)
            self._refuse(
                f"its header claims {claim} bytes of arrays; the limit is {LARGEST_BODY}",
                COPY_AGAIN,
            )
        return length

    def _check_size(self, found: int, expected: int) -> None:
        if found < expected:
            self._refuse(f"truncated: {found} bytes, expected {expected}", COPY_AGAIN)
        if found > expected:
            got = f"{found} bytes, expected {expected}"
            if self.size is None:  # only one byte too many was read
                got = f"more than the expected {expected} bytes"
            self._damaged(got)

    def _damaged(self, what: str) -> NoReturn:
        self._refuse(f"damaged: {what}", COPY_AGAIN)

    def _refuse(self, what: str, remedy: str) -> NoReturn:
        raise ModelFileError(f"{self.name}: {what}; {remedy}.") from None
