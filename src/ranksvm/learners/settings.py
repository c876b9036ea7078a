"""The parameters of a fit.

A parameter is a dataclass field created by :func:`parameter`, with its default, its meaning and
where it applies.  The fields define the parameters of the estimators and the options of the command
line.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple, get_args

from ranksvm._checks import (
    check_choice,
    check_flag,
    check_integer,
    check_positive,
    finite_number,
    is_integer,
)
from ranksvm._messages import Message, Param, ParameterError, Value
from ranksvm._sparse import is_sparse
from ranksvm._vectors import Array
from ranksvm.backends.native import COUNTINGS
from ranksvm.data.query_features import QUERY_FEATURES, check_query_features
from ranksvm.data.query_view import QueryView
from ranksvm.data.ranking_data import RankingData
from ranksvm.data.scaling import SAMPLE, SCALINGS
from ranksvm.data.shard_memory import TAKEN_TIMES
from ranksvm.data.shards import ShardedMatrix
from ranksvm.pairs.gains import Discount, Gain, Gains
from ranksvm.pairs.oracle import LOSSES
from ranksvm.sharded.memory import sample_bytes
from ranksvm.solvers.base import Solver
from ranksvm.solvers.bundle import Bundle
from ranksvm.solvers.newton import Newton
from ranksvm.solvers.smoothing import SmoothedNewton

# Fastest first: "auto" uses the first solver that supports the loss.  Hessian products of the
# squared hinge are cheaper than the evaluations of the bundle method; for the hinge, the bundle
# method also needs the fewest products with X.
SOLVERS: dict[str, Any] = {
    "newton": Newton,
    "bundle": Bundle,
    "smoothed_newton": SmoothedNewton,
}
# What solvers need, for messages.
CAPABILITIES = {
    "hessian": "a loss with second derivatives",
    "smoothing": "a loss with a kink to smooth",
}
MOST_VALUES = 1_000_000  # in a grid
# Bytes of an item if the scores of all items come together: vectors of the solver, and all pairs.
GATHERED_BYTES, SMOOTHED_BYTES = 420, 600
# `docs/scaling.md` has the measurements behind these and behind the defaults of C.  Sparse features
# are mostly words, whose weights (tf-idf) know more than their deviations.
AUTO, DENSE_SCALING = "auto", "standard"
C_RANGE = 50.0 * 4.0**-5, 50.0 * 4.0**5
REDUCTIONS = {
    "mean": "mean over pairs",
    "sum": "sum over pairs",
    "query_mean": "mean over the pairs of each query, then over queries",
}


# What multiplies the weight of a pair of labels; see `ranksvm.learners.gains`.
PAIR_WEIGHTS = ("uniform", "gain", "lambda")
WITH_GAINS = ("gain", "lambda")
WITH_ROUNDS = ("lambda",)
MOST_ROUNDS = 1000
# What happens to missing values; see `ranksvm.data.table_encoding`.
MISSING = ("error", "impute")


class Grid(NamedTuple):
    """The values of a parameter that a search tries.

    Attributes
    ----------
    values : callable
        ``values(data, n)`` returns n values for a data set: positive and distinct numbers.
    n : int
        Number of values by default.
    text : str
        The default values in words, for the help text.
    resolve : callable
        ``resolve(value, data)`` converts a value of the parameter to a number.
    """

    values: Callable[[RankingData, int], Array]
    n: int
    text: str
    resolve: Callable[[Any, RankingData], float] = lambda value, data: float(value)


class Option(NamedTuple):
    """What the command line needs to know about a parameter.

    Attributes
    ----------
    help : str
        Help text.
    flag : str or None
        Name of the option; None for the name of the parameter.
    choices : callable or None
        Returns the allowed values.
    has_none : bool
        Whether None is allowed beside the choices; the command line calls it "none".
    only : tuple (name, values) or None
        The parameter applies only if the parameter ``name`` has one of the values that ``values()``
        returns.
    parse : callable or None
        Converts a string to a value, which the settings check.  None: the type of the default.
    grid : Grid or None
        The values that a search tries; None if it does not tune this parameter.
    searchable : bool
        Whether a search can choose among several of the choices, if it is asked to.
    rare : bool
        Whether few users need it; the help page then has it at the end.
    """

    help: str
    flag: str | None = None
    choices: Callable[[], Iterable[str]] | None = None
    has_none: bool = False
    only: tuple[str, Callable[[], Sequence[Any]]] | None = None
    parse: Callable[[str], Any] | None = None
    grid: Grid | None = None
    searchable: bool = False
    rare: bool = False


def parameter(default: Any, help: str = "", **about: Any) -> Any:
    """Return a dataclass field for a parameter.

    Parameters
    ----------
    default : object
        Default value.
    help : str
        Help text.  Without one, the command line has no option for this parameter.
    **about
        The other attributes of :class:`Option`.
    """
    return field(default=default, metadata={"option": Option(help, **about)} if help else {})


def with_default(name: str, default: Any) -> Any:
    """Return a field like that of :class:`Settings`, with another default."""
    return field(default=default, metadata=Settings.__dataclass_fields__[name].metadata)


def option_of(settings: type[Settings], name: str) -> Option | None:
    """Return the command-line option of a parameter; None if it has none."""
    found: Option | None = settings.__dataclass_fields__[name].metadata.get("option")
    return found


def searched(settings: type[Settings]) -> dict[str, Grid]:
    """Return the parameters that a search tunes in addition to C, with their default values."""
    options = {one.name: option_of(settings, one.name) for one in fields(settings)}
    return {
        name: option.grid
        for name, option in options.items()
        if option is not None and option.grid is not None
    }


def searched_choices(settings: type[Settings]) -> dict[str, tuple[str, ...]]:
    """Return the parameters with names as values that a search can choose, with all choices."""
    options = {one.name: option_of(settings, one.name) for one in fields(settings)}
    return {
        name: tuple(option.choices())
        for name, option in options.items()
        if option is not None and option.searchable and option.choices is not None
    }


def check_grid_size(name: str, n: int) -> None:
    """Raise unless n can be the number of values of a parameter in a grid."""
    if not 1 <= n <= MOST_VALUES:
        raise ParameterError(
            "{grid} must be a sequence, or how many values to try (at least 1); got {value}",
            grid=Param(f"{name}s"),
            value=Value(n),
        )


@dataclass(frozen=True)
class Settings:
    """The parameters that all rankers have: the objective and how it is minimized.

    An invalid value raises a ParameterError.
    """

    C: float = parameter(
        5.0,
        "Weight of the loss, such as 50 or 2^5; larger fits the data more closely.",
        parse=lambda text: number_or_text(text),
    )
    loss: str = parameter("squared_hinge", "Loss of a pair.", choices=lambda: LOSSES)
    reduction: str = parameter("mean", "How losses are combined.", choices=lambda: REDUCTIONS)
    pair_weight: str = parameter(
        "uniform",
        "Weight of a pair: uniform; gain (its difference in DCG); or lambda (the change of NDCG "
        "if swapped).",
        choices=lambda: PAIR_WEIGHTS,
        searchable=True,
    )
    gain: str = parameter(
        "exp2",
        "Gain of label y: exp2 (2^y - 1) or linear (y).",
        choices=lambda: get_args(Gain),
        only=("pair_weight", lambda: WITH_GAINS),
        rare=True,
    )
    discount: str = parameter(
        "log2",
        "Discount: log2 (1/log2(1+r)), letor (1/log2(r)).",
        choices=lambda: get_args(Discount),
        only=("pair_weight", lambda: WITH_GAINS),
        rare=True,
    )
    truncation: int = parameter(
        30,
        "For lambda: pairs with an item in the first N ranks.",
        only=("pair_weight", lambda: WITH_ROUNDS),
        rare=True,
    )
    n_reweight: int = parameter(
        1,
        "For lambda: how often pairs get new weights.",
        flag="reweight",
        only=("pair_weight", lambda: WITH_ROUNDS),
        rare=True,
    )
    scaling: str | None = parameter(
        AUTO,
        f"Scaling of features: {AUTO} ({DENSE_SCALING}, none if sparse), standard, minmax, robust, "
        "quantile or none.",
        choices=lambda: (AUTO, *SCALINGS),
        has_none=True,
    )
    # How tables become features.  Commands have options of their own for these.
    missing: str = "error"
    min_frequency: float | None = None
    query_features: Sequence[str] = parameter(
        (),
        "Add features that compare items of a query; one or more, with commas: "
        f"{', '.join(QUERY_FEATURES)}.",
        parse=lambda text: tuple(part.strip() for part in text.split(",")),
    )
    keep_features: bool = parameter(
        True, "Use --query-features alone, without the features.", flag="drop-features", rare=True
    )
    solver: str = parameter("auto", "Algorithm.", choices=lambda: ("auto", *SOLVERS), rare=True)
    counting: str = "auto"
    tol: float = parameter(1e-4, "Relative gap to stop at.", rare=True)
    max_iter: int = parameter(1000, "Maximum number of iterations.", rare=True)

    # The smallest and the largest C that a search tries, unless it is told otherwise.
    C_RANGE = C_RANGE

    def __post_init__(self) -> None:
        check_positive("C", self.C)
        check_positive("tol", self.tol)
        check_integer("max_iter", self.max_iter)
        check_choice("loss", self.loss, LOSSES)
        check_choice("reduction", self.reduction, REDUCTIONS)
        check_choice("pair_weight", self.pair_weight, PAIR_WEIGHTS)
        check_choice("gain", self.gain, get_args(Gain))
        check_choice("discount", self.discount, get_args(Discount))
        check_integer("truncation", self.truncation)
        check_integer("n_reweight", self.n_reweight, most=MOST_ROUNDS)
        check_choice("scaling", self.scaling, (None, AUTO, *SCALINGS))
        check_choice("missing", self.missing, MISSING)
        check_frequency(self.min_frequency)
        names = check_query_features("query_features", self.query_features)
        object.__setattr__(self, "query_features", names)
        check_flag("keep_features", self.keep_features)
        if not (names or self.keep_features):
            raise ParameterError(
                "{dropped} needs {names}: otherwise there are no features",
                dropped=Param("keep_features", False),
                names=Param("query_features"),
            )
        check_choice("counting", self.counting, COUNTINGS)
        check_choice("solver", self.solver, ("auto", *SOLVERS))
        lacking = self._solver_type.requires - LOSSES[self.loss].capabilities
        if lacking:
            raise self._unsuitable(min(lacking))

    def _unsuitable(self, capability: str) -> ParameterError:
        others = [name for name in LOSSES if self.solver in solvers_for(name)]
        return ParameterError(
            "{solver} does not work with {loss}: it needs {needs}. {remedy}",
            remedy="Use {solvers}{or_losses}.",
            solver=Param("solver", self.solver),
            loss=Param("loss", self.loss),
            needs=CAPABILITIES.get(capability, capability),
            solvers=Param("solver", *solvers_for(self.loss)),
            or_losses=Message(", or {losses}", losses=Param("loss", *others)) if others else "",
        )

    @property
    def view(self) -> QueryView:
        """What the columns that the model sees are made of."""
        return QueryView(tuple(self.query_features), bool(self.keep_features))

    @property
    def gains(self) -> Gains | None:
        """How labels make weights of pairs, whatever the ranking; None if they do not."""
        return Gains(self.gain, self.discount) if self.pair_weight == "gain" else None

    @property
    def n_rounds(self) -> int:
        """Number of fits after the first one, each with weights from the ranking of the last."""
        return int(self.n_reweight) if self.pair_weight in WITH_ROUNDS else 0

    @property
    def shares_coefficients(self) -> bool:
        """Whether coefficients have the same meaning on every data set, as feature weights do."""
        return False

    def scaling_for(self, X: Any, *, encoded: bool = False) -> str | None:
        """Return the scaling of these features: a key of ``SCALINGS``, or None.

        ``encoded``: they are columns of a table (:mod:`ranksvm.data.table_encoding`), whose numbers
        need a scale even if categories make them sparse.
        """
        if self.scaling != AUTO:
            return self.scaling
        if encoded:
            return DENSE_SCALING
        stays = X.shards.is_sparse if isinstance(X, ShardedMatrix) else is_sparse(X)
        return None if stays else DENSE_SCALING

    @property
    def works_in_shards(self) -> bool:
        """Whether the model can be trained on data in shards."""
        return False

    # What a fit on files needs; see `ranksvm.data.shard_memory.FitMemory`.

    def row_bytes(self, n_features: int, *, is_sparse: bool) -> int:
        """Return the bytes of the features that are computed for one item; 0 if there are none."""
        del is_sparse
        return 8 * n_features if self.scaling == "quantile" else 0

    @property
    def gathered_bytes(self) -> int:
        """Bytes of an item if the scores of all items come together."""
        return SMOOTHED_BYTES if self.solver == "smoothed_newton" else GATHERED_BYTES

    def working_bytes(
        self, n_items: int, n_features: int, itemsize: int, *, is_sparse: bool
    ) -> int:
        """Return the bytes of what is made once: samples for the scaling, the preconditioner."""
        if self.scaling == "quantile":
            itemsize, is_sparse = 8, False
        found = sample_bytes(n_items, n_features, itemsize, is_sparse=is_sparse)
        return max(found, self.scaling_bytes(n_items, n_features, itemsize))

    def scaling_bytes(self, n_items: int, n_features: int, itemsize: int) -> int:
        """Return the bytes of the sample that quartiles and quantiles are those of."""
        if self.scaling not in ("robust", "quantile"):
            return 0
        return min(n_items, 2 * SAMPLE) * n_features * itemsize * TAKEN_TIMES

    @property
    def is_pairwise(self) -> bool:
        """Whether X is a kernel matrix, with one column per training item."""
        return False

    @property
    def is_linear_svm(self) -> bool:
        """Whether the model is a linear ranking SVM, the only kind that SVM^rank's C is for."""
        return False

    def check_budget(self, data: RankingData) -> None:
        """Raise if a fit on these items would exceed a memory budget; called before a search."""

    def make_solver(self) -> Solver:
        """Return the solver; "auto" is the fastest one that supports the loss."""
        solver: Solver = self._solver_type(tol=self.tol, max_iter=self.max_iter)
        return solver

    @property
    def _solver_type(self) -> Any:
        return SOLVERS[solvers_for(self.loss)[0] if self.solver == "auto" else self.solver]


