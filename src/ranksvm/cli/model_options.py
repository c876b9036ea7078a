"""Options of models, made from the parameters of all kinds of models.

Every parameter of a kind (see :func:`ranksvm.learners.settings.parameter`) that has a help text is
an option.  An option that would change nothing is refused: one of another kind of model, or one
that does not apply beside the others.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple

import typer

from ranksvm._messages import Param
from ranksvm.cli.options import ADVANCED, by_default
from ranksvm.cli.output import COMMAND_LINE, UsageProblem, as_usage
from ranksvm.learners import LEARNERS, Learner
from ranksvm.learners.settings import (
    Grid,
    Option,
    Settings,
    excluded_by,
    option_of,
    parse_number,
    searched,
    searched_choices,
)

Learners = Mapping[str, Learner]

# Options for parameters of the library other than those of models.
FLAGS = {
    "cache": "--cache",
    "checkpoint": "--resume",
    "conventions": "--conventions",
    "docid": "--docid-column",
    "drop": "--drop",
    "duplicates": "--duplicates",
    "force": "--force",
    "max_line_bytes": "--max-line-bytes",
    "memory_budget": "--memory",
    "metric": "--metric",
    "min_frequency": "--min-frequency",
    "missing": "--missing",
    "n_jobs": "--jobs",
    "n_models": "--models",
    "n_permutations": "--permutations",
    "n_splits": "--folds",
    "qid": "--qid-column",
    "svmrank_c": "--svmrank-c",
    "time_limit": "--time",
    "validation": "--valid",
    "y": "--label-column",
    "zero_based": "--zero-based",
}
# A command gives the same result again, unless it is given another seed.
SEED = 0
# Defaults of the command line that differ from those of the library.
OWN_DEFAULTS = {"random_state": SEED, "patience": "no early stopping"}
_MOST_VALUES = 1000  # of a grid


class ModelOptions(NamedTuple):
    """Settings, the names of the parameters that were given as options, and grids for a search."""

    settings: Settings
    given: frozenset[str]
    grids: Mapping[str, list[Any]]


def flag_of(parameter: str) -> str | None:
    """Return the option for a parameter of the library; None if there is none."""
    return FLAGS.get(parameter) or model_flags().get(parameter)


@cache
def model_flags() -> dict[str, str]:
    """Return the options for the parameters of all kinds of models, and for their grids."""
    flags = {
        name: f"--{option.flag or name.replace('_', '-')}"
        for name, option in _all_options(LEARNERS).items()
    }
    names = ("C", *_searched(LEARNERS), *_named(LEARNERS))
    return {**flags, **{f"{name}s": f"{flags[name]}-grid" for name in names}}


def model_options(*, searches: bool = False) -> Callable[..., ModelOptions]:
    """Return a group of options for ``command``, which makes settings of them.

    ``searches``: only for kinds of models that have a search, with grids of the parameters that it
    chooses, and without C.
    """
    learners = {
        name: one for name, one in LEARNERS.items() if not searches or one.search is not None
    }
    options = _all_options(learners)
    if searches:
        del options["C"]
    parameters = [_parameter(name, option, learners) for name, option in options.items()]
    if searches:
        texts = {name: grid.text for name, grid in _searched(learners).items()}
        texts = {"C": _default_Cs_text(learners), **texts}
        parameters += [_grid_parameter(name, text) for name, text in texts.items()]
        named = _named(learners).items()
        parameters += [_names_parameter(name, choices) for name, choices in named]

    def make(**values: Any) -> ModelOptions:
        return _make_options(learners, values)

    make.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return make


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


def _searched(learners: Learners) -> dict[str, Grid]:
    """Return the parameters that a search chooses in addition to C."""
    return {
        name: grid for one in learners.values() for name, grid in searched(one.settings).items()
    }


def _named(learners: Learners) -> dict[str, tuple[str, ...]]:
    """Return the parameters with names as values that a search can choose, with their choices."""
    return {
        name: choices
        for one in learners.values()
        for name, choices in searched_choices(one.settings).items()
    }


def _default_Cs_text(learners: Learners) -> str:
    from ranksvm.model_selection.grids import N_CS, N_CS_OF_GRID

    texts = {}
    for one in learners.values():
        low, high = one.settings.C_RANGE
        n = N_CS_OF_GRID if searched(one.settings) else N_CS
        texts[f"{n} values from {low:.3g} to {high:,.0f}"] = chooser(one)
    parts = [f"{text} with {name}" if name else text for text, name in texts.items()]
    return f"{', '.join(parts)}; scaled for --reduction sum"


def _grid_parameter(name: str, text: str) -> inspect.Parameter:
    """Return the option for the grid of a parameter; ``text`` is its default in words."""
    info = typer.Option(
        model_flags()[f"{name}s"],
        metavar="GRID",
        help=f"Values of {name} to try (0.1,1,10 or 2^-5,2^0), or a range from:to:how_many, evenly "
        f"in log {name}. {by_default(text)}",
    )
    return _optional_text(f"{name}s", info)


def _names_parameter(name: str, choices: Iterable[str]) -> inspect.Parameter:
    """Return the option for several values of a parameter with names as values."""
    flags = model_flags()
    info = typer.Option(
        flags[f"{name}s"],
        metavar="LIST",
        help=f"Values of {flags[name]} to try, such as {','.join(choices)}. "
        + by_default(f"that of {flags[name]} alone"),
    )
    return _optional_text(f"{name}s", info)


def _optional_text(name: str, info: Any) -> inspect.Parameter:
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[str | None, info],
    )


def _default(learner: Learner, name: str) -> Any:
    return learner.settings.__dataclass_fields__[name].default


def _parameter(name: str, option: Option, learners: Learners) -> inspect.Parameter:
    """Return an option as typer takes it; its default is part of the help text."""
    homes = [kind for kind, one in learners.items() if name in _options(one)]
    kind: Any = type(_default(learners[homes[0]], name))
    if option.parse is not None:
        kind = str
    elif option.choices is not None:
        kind = Literal[(*option.choices(), *(["none"] if option.has_none else []))]
    elif name == "random_state":
        kind = int
    info = typer.Option(
        *([model_flags()[name]] + (["-C"] if name == "C" else [])),
        metavar="VALUE" if kind is str else None,
        help=f"{option.help} {_shown_default(name, learners)}".rstrip(),
        rich_help_panel=ADVANCED if option.rare else _panel(homes),
    )
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[kind | None, info],
    )


def _panel(homes: list[str]) -> str:
    """Return the part of the help page for a parameter of these kinds of models."""
    return "Model" if len(homes) > 1 else homes[0].capitalize()


def _shown_default(name: str, learners: Learners) -> str:
    """Return the default for the help text; if kinds of models differ, all of them."""
    if name in OWN_DEFAULTS:
        return by_default(OWN_DEFAULTS[name])
    if any(one.chosen_by == name for one in learners.values()):
        return by_default("none")
    kinds: dict[str, str] = {}
    for learner in learners.values():
        if name in _options(learner):
            default = _default(learner, name)
            if isinstance(default, bool):  # a switch
                return ""
            text = f"{default:g}" if isinstance(default, float) else str(default or None)
            kinds.setdefault(text, chooser(learner))
    first, *others = kinds
    if first == str(None):
        return by_default("none")
    return by_default("; ".join([first, *(f"{text} with {kinds[text]}" for text in others)]))


def chooser(learner: Learner, settings: Settings | None = None) -> str:
    """Return the option that selects a kind of model, with its value if there are settings.

    No text for the default kind.
    """
    if learner.chosen_by is None:
        return ""
    values = [] if settings is None else [getattr(settings, learner.chosen_by)]
    return Param(learner.chosen_by, *values).render(COMMAND_LINE)


def _make_options(learners: Learners, values: dict[str, Any]) -> ModelOptions:
    """Make settings of options; what was not given keeps its default."""
    given = {name: value for name, value in values.items() if value is not None}
    grids: dict[str, list[Any]] = {}
    for name in ("C", *_searched(learners), *_named(learners)):
        if f"{name}s" in given:
            text, flag = given.pop(f"{name}s"), model_flags()[f"{name}s"]
            choices = _named(learners).get(name)
            grids[name] = _parse_grid(text, flag) if choices is None else text.split(",")
            if choices is not None:
                _check_names(grids[name], choices, f"{flag} {text!r}")
    learner = _chosen(learners, given)
    options = _options(learner)
    with as_usage():
        for name, flag in _flags(given, grids).items():
            if name not in options:
                having = [one for one in learners.values() if name in _options(one)]
                raise UsageProblem(f"{flag} needs {' or '.join(map(chooser, having))}")
        for name in given:
            if options[name].has_none and given[name] == "none":
                given[name] = None
            parse, default = options[name].parse, _default(learner, name)
            if parse is not None:
                given[name] = parse(given[name])
            elif isinstance(default, bool):  # a switch: the value that is not the default
                given[name] = not default
        if given.get("random_state", SEED) < 0:
            flag = model_flags()["random_state"]
            raise UsageProblem(f"{flag} must be at least 0; got {given['random_state']}")
        settings = learner.settings(**given)
        for name, flag in _flags(given, grids).items():
            cause = excluded_by(settings, name)
            if cause is not None and not _used_in_grid(options[name], grids):
                raise UsageProblem(_no_meaning(flag, options[name], cause))
            if name in given and name in grids:
                raise UsageProblem(
                    f"{model_flags()[name]} fixes what {flag} is to choose: give only one"
                )
        seeded = "random_state" in options and excluded_by(settings, "random_state") is None
        if seeded and "random_state" not in given:
            settings = learner.settings(**{**given, "random_state": SEED})
    return ModelOptions(settings, frozenset(given), grids)


def _flags(given: Iterable[str], grids: Iterable[str]) -> dict[str, str]:
    """Return the options that were given, by parameter; that of a grid is the last one."""
    flags = model_flags()
    return {**{name: flags[name] for name in given}, **{name: flags[f"{name}s"] for name in grids}}


def _chosen(learners: Learners, given: Mapping[str, Any]) -> Learner:
    """Return the kind of model that options ask for."""
    asked = [one for one in learners.values() if one.chosen_by in given]
    if len(asked) > 1:
        raise UsageProblem(f"{chooser(asked[0])} cannot be combined with {chooser(asked[1])}")
    return asked[0] if asked else next(one for one in learners.values() if not one.chosen_by)


def _no_meaning(flag: str, option: Option, cause: Param) -> str:
    """Say which other option, with which values, an option needs."""
    assert option.only is not None
    *first, last = map(str, option.only[1]())
    other = model_flags()[cause.name]
    needs = f"needs {other} {', '.join(first)}{' or ' if first else ''}{last}"
    if cause.values == [None]:
        return f"{flag} {needs}"
    return f"{flag} has no meaning for {cause.render(COMMAND_LINE)}; it {needs}"


def _parse_grid(text: str, option: str) -> list[float]:
    """Parse different positive values (``0.1,1,10``, ``2^-5,2^0``) or a range (``0.01:100:5``)."""
    try:
        values = _range(text) if ":" in text else [parse_number(part) for part in text.split(",")]
        if not all(0.0 < value < math.inf for value in values) or len(values) > _MOST_VALUES:
            raise ValueError
    except (ValueError, OverflowError, ZeroDivisionError):
        raise UsageProblem(
            f"{option} {text!r}: expected positive numbers such as 0.1,1,10 or 2^-5,2^0, or a "
            f"range from:to:how_many such as 0.01:100:5; at most {_MOST_VALUES} values"
        ) from None
    if len(set(values)) < len(values):
        raise UsageProblem(f"{option} {text!r} has a value twice")
    return values


def _check_names(names: list[str], choices: tuple[str, ...], what: str) -> None:
    """Raise unless some values of an option are different choices."""
    if not set(names) <= set(choices):
        raise UsageProblem(f"{what}: expected names out of {', '.join(choices)}, such as "
                           f"{','.join(choices[:2])}")  # fmt: skip
    if len(set(names)) < len(names):
        raise UsageProblem(f"{what} has a value twice")


def _used_in_grid(option: Option, grids: Mapping[str, list[Any]]) -> bool:
    """Whether an option applies to a value that a search tries."""
    if option.only is None:
        return True
    other, values = option.only
    return any(value in values() for value in grids.get(other, ()))


def _range(text: str) -> list[float]:
    """Parse ``from:to:how_many``: values that are evenly spaced in the logarithm."""
    first, last, count = text.split(":")
    low, high, n = parse_number(first), parse_number(last), int(count)
    if not 1 <= n <= _MOST_VALUES or not (0.0 < low < math.inf and 0.0 < high < math.inf):
        raise ValueError
    step = (math.log(high) - math.log(low)) / max(1, n - 1)
    between = (low * math.exp(step * k) for k in range(1, n - 1))
    # Twelve digits, so that a grid of powers of ten is one.
    return [low, *(float(f"{value:.12g}") for value in between), high][:n]
