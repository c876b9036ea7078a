"""Explicit pairs: the options of commands that learn from them, and reading them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated

import numpy as np
import typer

from ranksvm._text import counted
from ranksvm.cli.inputs import documents_of, read_data
from ranksvm.cli.options import By, DataOptions, by_default
from ranksvm.cli.output import UsageProblem, warn
from ranksvm.data.preferences import count_contradictions, pairs_by_query, positive_pairs
from ranksvm.data.ranking_data import RankingData
from ranksvm.data.sources import name_of
from ranksvm.learners.settings import Settings

_pairs = partial(typer.Option, rich_help_panel="Pairs")


@dataclass(frozen=True)
class PairOptions:
    """Explicit pairs: where they are, how they name items, and whether the labels count as well."""

    pairs: Annotated[
        str | None,
        _pairs(
            metavar="FILE",
            help=r"Learn from pairs: 'better worse \[weight]', 'one = other'.",
        ),
    ] = None
    pairs_by: Annotated[
        By | None,
        _pairs(help=f"How pairs name items. {by_default('row')}"),
    ] = None
    pairs_zero_based: Annotated[
        bool,
        _pairs("--pairs-zero-based", help="Row numbers in --pairs start at 0 instead of 1."),
    ] = False
    with_labels: Annotated[
        bool,
        _pairs("--with-labels", help="Learn from the labels as well as from the pairs."),
    ] = False

    def __post_init__(self) -> None:
        for name in ("pairs_by", "pairs_zero_based", "with_labels"):
            if getattr(self, name) and self.pairs is None:
                raise UsageProblem(f"--{name.replace('_', '-')} needs --pairs")
        if self.pairs_zero_based and self.pairs_by == "docid":
            raise UsageProblem("--pairs-zero-based cannot be combined with --pairs-by docid")

    @property
    def uses_labels(self) -> bool:
        """Whether items are compared by their labels."""
        return self.pairs is None or self.with_labels


def read_with_pairs(
    files: Sequence[str], explicit: PairOptions, options: DataOptions, settings: Settings
) -> RankingData:
    """Read the items, and the pairs if there are any.

    Warns if pairs contradict each other, or follow from the labels as well.
    """
    if explicit.pairs is not None and options.memory is not None:
        raise UsageProblem("--pairs cannot be combined with --memory: pairs name rows in memory")
    if not explicit.uses_labels and options.weight_column is not None:
        raise UsageProblem(
            "--weight-column is for labels (--with-labels): give the pairs weights in their file"
        )
    by_document = explicit.pairs_by == "docid"
    data = read_data(
        files,
        options,
        labels=explicit.uses_labels,
        comments=by_document,
        fit=settings,
    )
    if explicit.pairs is None:
        return data
    from ranksvm.data.pair_checks import count_implied
    from ranksvm.data.pair_files import read_pairs

    preferences = read_pairs(
        explicit.pairs,
        n_items=data.n_items,
        docids=documents_of(data, "--pairs-by") if by_document else None,
        qid=data.qid,
        y=data.y,
        zero_based=explicit.pairs_zero_based,
        **options.limits,
    )
    source = name_of(explicit.pairs)
    if preferences.weight is not None and not preferences.weight.any():
        raise ValueError(f"{source}: all pairs have weight zero, so there is nothing to learn from")
    n_contradictions = count_contradictions(preferences)
    if n_contradictions:
        warn(f"{source} prefers {counted(n_contradictions, 'pair')} of items both ways; both count")
    if data.qid is not None:
        preferences = pairs_by_query(preferences, data.groups)
    data = replace(data, preferences=preferences).with_groups(data.groups)
    if not explicit.uses_labels:
        return replace(data, y=None, labels=None).with_groups(data.groups)
    twice = count_implied(data)
    if twice:
        warn(
            f"{source}: {twice:,} of {counted(len(preferences), 'pair')} "
            f"{'follow' if twice > 1 else 'follows'} from the labels as well and "
            f"{'count' if twice > 1 else 'counts'} twice. "
            f"Drop {'these pairs' if twice > 1 else 'this pair'}, unless "
            f"{'they are' if twice > 1 else 'it is'} meant to have more weight, or leave out "
            "--with-labels."
        )
    return data


def pairs_across_queries(data: RankingData) -> int:
    """Return the number of explicit pairs, of positive weight, that form a query of their own."""
    if data.preferences is None:
        return 0
    kept = positive_pairs(data.preferences)
    if kept.query is None:
        return len(kept)
    return int(np.count_nonzero(kept.query == data.groups.n_queries))
