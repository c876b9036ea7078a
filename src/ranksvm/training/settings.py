"""What is minimised and how: the parameters of a fit, checked when they are put together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ranksvm._checks import check_choice, check_positive
from ranksvm.backends.native import COUNTINGS
from ranksvm.pairs.oracle import LOSSES
from ranksvm.solvers.base import Solver, missing_capabilities
from ranksvm.solvers.bundle import Bundle
from ranksvm.solvers.newton import Newton
from ranksvm.solvers.smoothing import SmoothedNewton

__all__ = ["AUTO_SOLVER", "REDUCTIONS", "SOLVERS", "LinearSettings", "Settings"]

SOLVERS: dict[str, Callable[..., Solver]] = {
    "newton": Newton,
    "smoothed_newton": SmoothedNewton,
    "bundle": Bundle,
}
# The fastest at the same certified gap: for the hinge also the one with the fewest products with
# X; for the squared hinge Hessian products are cheaper than the evaluations of the bundle method.
AUTO_SOLVER = {"squared_hinge": "newton", "hinge": "bundle"}
# What to do about a solver that asks for more than the loss has.
REMEDY = {
    "hessian": "the hinge has no second derivatives: use solver='smoothed_newton' or 'bundle', "
    "or loss='squared_hinge'",
    "smoothing": "the squared hinge is smooth already: use solver='newton' or 'bundle', or "
    "loss='hinge'",
}
REDUCTIONS = ("sum", "mean", "query_mean")


@dataclass(frozen=True)
class Settings:
    """What is minimised and how; what all rankers share.

    Checked when made: a wrong value raises a ValueError that names it.
    """

    C: float = 50.0
    loss: str = "squared_hinge"
    reduction: str = "mean"
    solver: str = "auto"
    counting: str = "auto"
    tol: float = 1e-4
    max_iter: int = 1000

    def __post_init__(self) -> None:
        check_positive("C", self.C)
        check_positive("tol", self.tol)
        check_positive("max_iter", self.max_iter, integer=True)
        check_choice("loss", self.loss, LOSSES)
        check_choice("reduction", self.reduction, REDUCTIONS)
        check_choice("counting", self.counting, COUNTINGS)
        check_choice("solver", self.solver, ("auto", *SOLVERS))
        for capability in sorted(missing_capabilities(self.make_solver(), LOSSES[self.loss])):
            raise ValueError(
                f"solver={self.solver!r} does not work with loss={self.loss!r}: "
                f"{REMEDY[capability]}"
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
        """Return the solver; "auto" is the fastest one for the loss."""
        name = AUTO_SOLVER[self.loss] if self.solver == "auto" else self.solver
        return SOLVERS[name](tol=self.tol, max_iter=self.max_iter)


@dataclass(frozen=True)
class LinearSettings(Settings):
    """The parameters of ``LinearRankSVM`` that shape the model."""

    @property
    def shares_coefficients(self) -> bool:
        return True
