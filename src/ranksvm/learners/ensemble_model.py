"""Models that are sums of other models: s(x) = f_1 s_1(x) + f_2 s_2(x) + ...

The members have the same items as input, and may differ in everything else: their kind, how they
scale the features, whether they use features of the query.

In a model file there are the factors f; arrays of member k have the names ``k.name``, counted from
0; the fact "members" has the kind, the parameters and the facts of each; and the fact "selection"
tells how they were chosen: metric, best score, why the search ended, and the best candidates.
"""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ranksvm._vectors import Array
from ranksvm.data.queries import QueryGroups
from ranksvm.data.query_view import QueryView
from ranksvm.data.scaling import scaling_arrays, scaling_from
from ranksvm.data.table_encoding import FACT
from ranksvm.models.explain import Explanation
from ranksvm.models.facts import check_facts
from ranksvm.models.formats import (
    Arrays,
    ArraySpec,
    Format,
    check_array,
    own_arrays,
    sorted_names,
)
from ranksvm.models.model import Model

KIND = "ensemble"
ENTRIES = {"kind": str, "params": dict, "facts": dict}  # about a member, in the facts
MOST_MEMBERS = 1_000
# About the search, in the facts, and about each candidate on its leaderboard.
SELECTION = {"metric": str, "best_score": float, "ended": str, "leaderboard": list | tuple}
CANDIDATE = {
    "kernel": str,
    "scaling": str | None,
    "query_features": list | tuple,
    "pair_weight": str,
    "gamma": float | None,
    "C": float,
    "score": float,
    "seconds": float,
    "chosen": bool,
}


def _class_of(kind: str) -> type[Model]:
    from ranksvm.learners import model_class

    return model_class(kind)


def _arrays_by_member(arrays: Arrays) -> dict[str, dict[str, NDArray[Any]]]:
    found: dict[str, dict[str, NDArray[Any]]] = {}
    for name, array in arrays.items():
        member, dot, own = name.partition(".")
        if dot:
            found.setdefault(member, {})[own] = array
    return found


class _Members(Format):
    """Factors, and the arrays of all members."""

    def validate(self, kind: str, arrays: Arrays, facts: Mapping[str, Any]) -> int:
        members = facts.get("members")
        if not isinstance(members, list | tuple) or not 1 <= len(members) <= MOST_MEMBERS:
            raise ValueError(
                f"members in the facts must be a list of 1 to {MOST_MEMBERS} models; got "
                f"{reprlib.repr(members)}"
            )
        found = _arrays_by_member(arrays)
        expected = [str(k) for k in range(len(members))]
        if found.keys() != set(expected):
            raise ValueError(
                f"an ensemble of {len(members)} has arrays of the members {expected[0]} to "
                f"{expected[-1]}; got {sorted_names(found) or 'none'}"
            )
        factors = {name: one for name, one in arrays.items() if "." not in name}
        if factors.keys() != self.arrays.keys() or factors["factors"].shape != (len(members),):
            raise ValueError(f"an ensemble of {len(members)} has as many factors")
        check_array("factors", self.arrays["factors"], factors["factors"])
        sizes = {_check_member(k, one, found[str(k)]) for k, one in enumerate(members)}
        if len(sizes) > 1:
            raise ValueError(f"members have different numbers of features: {sorted(sizes)}")
        check_facts(facts, ())
        _check_selection(facts.get("selection"))
        return sizes.pop()


def _check_selection(selection: Any) -> None:
    _check_entries("selection", selection, SELECTION)
    for number, row in enumerate(selection["leaderboard"]):
        name = f"candidate {number} of the selection"
        _check_entries(name, row, CANDIDATE)
        if not all(isinstance(one, str) for one in row["query_features"]):
            raise ValueError(f"query_features of {name} must be strings")


def _check_entries(name: str, about: Any, entries: Mapping[str, Any]) -> None:
    """Check that a mapping in the facts has these entries of these types, and maybe others."""
    if not isinstance(about, Mapping) or not about.keys() >= entries.keys():
        raise ValueError(
            f"{name} in the facts must have {', '.join(entries)}; got {reprlib.repr(about)}"
        )
    for key, expected in entries.items():
        if not isinstance(about[key], expected):
            raise ValueError(f"{key} of {name} is a {type(about[key]).__name__}")


def _check_member(k: int, about: Any, arrays: Arrays) -> int:
    """Check a member, and return its number of features."""
    _check_entries(f"member {k}", about, ENTRIES)
    if about.keys() != ENTRIES.keys():
        raise ValueError(f"member {k} in the facts must have {', '.join(ENTRIES)} only")
    kind = about["kind"]
    try:
        form = None if kind == KIND else _class_of(kind).FORMATS[kind]
    except KeyError:
        form = None
    if form is None:
        raise ValueError(f"member {k} cannot be a model of kind {reprlib.repr(kind)}")
    try:
        return form.validate(kind, arrays, about["facts"])
    except ValueError as error:
        raise ValueError(f"member {k}: {error}") from None


