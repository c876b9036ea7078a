"""Options of models, made from the parameters of all kinds of models.

Every parameter of a kind (see :func:`ranksvm.learners.settings.parameter`) that has a help text is
an option.  An option that would change nothing is refused: one of another kind of model, or one
that does not apply beside the others.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple

import typer

from ranksvm._messages import Param
from ranksvm.cli.options import by_default
from ranksvm.cli.output import COMMAND_LINE, UsageProblem, as_usage
from ranksvm.learners import LEARNERS, Learner, Settings
from ranksvm.learners.settings import Option, excluded_by, option_of

Learners = Mapping[str, Learner]

# Options for parameters of the library other than those of models.
FLAGS = {
    "Cs": "--C-grid",
    "checkpoint": "--resume",
    "conventions": "--conventions",
    "duplicates": "--duplicates",
    "force": "--force",
    "gammas": "--gamma-grid",
    "max_line_bytes": "--max-line-bytes",
    "missing": "--missing",
    "n_jobs": "--jobs",
    "n_permutations": "--permutations",
    "n_splits": "--folds",
    "qid": "--qid-column",
    "y": "--label-column",
    "zero_based": "--zero-based",
}
# A command gives the same result again, unless it is given another seed.
SEED = 0
# Defaults of the command line that differ from those of the library.
OWN_DEFAULTS = {"random_state": SEED, "patience": "no early stopping"}


class Wanted(NamedTuple):
    """Settings, and the names of the parameters that were given as options."""

    settings: Settings
    given: frozenset[str]


def flag_of(parameter: str) -> str | None:
    """Return the option for a parameter of the library; None if there is none."""
    return FLAGS.get(parameter) or model_flags().get(parameter)


@cache
def model_flags() -> dict[str, str]:
    """Return the options for the parameters of all kinds of models."""
    return {
        name: f"--{option.flag or name.replace('_', '-')}"
        for name, option in _all_options(LEARNERS).items()
    }


def model_options(*, searches: bool = False) -> Callable[..., Wanted]:
    """Return a group of options for ``command``, which makes settings of them.

    ``searches``: only for kinds of models that have a search, and without C, which it chooses.
    """
    learners = {
        name: one for name, one in LEARNERS.items() if not searches or one.searched is not None
    }

    def wanted(**values: Any) -> Wanted:
        return _wanted(learners, values)

    wanted.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            _parameter(name, option, learners)
            for name, option in _all_options(learners).items()
            if not searches or name != "C"
        ]
    )
    return wanted


def _options(learner: Learner) -> dict[str, Option]:
    """Return the options of one kind of model, by parameter."""
    options = {one.name: option_of(learner.settings, one.name) for one in fields(learner.settings)}
    return {name: option for name, option in options.items() if option is not None}


def _all_options(learners: Learners) -> dict[str, Option]:
    """Return the options of all kinds; the first kind that has a parameter describes it."""
    found: dict[str, Option] = {}
    for learner in learners.values():
        found = {**found, **_options(learner), **found}
    return found


def _default(learner: Learner, name: str) -> Any:
    return learner.settings.__dataclass_fields__[name].default


def _parameter(name: str, option: Option, learners: Learners) -> inspect.Parameter:
    """Return an option as typer takes it; its default is part of the help text."""
    homes = [kind for kind, one in learners.items() if name in _options(one)]
    kind: Any = type(_default(learners[homes[0]], name))
    if option.parse is not None:
        kind = str
    elif option.choices is not None:
        kind = Literal[tuple(option.choices())]
    elif name == "random_state":
        kind = int
    info = typer.Option(
        *([model_flags()[name]] + (["-C"] if name == "C" else [])),
        min=0 if name == "random_state" else None,
        help=f"{option.help} {_shown_default(name, learners)}".rstrip(),
        rich_help_panel="Model" if len(homes) > 1 else homes[0].capitalize(),
    )
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[kind | None, info],
    )


def _shown_default(name: str, learners: Learners) -> str:
    """Return the default for the help text; if kinds of models differ, all of them."""
    if name in OWN_DEFAULTS:
        return by_default(OWN_DEFAULTS[name])
    if any(one.chosen_by == name for one in learners.values()):
        return ""
    kinds: dict[str, str] = {}
    for learner in learners.values():
        if name in _options(learner):
            default = _default(learner, name)
            text = f"{default:g}" if isinstance(default, float) else str(default)
            kinds.setdefault(text, _chooser(learner))
    first, *others = kinds
    if first == str(None):
        return ""
    return by_default("; ".join([first, *(f"{text} with {kinds[text]}" for text in others)]))


def _chooser(learner: Learner) -> str:
    """Return the option that selects a kind of model; no text for the default kind."""
    return "" if learner.chosen_by is None else model_flags()[learner.chosen_by]


def _wanted(learners: Learners, values: dict[str, Any]) -> Wanted:
    """Make settings of options; what was not given keeps its default."""
    given = {name: value for name, value in values.items() if value is not None}
    learner = _chosen(learners, given)
    options = _options(learner)
    with as_usage():
        for name in given:
            if name not in options:
                having = [one for one in learners.values() if name in _options(one)]
                needed = " or ".join(map(_chooser, having))
                raise UsageProblem(f"{model_flags()[name]} needs {needed}")
            parse = options[name].parse
            if parse is not None:
                given[name] = parse(given[name])
        settings = learner.settings(**given)
        for name in given:
            cause = excluded_by(settings, name)
            if cause is not None:
                raise UsageProblem(_no_meaning(name, options[name], cause))
        seeded = "random_state" in options and excluded_by(settings, "random_state") is None
        if seeded and "random_state" not in given:
            settings = learner.settings(**{**given, "random_state": SEED})
    return Wanted(settings, frozenset(given))


def _chosen(learners: Learners, given: Mapping[str, Any]) -> Learner:
    """Return the kind of model that options ask for."""
    asked = [one for one in learners.values() if one.chosen_by in given]
    if len(asked) > 1:
        raise UsageProblem(f"{_chooser(asked[0])} cannot be combined with {_chooser(asked[1])}")
    return asked[0] if asked else next(one for one in learners.values() if not one.chosen_by)


def _no_meaning(name: str, option: Option, cause: Param) -> str:
    """Say which other option, with which values, an option needs."""
    assert option.only is not None
    *first, last = map(str, option.only[1]())
    other = model_flags()[cause.name]
    needs = f"needs {other} {', '.join(first)}{' or ' if first else ''}{last}"
    if cause.values == [None]:
        return f"{model_flags()[name]} {needs}"
    return f"{model_flags()[name]} has no meaning for {cause.render(COMMAND_LINE)}; it {needs}"
