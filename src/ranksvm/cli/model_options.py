"""Options about models, made from the parameters of all kinds of models.

Every parameter of a kind (see :func:`ranksvm.learners.settings.parameter`) that has a help text is
an option.  An option that would change nothing is refused: one of another kind of model, or one
that has no meaning beside the others.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields
from enum import StrEnum
from functools import partial
from typing import Annotated, Any, NamedTuple

import typer

from ranksvm._messages import UserError
from ranksvm.cli.options import by_default
from ranksvm.cli.output import UsageProblem, as_usage, told_error
from ranksvm.learners import LEARNERS, Learner, Settings
from ranksvm.learners.settings import Option, option_of

__all__ = ["Wanted", "grid_options", "model_flags", "model_options"]


class Wanted(NamedTuple):
    """Settings, and the names of the parameters that were given as options."""

    settings: Settings
    given: frozenset[str]


def _flag(name: str, option: Option) -> str:
    return f"--{option.flag or name.replace('_', '-')}"


def model_flags() -> dict[str, str]:
    """Return what the command line calls the parameters of all kinds of models."""
    return {name: _flag(name, option) for name, option in _options(LEARNERS.values()).items()}


def _options(learners: Any) -> dict[str, Option]:
    """Options of some kinds of models by parameter; the first kind that has one describes it."""
    found: dict[str, Option] = {}
    for learner in learners:
        for one in fields(learner.settings):
            option = option_of(learner.settings, one.name)
            if option is not None:
                found.setdefault(one.name, option)
    return found


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
        for name, option in _options(learners.values()).items()
        if name not in without
    ]
    return options, partial(_settings, learners)


def _parameter(name: str, option: Option, learners: Mapping[str, Learner]) -> inspect.Parameter:
    shared = name in {one.name for one in fields(Settings)}
    home = next(kind for kind, one in learners.items() if option_of_learner(one, name) is not None)
    default = _default(learners[home].settings, name)
    kind: Any = str if option.parse is not None or default is None else type(default)
    if default is None and option.choices is None:
        kind = int  # a seed
    if option.choices is not None:
        kind = _enumerated(name, option.choices())
    flags = [_flag(name, option)] + (["-C"] if name == "C" else [])
    chosen = any(one.chosen_by == name for one in learners.values())
    shown = "" if chosen or default is None else f" {by_default(_defaults(name, learners))}"
    if name == "random_state":
        shown = f" {by_default(0)}"
    info = typer.Option(
        *flags,
        help=option.help + shown,
        show_default=False,
        rich_help_panel="Model" if shared else home.capitalize(),
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


def option_of_learner(learner: Learner, name: str) -> Option | None:
    """Return the option of a parameter, if a kind of model has it."""
    has_it = name in {one.name for one in fields(learner.settings)}
    return option_of(learner.settings, name) if has_it else None


def _default(settings: type[Settings], name: str) -> Any:
    default = next(one.default for one in fields(settings) if one.name == name)
    return None if default is MISSING else default


def _defaults(name: str, learners: Mapping[str, Learner]) -> str:
    """Tell a default; where a kind of model has another one, that as well."""
    told = ""
    for learner in learners.values():
        if option_of_learner(learner, name) is None:
            continue
        default = _default(learner.settings, name)
        text = f"{default:g}" if isinstance(default, float) else str(default)
        if not told:
            told = text
        elif text != told.partition(";")[0] and learner.chosen_by is not None:
            chosen = option_of(learner.settings, learner.chosen_by)
            told += f"; {text} with {_flag(learner.chosen_by, chosen) if chosen else ''}"
    return told


def _settings(learners: Mapping[str, Learner], values: dict[str, Any]) -> Wanted:
    """Make settings of options; what was not given keeps its default."""
    given: dict[str, Any] = {
        name: value.value if isinstance(value, StrEnum) else value
        for name, value in values.items()
        if value is not None
    }
    learner = _chosen(learners, given)
    options = {name: option_of_learner(learner, name) for name in given}
    for name in given:
        if options[name] is None:
            raise UsageProblem(_not_here(name, learners))
    for name, option in options.items():
        assert option is not None
        if option.parse is not None:
            given[name] = _parsed(name, option, given[name])
    settings: dict[str, Any] = (
        {"random_state": 0} if option_of_learner(learner, "random_state") else {}
    )
    with as_usage():
        made = learner.settings(**{**settings, **given})
    for name, option in options.items():
        assert option is not None
        _check_meaning(name, option, made)
    if settings and "random_state" not in given and not _has_meaning("random_state", made):
        with as_usage():
            made = learner.settings(**given)
    return Wanted(made, frozenset(given))


def _chosen(learners: Mapping[str, Learner], given: Mapping[str, Any]) -> Learner:
    """Return the kind of model that options ask for."""
    asked = [one for one in learners.values() if one.chosen_by in given]
    if len(asked) > 1:
        first, second = (
            _flag(str(one.chosen_by), _told_option(one, str(one.chosen_by))) for one in asked[:2]
        )
        raise UsageProblem(f"{first} cannot be combined with {second}")
    return asked[0] if asked else next(one for one in learners.values() if not one.chosen_by)


def _told_option(learner: Learner, name: str) -> Option:
    return option_of_learner(learner, name) or Option("")


def _not_here(name: str, learners: Mapping[str, Learner]) -> str:
    """Say which option another one needs."""
    having = [one for one in learners.values() if option_of_learner(one, name) and one.chosen_by]
    needed = " or ".join(
        _flag(str(one.chosen_by), _told_option(one, str(one.chosen_by))) for one in having
    )
    return f"{_flag(name, _told_option(having[0], name))} needs {needed}"


def _parsed(name: str, option: Option, text: str) -> Any:
    assert option.parse is not None
    try:
        return option.parse(text)
    except (ValueError, OverflowError) as error:
        why = f": {told_error(error)}" if isinstance(error, UserError) else ""
        raise UsageProblem(
            f"{_flag(name, option)} {text!r} is not valid{why}. {option.help}"
        ) from None


def _has_meaning(name: str, settings: Settings) -> bool:
    option = option_of(type(settings), name)
    if option is None or option.only is None:
        return True
    other, values = option.only
    return getattr(settings, other) in values()


def _check_meaning(name: str, option: Option, settings: Settings) -> None:
    if _has_meaning(name, settings) or option.only is None:
        return
    other, values = option.only
    controls = _flag(other, option_of(type(settings), other) or Option(""))
    value = getattr(settings, other)
    if value is None:
        needed = " or ".join(f"{controls} {one}" for one in values())
        raise UsageProblem(f"{_flag(name, option)} needs {needed}")
    raise UsageProblem(f"{_flag(name, option)} has no meaning for {controls} {value}")


def grid_options() -> tuple[list[inspect.Parameter], Callable[[dict[str, Any]], dict[str, Any]]]:
    """Return an option for the grid of every parameter that is searched, and their values."""
    names = {name: None for one in LEARNERS.values() for name in one.searched or ()}
    told = {
        "C": by_default("19 powers of 2 around the default C; with --kernel, 10 powers of 4"),
        "gamma": by_default("5 powers of 4 around scale"),
    }
    values = (
        "Values of {name} to try (0.1,1,10 or 2^-5,2^0), or a range from:to:how_many, evenly in "
        "log {name}. "
    )
    options = [
        inspect.Parameter(
            f"{name}_grid",
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[
                str | None,
                typer.Option(
                    f"--{name}-grid",
                    help=values.format(name=name) + told.get(name, ""),
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
