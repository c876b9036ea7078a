"""Which columns of a table are features, and which have another meaning.

Labels, query ids, document ids and weights have columns of their own.  All others are features,
unless ``--features`` and ``--drop`` say otherwise, or a model has names for its features.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from itertools import combinations

from ranksvm._text import counted, listed
from ranksvm.cli.options import DataOptions
from ranksvm.cli.output import UsageProblem, note
from ranksvm.data.ranking_data import Origin


def special_columns(
    names: Sequence[str], options: DataOptions, source: str, *, labels: bool
) -> dict[str, str]:
    """Return the columns of a table that are not features, if present.

    Their keys are "label", "qid" and "docid", and "weight" and "query_weight" if options name them.

    Parameters
    ----------
    names : sequence of str
        All columns.
    options : DataOptions
    source : str
        Name of the table, for messages.
    labels : bool
        Whether a table without a label column is an error.
    """
    twice = sorted({name for name in names if list(names).count(name) > 1})
    if twice:
        raise ValueError(f"{source} has several columns called {twice[0]!r}; rename them")
    found = {key: name for key, name in options.columns.items() if name in names}
    for key, name in options.columns.items():
        needed = key in options.named_columns or (key == "label" and labels)
        if needed and key not in found:
            raise ValueError(
                f"{source} has no column {name!r}; it has "
                f"{', '.join(map(repr, names[:8]))}{' ...' if len(names) > 8 else ''}. "
                f"Name the right one with {_flag(key)}."
            )
    for one, other in combinations(found, 2):
        if found[one] == found[other]:
            raise UsageProblem(
                f"{_flag(one)} and {_flag(other)} are both {found[one]!r}; name two columns"
            )
    return found


def _flag(key: str) -> str:
    return f"--{key.replace('_', '-')}-column"


def chosen_features(others: Sequence[str], options: DataOptions, source: str) -> list[str]:
    """Return the columns that --features and --drop leave, of those without another meaning."""
    found = list(others)
    if options.features:
        asked = _matching(others, options.features, "--features", source)
        found = [name for name in others if name in asked]
    if options.drop:
        left_out = _matching(others, options.drop, "--drop", source)
        found = [name for name in found if name not in left_out]
    if others and not found:
        raise UsageProblem(f"{source}: --features and --drop leave no column to learn from")
    return found


def _matching(names: Sequence[str], given: Sequence[str], flag: str, source: str) -> set[str]:
    """Return the columns that patterns stand for; commas separate patterns."""
    found: set[str] = set()
    for text in given:
        patterns = [text] if text in names else [part.strip() for part in text.split(",")]
        for pattern in patterns:
            there = {name for name in names if name == pattern or fnmatchcase(name, pattern)}
            if not there:
                raise UsageProblem(
                    f"{flag} {pattern!r}: {source} has no such column among those that can be "
                    f"features: {listed(map(repr, names), most=8)}"
                )
            found |= there
    return found


def known_features(
    others: Sequence[str], wanted: Sequence[str], like: Origin | None, source: str
) -> list[str]:
    """Return the columns that a model wants, as far as they are there, in its order.

    ``like`` is the origin of its training set: a note names columns that are new.
    """
    there = set(others)
    if like is not None and there.intersection(wanted):
        known = {*wanted, *like.frame_columns}
        extra = [name for name in others if name not in known]
        if extra:
            note(
                f"{source} has {counted(len(extra), 'column')} that the model does not know, "
                f"ignored: {listed(map(repr, extra))}"
            )
    return [name for name in wanted if name in there]
