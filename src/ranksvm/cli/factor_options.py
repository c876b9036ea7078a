"""Options about factorized multipliers, a group for train.

An option that would change nothing is refused: one without --factors, or --patience without a file
to judge on.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

import typer

from ranksvm.cli.options import value_of
from ranksvm.cli.output import UsageProblem

__all__ = ["FactorOptions", "factor_options"]

_OF_FACTORS: dict[str, Any] = {"show_default": False, "rich_help_panel": "Factors"}


class Init(StrEnum):
    """Where a descent begins."""

    random = "random"
    linear = "linear"


class Optimizer(StrEnum):
    """Who descends."""

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
            help="Multipliers are products of so many factors of the items; --loss is hinge, --tol "
            "1e-3 and --max-iter 500 then, by default.",
            **_OF_FACTORS,
        ),
    ] = None,
    restarts: Annotated[
        int | None, typer.Option(help="Descents; the best one counts: 1 by default.", **_OF_FACTORS)
    ] = None,
    init: Annotated[
        Init | None,
        typer.Option(help="Their start: random by default, or the linear model.", **_OF_FACTORS),
    ] = None,
    init_scale: Annotated[
        float | None,
        typer.Option(help="Spread of the scores at a random start: 0.1 by default.", **_OF_FACTORS),
    ] = None,
    optimizer: Annotated[
        Optimizer | None, typer.Option(help="Who descends: auto by default.", **_OF_FACTORS)
    ] = None,
    patience: Annotated[
        int | None,
        typer.Option(
            help="Stop when the first --metric on --valid has not risen for so many iterations.",
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
