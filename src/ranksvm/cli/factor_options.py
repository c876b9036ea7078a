"""Options about factorized multipliers, a group for train.

An option that would change nothing is refused: one without --factors, or --patience without a file
to judge on.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

import typer

from ranksvm.cli.options import by_default, value_of
from ranksvm.cli.output import UsageProblem

__all__ = ["FactorOptions", "factor_options"]

_OF_FACTORS: dict[str, Any] = {"show_default": False, "rich_help_panel": "Factors"}


class Init(StrEnum):
    """Where a descent begins."""

    random = "random"
    linear = "linear"


class Optimizer(StrEnum):
    """Optimiser."""

    auto = "auto"
    lbfgs = "lbfgs"
    gradient = "gradient"
    sgd = "sgd"


@dataclass(frozen=True)
class FactorOptions:
    """The factors, under the names of the library; None where nothing was said."""

    n_factors: int | None = None
    n_restarts: int | None = None
    init: str | None = None
    init_scale: float | None = None
    optimizer: str | None = None
    patience: int | None = None


def factor_options(
    factors: Annotated[
        int | None,
        typer.Option(
            help="Number of factors (rank) for FactorizedRankSVM. Changes the defaults of --loss "
            "(hinge), --tol (1e-3) and --max-iter (500).",
            **_OF_FACTORS,
        ),
    ] = None,
    restarts: Annotated[
        int | None,
        typer.Option(help=f"Number of starts; the best is kept. {by_default(1)}", **_OF_FACTORS),
    ] = None,
    init: Annotated[
        Init | None,
        typer.Option(
            help=f"Start at random, or at the linear model. {by_default('random')}", **_OF_FACTORS
        ),
    ] = None,
    init_scale: Annotated[
        float | None,
        typer.Option(
            help=f"Spread of the scores at a random start. {by_default(0.1)}", **_OF_FACTORS
        ),
    ] = None,
    optimizer: Annotated[
        Optimizer | None, typer.Option(help=f"Optimiser. {by_default('auto')}", **_OF_FACTORS)
    ] = None,
    patience: Annotated[
        int | None,
        typer.Option(
            help="Stop after this many iterations without improvement in the first --metric on "
            "--valid.",
            **_OF_FACTORS,
        ),
    ] = None,
) -> FactorOptions:
    """Options of train, about factors."""
    given = {
        "--restarts": restarts,
        "--init": init,
        "--init-scale": init_scale,
        "--optimizer": optimizer,
        "--patience": patience,
    }
    for option in (name for name, value in given.items() if value is not None):
        if factors is None:
            raise UsageProblem(f"{option} needs --factors")
    if init is Init.linear and init_scale is not None:
        raise UsageProblem("--init-scale has no meaning for --init linear")
    return FactorOptions(
        n_factors=factors,
        n_restarts=restarts,
        init=value_of(init),
        init_scale=init_scale,
        optimizer=value_of(optimizer),
        patience=patience,
    )
