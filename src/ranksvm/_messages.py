"""Messages that name parameters as ``max_iter=5`` in Python and ``--max-iter 5`` in the shell.

A message keeps parameters and row numbers separate from its text:

    Message("{solver} stopped; raise {max_iter}.", solver="newton", max_iter=Param("max_iter"))

``str`` renders it for Python.  ``render`` does so for other interfaces, each of which has a
:class:`Formatter`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

# Maximum number of characters of a value that a message shows.
_MOST_SHOWN = 60


class Formatter:
    """Writes parameters and rows as Python has them; other interfaces override both methods."""

    def parameter(self, param: Param) -> str:
        """Return the name of a parameter, with its values if it has any."""
        values = " or ".join(map(repr, param.values))
        return f"{param.name}={values}" if values else param.name

    def row(self, row: Row) -> str:
        """Return the number of a row of X, with the column if there is one."""
        return f"row {row.number}" + ("" if row.column is None else f", column {row.column}")


PYTHON = Formatter()


def render(part: Any, formatter: Formatter) -> Any:
    """Format a message, a part of one, or an error; return other values unchanged."""
    return part.render(formatter) if hasattr(part, "render") else part


class _Part(ABC):
    @abstractmethod
    def render(self, formatter: Formatter) -> str: ...

    def __str__(self) -> str:
        return self.render(PYTHON)


class Param(_Part):
    """A parameter in a message: its name, or ``name=value``, or ``name=one or another``.

    ``function`` tells it from a parameter of the same name in other functions.
    """

    def __init__(self, name: str, *values: Any, function: str | None = None) -> None:
        self.name, self.function = name, function
        self.values = [_as_python(value) for value in values]

    def render(self, formatter: Formatter) -> str:
        return formatter.parameter(self)


@dataclass(frozen=True)
class Value(_Part):
    """A value that a user gave, in a message: its ``repr``, shortened if it is long."""

    value: Any

    def render(self, formatter: Formatter) -> str:
        return shown(self.value)


@dataclass(frozen=True)
class Row(_Part):
    """A row of X in a message, or one entry of it; numbers start at 0."""

    number: int
    column: int | None = None

    def render(self, formatter: Formatter) -> str:
        return formatter.row(self)


class Message(_Part):
    """A format string with named parts: messages, parameters, rows, or any other values."""

    def __init__(self, text: str, **parts: Any) -> None:
        self.text, self.parts = text, parts

    def render(self, formatter: Formatter) -> str:
        parts = {name: render(part, formatter) for name, part in self.parts.items()}
        return self.text.format(**parts)


class _WithMessage(Exception):
    """An exception with a message; ``parts`` as for :class:`Message`."""

    def __init__(self, text: str, **parts: Any) -> None:
        self.message = Message(text, **parts)
        super().__init__(str(self.message))

    def render(self, formatter: Formatter) -> str:
        return self.message.render(formatter)

    def __reduce__(self) -> Any:
        return partial(type(self), self.message.text, **self.message.parts), ()


class UserError(_WithMessage):
    """An error that users can cause; ``parts`` as for :class:`Message`.

    Attributes
    ----------
    parameter, value
        The first parameter in the message, and the part named "value" or the value of the
        parameter; None if there is none.
    remedy : Message or None
        What to do, if the message has a part of this name: a message, or a text with the same
        parts.
    """

    def __init__(self, text: str, **parts: Any) -> None:
        if isinstance(parts.get("remedy"), str):
            parts["remedy"] = Message(parts["remedy"], **parts)
        super().__init__(text, **parts)
        named = next((part for part in parts.values() if isinstance(part, Param)), None)
        value = parts.get("value", named.values[0] if named and named.values else None)
        self.parameter = named.name if named else None
        self.value = value.value if isinstance(value, Value) else value
        self.remedy = parts.get("remedy")

    def after(self, where: str) -> Self:
        """Return the same error, with its message prefixed by where it happened."""
        where = where.replace("{", "{{").replace("}", "}}")
        return type(self)(where + self.message.text, **self.message.parts)


class ParameterError(UserError, ValueError):
    """An invalid parameter or input."""


class TooLittleMemoryError(UserError, MemoryError):
    """A task that does not fit into memory."""


class MessageWarning(_WithMessage, UserWarning):
    """A warning that names parameters; ``parts`` as for :class:`Message`."""


def shown(value: Any) -> str:
    """Return the ``repr`` of a value, shortened if it is long."""
    if isinstance(value, int) and abs(value) >= 10**_MOST_SHOWN:
        sign = "an" if value > 0 else "a negative"
        return f"{sign} integer of {_digits(abs(value)):,} digits"
    try:
        text = repr(_as_python(value))
    except ValueError:  # Python refuses to print integers with thousands of digits
        text = f"a {type(value).__name__} of thousands of digits"
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


def _digits(value: int) -> int:
    """Return the number of decimal digits of a positive integer that Python may not print."""
    count = max(1, int(math.log10(value)) - 1)  # the logarithm is rounded
    while 10**count <= value:
        count += 1
    return count


def _as_python(value: Any) -> Any:
    """Return a NumPy scalar as a Python one, whose ``repr`` does not include the type.

    NumPy is not imported for that: `ranksvm --help` is fast.
    """
    return value.item() if getattr(value, "ndim", None) == 0 else value
