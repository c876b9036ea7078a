"""A ranking problem in rational arithmetic: what F is, and how low it gets.

    F(w) = 1/2 |w|^2 + sum over pairs of weight * max(0, 1 - x.w)^power,      x = x_better - x_worse

Every float64 is a rational number, so nothing is rounded here.  The minimum is attacked by guessing
which pairs have a slack there (and, for the hinge, which have none but touch the margin): what is
left is a linear system, which is solved exactly.  A wrong guess gives a point that is not the
minimum, but F there is no less true.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

Vector = list[Fraction]

NEAR = 1e-4  # the margin, for a guess


def rational(values: Iterable[Any]) -> Vector:
    return [Fraction(float(value)) for value in values]


@dataclass(frozen=True)
class ExactProblem:
    """Pairs of rows of X, as rational numbers, and what each weighs in F."""

    X: list[Vector]
    better: Sequence[int]
    worse: Sequence[int]
    weight: Vector
    power: int

    def scores(self, w: Vector) -> Vector:
        return [_dot(row, w) for row in self.X]

    def value(self, w: Vector) -> Fraction:
        """F(w)."""
        return self.value_of(_dot(w, w), self.scores(w))

    def value_of(self, norm2: Fraction, scores: Vector) -> Fraction:
        """F where the squared norm and the scores are given."""
        loss = sum(
            (
                weight * slack**self.power
                for weight, slack in zip(self.weight, self._slacks(scores), strict=True)
                if slack > 0
            ),
            Fraction(0),
        )
        return norm2 / 2 + loss

    def lowest(self, starts: Iterable[Vector], rounds: int = 12) -> Fraction:
        """Return the lowest F that is found from some starts, and at them."""
        lowest = self.value([Fraction(0)] * len(self.X[0]))
        for start in starts:
            w: Vector | None = start
            seen: set[tuple[int, ...]] = set()
            for _ in range(rounds):
                assert w is not None
                scores = self.scores(w)
                lowest = min(lowest, self.value_of(_dot(w, w), scores))
                guess = self._guess(scores)
                if guess in seen:
                    break
                seen.add(guess)
                w = self._minimiser(guess)
                if w is None:
                    break
        return lowest

    def _slacks(self, scores: Vector) -> Vector:
        pairs = zip(self.better, self.worse, strict=True)
        return [1 - scores[b] + scores[w] for b, w in pairs]

    def _guess(self, scores: Vector) -> tuple[int, ...]:
        """By pair: 1 with a slack, 0 on the margin, -1 without."""
        if self.power == 2:
            return tuple(1 if slack > 0 else -1 for slack in self._slacks(scores))
        return tuple(
            0 if abs(slack) < NEAR else 1 if slack > 0 else -1 for slack in self._slacks(scores)
        )

    def _minimiser(self, guess: tuple[int, ...]) -> Vector | None:
        """Solve the problem that is left when the guess is right."""
        dim = len(self.X[0])
        pull = [Fraction(0)] * dim  # sum over pairs with a slack of weight * x
        rows = []
        for kind, weight, b, w in zip(guess, self.weight, self.better, self.worse, strict=True):
            if kind < 0 or weight == 0:
                continue
            x = [p - q for p, q in zip(self.X[b], self.X[w], strict=True)]
            if kind == 0:
                rows.append(x)
                continue
            for j in range(dim):
                pull[j] += weight * x[j]
            if self.power == 2:
                rows.append([weight * v for v in x])
                rows.append(x)
        if self.power == 2:  # (I + 2 sum weight x x') w = 2 pull
            system = [[Fraction(int(i == j)) for j in range(dim)] for i in range(dim)]
            for scaled, x in zip(rows[::2], rows[1::2], strict=True):
                for i in range(dim):
                    if scaled[i]:
                        for j in range(dim):
                            system[i][j] += 2 * scaled[i] * x[j]
            return _solved(system, [2 * v for v in pull])
        # w = pull + sum a_k x_k, with x_k.w = 1 for as many as are independent.
        base: list[Vector] = []
        for x in rows:
            if len(base) < dim and _independent([*base, x]):
                base.append(x)
        gram = [[_dot(p, q) for q in base] for p in base]
        found = _solved(gram, [1 - _dot(x, pull) for x in base])
        if found is None:
            return None
        for a, x in zip(found, base, strict=True):
            for j in range(dim):
                pull[j] += a * x[j]
        return pull


def _dot(u: Vector, v: Vector) -> Fraction:
    return sum((a * b for a, b in zip(u, v, strict=True)), Fraction(0))


def _independent(rows: list[Vector]) -> bool:
    return (
        _solved([[_dot(p, q) for q in rows] for p in rows], [Fraction(0)] * len(rows)) is not None
    )


def _solved(system: list[Vector], right: Vector) -> Vector | None:
    """Solve by elimination; None if the system is singular."""
    rows = [[*row, value] for row, value in zip(system, right, strict=True)]
    n = len(rows)
    for k in range(n):
        pivot = next((i for i in range(k, n) if rows[i][k] != 0), None)
        if pivot is None:
            return None
        rows[k], rows[pivot] = rows[pivot], rows[k]
        inverse = 1 / rows[k][k]
        rows[k] = [value * inverse for value in rows[k]]
        for i in range(n):
            if i != k and rows[i][k]:
                factor = rows[i][k]
                rows[i] = [a - factor * b for a, b in zip(rows[i], rows[k], strict=True)]
    return [row[n] for row in rows]
