"""Options about explicit preferences, a group for train."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from ranksvm.cli.options import By, by_default
from ranksvm.cli.output import UsageProblem

__all__ = ["PairOptions", "pair_options"]

_OF_PAIRS: dict[str, Any] = {"show_default": False, "rich_help_panel": "Pairs"}


@dataclass(frozen=True)
class PairOptions:
    """Where pairs are, how they name items, and whether the labels count as well."""

    path: str | None = None
    by: By = By.row
    with_labels: bool = False
    zero_based: bool = False

    @property
    def uses_labels(self) -> bool:
        """Whether items are compared by their labels."""
        return self.path is None or self.with_labels


def pair_options(
    pairs: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help=r"Pairs to learn from instead of labels, one 'better worse \[weight]' per line.",
            **_OF_PAIRS,
        ),
    ] = None,
    pairs_by: Annotated[
        By | None,
        typer.Option(
            help=f"How pairs name items: by row number or document id. {by_default('row')}",
            **_OF_PAIRS,
        ),
    ] = None,
    pairs_zero_based: Annotated[
        bool,
        typer.Option(
            "--pairs-zero-based",
            help="Row numbers in --pairs start at 0 instead of 1.",
            **_OF_PAIRS,
        ),
    ] = False,
    with_labels: Annotated[
        bool,
        typer.Option(
            "--with-labels",
            help="Learn from the labels as well; the pairs may contradict them.",
            **_OF_PAIRS,
        ),
    ] = False,
) -> PairOptions:
    """Options of train, about explicit preferences."""
    for option, given in (
        ("--pairs-by", pairs_by is not None),
        ("--pairs-zero-based", pairs_zero_based),
        ("--with-labels", with_labels),
    ):
        if given and pairs is None:
            raise UsageProblem(f"{option} needs --pairs")
    if pairs_zero_based and pairs_by is By.docid:
        raise UsageProblem("--pairs-zero-based cannot be combined with --pairs-by docid")
    return PairOptions(pairs, pairs_by or By.row, with_labels, pairs_zero_based)
