"""Messages that name parameters, told by each door in its own words.

The same trouble is told to somebody who wrote ``max_iter=5`` in Python and to somebody who typed
``--max-iter 5``.  So a message keeps its parameters and row numbers apart from its text:

    Message("{solver} stopped; raise {max_iter}.", solver="newton", max_iter=Param("max_iter"))

``str`` tells it in Python's words; a :class:`Door` of another kind, such as the command line, in
its own.
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
    "TooLargeError",
    "TooLittleMemoryError",
    "UserError",
    "told",
]


class Door(Protocol):
    """How parameters and rows are called where a message is read."""

    def parameter(self, param: Param) -> str:
        """Return a parameter with the values that it has or may have; none: its name alone."""
        ...

    def row(self, row: Row) -> str:
        """Return a row of X, and a column if there is one."""
        ...


class Param:
    """A parameter in a message: its name, or ``name=value``, or ``name=one or another``.

    ``option`` is what the command line calls it with its values, where that does not follow from
    the name.
    """

    def __init__(self, name: str, *values: Any, option: str | None = None) -> None:
        self.name, self.option = name, option
        # Numbers of NumPy are shown as those of Python.
        self.values = tuple(map(_plain, values))

    def told(self, door: Door) -> str:
        return door.parameter(self)

    def __str__(self) -> str:
        return self.told(PYTHON)


def _plain(value: Any) -> Any:
    """Return a scalar of NumPy, which `ranksvm --help` does without, as one of Python."""
    return value.item() if getattr(value, "ndim", None) == 0 else value


class Row:
    """A row of X in a message, or an entry of it; counted from 0."""

    def __init__(self, number: int, column: int | None = None) -> None:
        self.number, self.column = int(number), None if column is None else int(column)

    def told(self, door: Door) -> str:
        return door.row(self)

    def __str__(self) -> str:
        return self.told(PYTHON)


class Message:
    """A text with named parts in braces: other messages, parameters, rows, or anything at all."""

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
    """Return a message or a part of one in the words of a door; other things as they are."""
    return part.told(door) if isinstance(part, Message | Param | Row | UserError) else part


class UserError(Exception):
    """An error that a user can cause; ``parts`` as for :class:`Message`.

    Attributes
    ----------
    parameter, value
        The first parameter that the message names, and its value; None if there is none.
    remedy : Message, str or None
        What to do, where it is told by itself.
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
        """Return the same error with a text in front that says where it happened."""
        return type(self)("{where}{what}", where=where, what=self.message)

    def __reduce__(self) -> Any:
        return _made, (type(self), self.message.text, self.message.parts)


def _made(kind: Any, text: str, parts: dict[str, Any]) -> Any:
    return kind(text, **parts)


class ParameterError(UserError, ValueError):
    """A parameter, or an input, that cannot be used."""


class TooLargeError(UserError, OverflowError):
    """Numbers beyond float64."""


class TooLittleMemoryError(UserError, MemoryError):
    """Work that cannot fit into memory."""


class MessageWarning(UserWarning):
    """A warning that names parameters; ``parts`` as for :class:`Message`."""

    def __init__(self, text: str, **parts: Any) -> None:
        self.message = Message(text, **parts)
        super().__init__(str(self.message))

    def __reduce__(self) -> Any:
        return _made, (type(self), self.message.text, self.message.parts)