def excluded_by(settings: Settings, name: str) -> Param | None:
    """Return the parameter, with its value, that leaves no use for another; None if it applies."""
    option = option_of(type(settings), name)
    if option is None or option.only is None:
        return None
    other, values = option.only
    value = getattr(settings, other)
    return None if value in values() else Param(other, value)


def check_frequency(value: Any) -> None:
    """Raise unless ``value`` can be ``min_frequency``: None, a number of items, or a share."""
    share = finite_number(value)
    if value is None or (is_integer(value) and value >= 1):
        return
    if is_integer(value) or share is None or not 0.0 < share < 1.0:
        raise ParameterError(
            "{name} must be a number of items (1, 2, ...), or a share of them between 0 and 1; got "
            "{value}",
            name=Param("min_frequency"),
            value=Value(value),
        )


def solvers_for(loss: str) -> list[str]:
    """Return the names of the solvers that support a loss, fastest first."""
    able = LOSSES[loss].capabilities
    found = [name for name, solver in SOLVERS.items() if solver.requires <= able]
    if not found:
        raise ValueError(f"no solver works with the loss {loss!r}")
    return found


def number_or_text(text: str) -> float | str:
    """Return the number that a text stands for, or else the text."""
    try:
        return parse_number(text)
    except (ValueError, OverflowError):
        return text


def parse_number(text: str) -> float:
    """Parse ``0.03125`` or ``2^-5``; raises a ValueError or OverflowError if it is neither."""
    base, power, exponent = text.partition("^")
    if power and not float(base) > 0.0:
        raise ValueError
    return math.pow(float(base), float(exponent)) if power else float(base)