@dataclass(frozen=True, eq=False, kw_only=True)
class EnsembleModel(Model):
    """A weighted sum of models.

    Attributes
    ----------
    members : tuple of Model
        The models, with the same features.
    factors : ndarray of shape (n_members,)
        What the scores of each member are multiplied by.
    """

    members: tuple[Model, ...]
    factors: Array

    FORMATS: ClassVar[Mapping[str, Format]] = {
        KIND: _Members({"factors": ArraySpec(np.dtype(np.float64), ("members",))})
    }

    def __post_init__(self) -> None:
        """Record the members as facts, which is how files store them.

        All have the same features, so only the facts of the sum say how they are encoded.
        """
        members = [
            {
                "kind": one.kind,
                "params": dict(one.params),
                "facts": {name: fact for name, fact in one.facts.items() if name != FACT},
            }
            for one in self.members
        ]
        object.__setattr__(self, "facts", {**self.facts, "members": members})

    @property
    def view(self) -> QueryView:
        """Features of the query that a member needs."""
        names = (name for member in self.members for name in member.view.names)
        return QueryView(tuple(dict.fromkeys(names)))

    @property
    def n_columns(self) -> int:
        return self.members[0].n_columns

    @property
    def n_features(self) -> int:
        return self.members[0].n_features

    def scores(self, X: Any, *, groups: QueryGroups | None = None, n_threads: int = 1) -> Array:
        total = np.zeros(X.shape[0])
        for member, factor in zip(self.members, self.factors.tolist(), strict=True):
            total += factor * member.scores(X, groups=groups, n_threads=n_threads)
        return total

    def scaled_scores(self, X: Any, *, n_threads: int = 1) -> Array:
        return self.scores(X, n_threads=n_threads)

    def contributions(self, rows: Any) -> tuple[str, NDArray[np.int64], Array]:
        each = np.array([member.scores(rows) for member in self.members])
        return "member", np.arange(len(self.members)), self.factors * (each[:, 0] - each[:, 1])

    def explain(
        self,
        X: Any,
        i: int,
        j: int,
        *,
        groups: QueryGroups | None = None,
        items: tuple[str, str] | None = None,
        first: int = 0,
    ) -> Explanation:
        """Explain why item i is ranked above or below item j; see :meth:`Model.explain`.

        Contributions of the same feature, or feature of the query, to linear members are added up.
        A kernel mixes the features, so a kernel member is one part.
        """
        found = [
            _times(member.explain(X, i, j, groups=groups, items=items, first=first), factor)
            for member, factor in zip(self.members, self.factors.tolist(), strict=True)
        ]
        widest = max(member.n_columns for member in self.members)
        parts: dict[str, tuple[int, float]] = {}  # by name: index and contribution

        def add(name: str, index: int, contribution: float) -> None:
            place, known = parts.get(name, (index, 0.0))
            parts[name] = place, known + contribution

        is_linear = [one.part == "feature" for one in found]
        for k, (member, one) in enumerate(zip(self.members, found, strict=True)):
            if is_linear[k]:
                for name, index, value in zip(
                    one.names, one.index.tolist(), one.contributions.tolist(), strict=True
                ):
                    add(name, index, value)
            else:
                add(label_of(member), widest + k, one.difference)
        rows = sorted(
            ((name, *part) for name, part in parts.items() if part[1] != 0.0),
            key=lambda row: (-abs(row[2]), row[1]),
        )
        return replace(
            found[0],
            part="feature" if all(is_linear) else "feature or kernel",
            names=tuple(row[0] for row in rows),
            index=np.array([row[1] for row in rows], dtype=np.int64),
            contributions=np.array([row[2] for row in rows]),
            difference=sum(one.difference for one in found),
            scores=(sum(one.scores[0] for one in found), sum(one.scores[1] for one in found)),
        )

    def describe(self) -> dict[str, Any]:
        return {"members": [label_of(member) for member in self.members]}

    def arrays(self) -> dict[str, NDArray[Any]]:
        of_members = {
            f"{k}.{name}": array
            for k, member in enumerate(self.members)
            for name, array in {**member.arrays(), **scaling_arrays(member.scaling)}.items()
        }
        return {"factors": self.factors, **of_members}

    @classmethod
    def from_arrays(cls, arrays: Arrays, **about: Any) -> Self:
        found = _arrays_by_member(arrays)
        names = about["feature_names"]
        shared = {name: fact for name, fact in about["facts"].items() if name == FACT}
        members = [
            _member({**one, "facts": {**one["facts"], **shared}}, found[str(k)], names)
            for k, one in enumerate(about["facts"]["members"])
        ]
        return cls(members=tuple(members), factors=arrays["factors"], **about)


def _times(found: Explanation, factor: float) -> Explanation:
    one, other = found.scores
    return replace(
        found,
        contributions=factor * found.contributions,
        difference=factor * found.difference,
        scores=(factor * one, factor * other),
    )


def _member(about: Mapping[str, Any], arrays: Arrays, feature_names: Any) -> Model:
    own, of_scaling = own_arrays(arrays)
    model = _class_of(about["kind"]).from_arrays(
        own, params=about["params"], facts=about["facts"], feature_names=feature_names
    )
    return replace(model, scaling=scaling_from(of_scaling, model.n_columns))


def label_of(model: Model) -> str:
    """Return a short description of a member."""
    params = model.params
    parts: Sequence[Any] = (
        params.get("kernel", model.kind),
        params.get("scaling"),
        *model.view.names,
    )
    label = ", ".join(str(part) for part in parts if part is not None)
    gamma = model.facts.get("gamma")
    return label if gamma is None else f"{label}, gamma = {gamma:.3g}"
