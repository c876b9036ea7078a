"""Options about models, made from the parameters of all kinds of models.

Every parameter of a kind (see :func:`ranksvm.learners.settings.parameter`) that has a help text is
an option.  An option that would change nothing is refused: one of another kind of model, or one
that has no meaning beside the others.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from enum import StrEnum
from functools import cache, partial
from typing import Annotated, Any, NamedTuple

import typer

from ranksvm.cli.options import by_default
from ranksvm.cli.output import UsageProblem, as_usage
from ranksvm.learners import LEARNERS, Learner, Settings
from ranksvm.learners.settings import Option, option_of

__all__ = ["Wanted", "grid_options", "model_flags", "model_options"]

Learners = Mapping[str, Learner]

# A command gives the same result again, unless it is told another seed.
SEED = {"random_state": 0}
# What commands do without an option, where that is not what the library does.
OWN_DEFAULTS = {"random_state": str(SEED["random_state"]), "patience": "no early stopping"}
# Grids that are searched by default.
DEFAULT_GRIDS = {
    "C": "19 values from 0.8 to 2e5, 10 with --kernel; scaled for --reduction sum",
    "gamma": "5 values around scale, each 4 times the one before",
}


class Wanted(NamedTuple):
    """Settings, and the names of the parameters that were given as options."""

    settings: Settings
    given: frozenset[str]


@cache
def model_flags() -> dict[str, str]:
    """Return what the command line calls the parameters of all kinds of models."""
    return {name: _flag(name, option) for name, option in _options(LEARNERS).items()}


def model_options(
    *, without: Sequence[str] = (), searches: bool = False
) -> tuple[list[inspect.Parameter], Callable[[dict[str, Any]], Wanted]]:
    """Return options for ``command``, and what makes settings of their values.

    Parameters
    ----------
    without : sequence of str
        Parameters that the command has options of its own for.
    searches : bool
        Whether only kinds of models count whose parameters can be searched.
    """
    learners = {
        name: one for name, one in LEARNERS.items() if not searches or one.searched is not None
    }
    options = [
        _parameter(name, option, learners)
        for name, option in _options(learners).items()
        if name not in without
    ]
    return options, partial(_wanted, learners)


def _options(learners: Learners) -> dict[str, Option]:
    """Options by parameter; the first kind of model that has one describes it."""
    found: dict[str, Option] = {}
    for learner in learners.values():
        for one in fields(learner.settings):
            option = option_of(learner.settings, one.name)
            if option is not None:
                found.setdefault(one.name, option)
    return found


def _flag(name: str, option: Option) -> str:
    return f"--{option.flag or name.replace('_', '-')}"


def _option(learner: Learner, name: str) -> Option | None:
    """Return the option of a parameter, if a kind of model has it."""
    has_it = name in {one.name for one in fields(learner.settings)}
    return option_of(learner.settings, name) if has_it else None


def _parameter(name: str, option: Option, learners: Learners) -> inspect.Parameter:
    """Return an option as typer takes it; what it does without it is part of the help."""
    homes = [kind for kind, one in learners.items() if _option(one, name) is not None]
    default = _default(learners[homes[0]], name)
    limits: dict[str, Any] = {}
    kind: Any = type(default)
    if option.parse is not None:
        kind = str
    if option.choices is not None:
        kind = _enumerated(name, option.choices())
    if name in SEED:
        kind, limits = int, {"min": 0}
    info = typer.Option(
        *([_flag(name, option)] + (["-C"] if name == "C" else [])),
        help=" ".join(filter(None, [option.help, _told_default(name, learners)])),
        show_default=False,
        rich_help_panel="Model" if len(homes) > 1 else homes[0].capitalize(),
        **limits,
    )
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[kind | None, info],
    )


def _enumerated(name: str, choices: Iterable[str]) -> Any:
    """Return an enumeration, which is how typer knows choices."""
    made: Any = StrEnum
    return made(name.capitalize(), {one: one for one in choices})


def _default(learner: Learner, name: str) -> Any:
    return next(one.default for one in fields(learner.settings) if one.name == name)


def _told_default(name: str, learners: Learners) -> str:
    """Tell a default; where a kind of model has another one, that as well."""
    if name in OWN_DEFAULTS:
        return by_default(OWN_DEFAULTS[name])
    told: dict[str, str] = {}
    for learner in learners.values():
        if learner.chosen_by == name:
            return ""
        if _option(learner, name) is not None:
            default = _default(learner, name)
            text = f"{default:g}" if isinstance(default, float) else str(default)
            told.setdefault(text, _chooser(learner))
    first, *others = told
    if first == str(None):
        return ""
    return by_default("; ".join([first, *(f"{text} with {told[text]}" for text in others)]))


def _chooser(learner: Learner) -> str:
    """Return the option that asks for a kind of model; no text for the default kind."""
    if learner.chosen_by is None:
        return ""
    return _flag(learner.chosen_by, _option(learner, learner.chosen_by) or Option(""))


def _wanted(learners: Learners, values: dict[str, Any]) -> Wanted:
    """Make settings of options; what was not given keeps its default."""
    given: dict[str, Any] = {
        name: value.value if isinstance(value, StrEnum) else value
        for name, value in values.items()
        if value is not None
    }
    learner = _chosen(learners, given)
    with as_usage():
        for name in given:
            option = _option(learner, name)
            if option is None:
                raise UsageProblem(_not_here(name, learners))
            if option.parse is not None:
                given[name] = option.parse(given[name])
        settings = learner.settings(**given)
        for name in given:
            _check_meaning(name, settings)
        drawn = {
            name: seed
            for name, seed in SEED.items()
            if name not in given
            and _option(learner, name) is not None
            and _has_meaning(name, settings)
        }
        return Wanted(learner.settings(**{**given, **drawn}), frozenset(given))


def _chosen(learners: Learners, given: Mapping[str, Any]) -> Learner:
    """Return the kind of model that options ask for."""
    asked = [one for one in learners.values() if one.chosen_by in given]
    if len(asked) > 1:
        raise UsageProblem(f"{_chooser(asked[0])} cannot be combined with {_chooser(asked[1])}")
    return asked[0] if asked else next(one for one in learners.values() if not one.chosen_by)


def _not_here(name: str, learners: Learners) -> str:
    """Say which option another one needs."""
    having = [one for one in learners.values() if _option(one, name) is not None]
    needed = " or ".join(_chooser(one) for one in having)
    return f"{_flag(name, _option(having[0], name) or Option(''))} needs {needed}"


def _has_meaning(name: str, settings: Settings) -> bool:
    option = option_of(type(settings), name)
    if option is None or option.only is None:
        return True
    other, values = option.only
    return getattr(settings, other) in values()


def _check_meaning(name: str, settings: Settings) -> None:
    option = option_of(type(settings), name)
    if option is None or option.only is None or _has_meaning(name, settings):
        return
    other, values = option.only
    controls = model_flags()[other]
    value = getattr(settings, other)
    needs = f"needs {controls} {_either(values())}"
    if value is None:
        raise UsageProblem(f"{_flag(name, option)} {needs}")
    raise UsageProblem(f"{_flag(name, option)} has no meaning for {controls} {value}; it {needs}")


def _either(values: Sequence[Any]) -> str:
    *first, last = map(str, values)
    return f"{', '.join(first)} or {last}" if first else last


def grid_options() -> tuple[list[inspect.Parameter], Callable[[dict[str, Any]], dict[str, Any]]]:
    """Return an option for the grid of every parameter that is searched, and their values."""
    names = {name: None for one in LEARNERS.values() for name in one.searched or ()}
    options = [
        inspect.Parameter(
            f"{name}_grid",
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[
                str | None,
                typer.Option(
                    f"--{name}-grid",
                    help=f"Values of {name} to try (0.1,1,10 or 2^-5,2^0), or a range "
                    f"from:to:how_many, evenly in log {name}. {by_default(DEFAULT_GRIDS[name])}",
                    show_default=False,
                ),
            ],
        )
        for name in ("C", *names)
    ]
    return options, _grids


def _grids(values: dict[str, Any]) -> dict[str, Any]:
    from ranksvm.cli.grids import parse_grid

    return {
        name.removesuffix("_grid"): parse_grid(text, f"--{name.removesuffix('_grid')}-grid")
        for name, text in values.items()
        if text is not None
    }
