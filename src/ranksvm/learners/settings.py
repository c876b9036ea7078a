"""The parameters of a fit, checked when they are put together.

A parameter is a field of a dataclass made by :func:`parameter`: its default, what it means and
where it applies.  Estimators take their parameters from these fields, and the command line makes
its options from them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

from ranksvm._checks import check_choice, check_positive
from ranksvm._messages import Message, Param, ParameterError
from ranksvm.backends.native import COUNTINGS
from ranksvm.pairs.oracle import LOSSES
from ranksvm.solvers.base import Solver, missing_capabilities
from ranksvm.solvers.bundle import Bundle
from ranksvm.solvers.newton import Newton
from ranksvm.solvers.smoothing import SmoothedNewton

__all__ = [
    "REDUCTIONS",
    "SOLVERS",
    "Option",
    "Settings",
    "option_of",
    "parameter",
    "parse_number",
    "redefault",
    "settings_of",
    "solvers_for",
]

# The fastest first: "auto" takes the first one that can work with the loss.  Hessian products of
# the squared hinge are cheaper than the evaluations of the bundle method; for the hinge the bundle
# method also needs the fewest products with X.
SOLVERS: dict[str, Callable[..., Solver]] = {
    "newton": Newton,
    "bundle": Bundle,
    "smoothed_newton": SmoothedNewton,
}
# What solvers need, in words.
CAPABILITIES = {
    "hessian": "a loss with second derivatives",
    "smoothing": "a loss with a kink to smooth",
}
REDUCTIONS = {
    "mean": "mean over pairs",
    "sum": "sum over pairs",
    "query_mean": "mean over the pairs of each query, then over queries",
}


class Option(NamedTuple):
    """What the command line has to know of a parameter.

    Attributes
    ----------
    help : str
    flag : str or None
        Name of the option; None for the name of the parameter.
    choices : callable or None
        Returns the values that it may have.
    only : tuple (name, values) or None
        The parameter has a meaning only if another one has one of these values.
    parse : callable or None
        From a text to a value, if that is not the type of the default; raises a ParameterError for
        a text that is none.
    """

    help: str
    flag: str | None = None
    choices: Callable[[], Iterable[str]] | None = None
    only: tuple[str, Callable[[], Sequence[Any]]] | None = None
    parse: Callable[[str], Any] | None = None


def parameter(default: Any, help: str = "", **about: Any) -> Any:
    """Return a field of settings; with ``help``, it is an option of the command line, too.

    Parameters
    ----------
    default : object
    help : str
    **about
        As for :class:`Option`.
    """
    return field(default=default, metadata={"option": Option(help, **about)} if help else {})


def redefault(settings: type[Settings], name: str, default: Any) -> Any:
    """Return a field of other settings with another default."""
    return field(default=default, metadata=settings.__dataclass_fields__[name].metadata)


def option_of(settings: type[Settings], name: str) -> Option | None:
    """Return what the command line has to know of a parameter; None if it has no option."""
    found: Option | None = settings.__dataclass_fields__[name].metadata.get("option")
    return found


@dataclass(frozen=True)
class Settings:
    """What is minimised and how; what all rankers share.

    Checked when made: a wrong value raises a ParameterError that names it.
    """

    C: float = parameter(
        50.0, "Weight of the loss; a larger C fits the training data more closely."
    )
    loss: str = parameter("squared_hinge", "Pairwise loss.", choices=lambda: LOSSES)
    reduction: str = parameter(
        "mean", "How the losses of all pairs are combined.", choices=lambda: REDUCTIONS
    )
    solver: str = parameter("auto", "Optimization algorithm.", choices=lambda: ("auto", *SOLVERS))
    counting: str = "auto"
    tol: float = parameter(1e-4, "Stop once the certified relative gap is this small.")
    max_iter: int = parameter(1000, "Maximum number of iterations.")

    def __post_init__(self) -> None:
        check_positive("C", self.C)
        check_positive("tol", self.tol)
        check_positive("max_iter", self.max_iter, integer=True)
        check_choice("loss", self.loss, LOSSES)
        check_choice("reduction", self.reduction, REDUCTIONS)
        check_choice("counting", self.counting, COUNTINGS)
        check_choice("solver", self.solver, ("auto", *SOLVERS))
        lacking = missing_capabilities(self.make_solver(), LOSSES[self.loss])
        if lacking:
            raise self._unsuitable(min(lacking))

    def _unsuitable(self, capability: str) -> ParameterError:
        others = [name for name in LOSSES if self.solver in solvers_for(name)]
        return ParameterError(
            "{solver} does not work with {loss}: it needs {needs}. Use {solvers}{or_losses}.",
            solver=Param("solver", self.solver),
            loss=Param("loss", self.loss),
            needs=CAPABILITIES.get(capability, capability),
            solvers=Param("solver", *solvers_for(self.loss)),
            or_losses=Message(", or {losses}", losses=Param("loss", *others)) if others else "",
        )

    @property
    def shares_coefficients(self) -> bool:
        """Whether coefficients mean the same on every set, as those of features do."""
        return False

    @property
    def is_pairwise(self) -> bool:
        """Whether X has a column for every training item."""
        return False

    def make_solver(self) -> Solver:
        """Return the solver; "auto" is the fastest one that works with the loss."""
        name = solvers_for(self.loss)[0] if self.solver == "auto" else self.solver
        return SOLVERS[name](tol=self.tol, max_iter=self.max_iter)


def solvers_for(loss: str) -> list[str]:
    """Names of the solvers that work with a loss, the fastest first."""
    found = [
        name for name, make in SOLVERS.items() if not missing_capabilities(make(), LOSSES[loss])
    ]
    if not found:
        raise ValueError(f"no solver works with the loss {loss!r}")
    return found


def settings_of(made: type[Settings], values: Any) -> dict[str, Any]:
    """Return the attributes of an object that are parameters of some settings."""
    names = [one.name for one in fields(made)]
    return {name: getattr(values, name) for name in names if hasattr(values, name)}


def parse_number(text: str) -> float:
    """Read ``0.03125`` or ``2^-5``; ValueError or OverflowError if it is neither."""
    base, power, exponent = text.partition("^")
    if power and not float(base) > 0.0:
        raise ValueError
    return math.pow(float(base), float(exponent)) if power else float(base)
