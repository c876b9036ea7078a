"""Messages that name parameters as ``max_iter=5`` in Python and ``--max-iter 5`` in the shell.

A message keeps parameters and row numbers separate from its text:

    Message("{solver} stopped; raise {max_iter}.", solver="newton", max_iter=Param("max_iter"))

``str`` formats it for Python.  Another :class:`Door`, such as that of the command line, formats it
for its own users.
"""

from __future__ import annotations

from typing import Any, Protocol, Self

__all__ = [
    "PYTHON",
    "Door",
    "Message",
    "MessageWarning",
    "Param",
    "ParameterError",
    "Row",
    "TooLittleMemoryError",
    "UserError",
    "told",
]


class Door(Protocol):
    """How parameters and rows are written for the users of one interface of the library."""

    def parameter(self, param: Param) -> str:
        """Return the name of a parameter, with its values if it has any."""
        ...

    def row(self, row: Row) -> str:
        """Return the name of a row of X, with the column if there is one."""
        ...


class Param:
    """A parameter in a message: its name, or ``name=value``, or ``name=one or another``.

    ``option`` is the text for the command line, where that does not follow from the name and the
    values.
    """

    def __init__(self, name: str, *values: Any, option: str | None = None) -> None:
        self.name, self.option = name, option
        # Without the type names in the ``repr`` of NumPy scalars.
        self.values = tuple(map(_plain, values))

    def told(self, door: Door) -> str:
        return door.parameter(self)

    def __str__(self) -> str:
        return self.told(PYTHON)


def _plain(value: Any) -> Any:
    """Convert a NumPy scalar to Python, without importing NumPy (for a fast `ranksvm --help`)."""
    return value.item() if getattr(value, "ndim", None) == 0 else value


class Row:
    """A row of X in a message, or one entry of it; numbers start at 0."""

    def __init__(self, number: int, column: int | None = None) -> None:
        self.number, self.column = int(number), None if column is None else int(column)

    def told(self, door: Door) -> str:
        return door.row(self)

    def __str__(self) -> str:
        return self.told(PYTHON)


class Message:
    """A format string with named parts: messages, parameters, rows, or any other values."""

    def __init__(self, text: str, **parts: Any) -> None:
        self.text, self.parts = text, parts

    def told(self, door: Door) -> str:
        return self.text.format(**{name: told(part, door) for name, part in self.parts.items()})

    def __str__(self) -> str:
        return self.told(PYTHON)


class _Python:
    def parameter(self, param: Param) -> str:
        if not param.values:
            return param.name
        return f"{param.name}={' or '.join(map(repr, param.values))}"

    def row(self, row: Row) -> str:
        return f"row {row.number}" + ("" if row.column is None else f", column {row.column}")


PYTHON: Door = _Python()


def told(part: Any, door: Door = PYTHON) -> Any:
    """Format a message, or a part of one, for a door; return other values unchanged."""
    return part.told(door) if isinstance(part, Message | Param | Row | UserError) else part


class UserError(Exception):
    """An error that users can cause; ``parts`` as for :class:`Message`.

    Attributes
    ----------
    parameter, value
        The first parameter in the message, and its value; None if there is none.
    remedy : Message, str or None
        The part of the message that says what to do, if it is a separate part.
    """

    def __init__(self, text: str, **parts: Any) -> None:
        self.message = Message(text, **parts)
        super().__init__(str(self.message))
        named = [part for part in parts.values() if isinstance(part, Param)]
        self.parameter = named[0].name if named else None
        self.value = named[0].values[0] if named and named[0].values else parts.get("value")
        self.remedy = parts.get("remedy")

    def told(self, door: Door) -> str:
        return self.message.told(door)

    def after(self, where: str) -> Self:
        """Return the same error, with its message prefixed by where it happened."""
        return type(self)("{where}{what}", where=where, what=self.message)

    def __reduce__(self) -> Any:
        return _restore, (type(self), self.message.text, self.message.parts)


def _restore(kind: Any, text: str, parts: dict[str, Any]) -> Any:
    return kind(text, **parts)


class ParameterError(UserError, ValueError):
    """An invalid parameter or input."""


class TooLittleMemoryError(UserError, MemoryError):
    """A task that does not fit into memory."""


class MessageWarning(UserWarning):
    """A warning that names parameters; ``parts`` as for :class:`Message`."""

    def __init__(self, text: str, **parts: Any) -> None:
        self.message = Message(text, **parts)
        super().__init__(str(self.message))

    def __reduce__(self) -> Any:
        return _restore, (type(self), self.message.text, self.message.parts)
