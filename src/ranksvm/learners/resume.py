"""The state of an unfinished fit in a file, so that the next one continues from it.

A fit writes its coefficients after every iteration, as a whole or not at all.  A start does not
change the problem: a fit that continues is certified like any other, and its coefficients agree
with those of an uninterrupted one up to the tolerance.

A fit with several rounds (``pair_weight="lambda"``) writes those of round 0, where the next one
begins as well.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from ranksvm._files import atomic_write, check_target
from ranksvm._messages import Param, ParameterError
from ranksvm._vectors import Array
from ranksvm.data.ranking_data import RankingData
from ranksvm.data.shards import DigestRows, RowBlock, Shard, ShardedMatrix
from ranksvm.learners.fit import Fit
from ranksvm.learners.settings import Settings, excluded_by
from ranksvm.solvers.base import Callback, Status, TraceRow

FORMAT = "ranksvm fit state 1"
NAMES = {"format", "identity", "coef", "n_iter"}
LARGEST_IDENTITY = 1 << 16  # bytes
# Settings that do not change the problem: a fit may continue with other values.
NOT_PART = ("solver", "counting", "tol", "max_iter", "memory_budget")
# What reading a damaged file may raise, beside errors of the system.
UNREADABLE = (ValueError, KeyError, EOFError, TypeError, zipfile.BadZipFile, NotImplementedError)


class FitState:
    """The coefficients of an unfinished fit in a file.

    Parameters
    ----------
    path : path-like
        An .npz file, which need not exist yet.
    identity : mapping of str to str
        What the fit is about, part by part; see :func:`fit_identity`.

    Attributes
    ----------
    coef : ndarray or None
        The coefficients in the file; None without a file.
    n_iter : int
        Number of iterations that led to them.

    Raises
    ------
    ParameterError
        If the file exists and is damaged, or is not the state of this fit.
    OSError
        If the file cannot be written.
    """

    def __init__(self, path: str | os.PathLike[str], identity: Mapping[str, str]) -> None:
        self.path = os.fspath(path)
        self._identity = dict(identity)
        check_target(self.path)
        self.coef, self.n_iter = self._read()

    @classmethod
    def of(cls, path: str | os.PathLike[str], data: RankingData, settings: Settings) -> FitState:
        """Return the state of a fit of these data with these parameters.

        Raises
        ------
        ParameterError
            If the parameters lack a seed, or as for the class.
        """
        has_no_seed = getattr(settings, "random_state", 0) is None
        if has_no_seed and excluded_by(settings, "random_state") is None:
            raise ParameterError(
                "{checkpoint} needs {random_state}, an integer: a fit that continues must draw the "
                "same random numbers",
                checkpoint=Param("checkpoint"),
                random_state=Param("random_state"),
            )
        return cls(path, fit_identity(data, settings))

    def solve(self, problem: Any, callback: Callback | None, **options: Any) -> Fit:
        """Solve a problem; continue from the state, and keep it up to date.

        ``n_iter`` of the fit includes the iterations before.  The file stays until ``finish``.
        """
        before = self.n_iter
        if self.coef is not None:
            options["start"] = self.coef

        def keep(row: TraceRow, coef: Array) -> Any:
            if row.iteration and not row.round:  # the start has nothing to keep
                self.save(coef, before + row.iteration)
            return callback is not None and callback(row, coef)

        fit: Fit = problem.solve(callback=keep, **options)
        return replace(fit, n_iter=before + fit.n_iter)

    def save(self, coef: Array, n_iter: int) -> None:
        """Replace the state."""
        content = io.BytesIO()
        np.savez(
            content,
            format=np.array(FORMAT),
            identity=np.array(json.dumps(self._identity, sort_keys=True)),
            coef=np.asarray(coef, dtype=np.float64),
            n_iter=np.array(n_iter, dtype=np.int64),
        )
        with atomic_write(self.path) as file:
            file.write(content.getbuffer())
        self.coef, self.n_iter = np.array(coef, dtype=np.float64), n_iter

    def finish(self, fit: Fit) -> None:
        """Remove the file, unless the fit may go on; called once its model is safe."""
        if fit.status not in (Status.MAX_ITER, Status.STOPPED):
            with suppress(FileNotFoundError):
                os.unlink(self.path)

    def _read(self) -> tuple[Array | None, int]:
        try:
            with open(self.path, "rb") as file:
                content = file.read()
        except FileNotFoundError:
            return None, 0
        if not content:  # as `mktemp` makes them
            return None, 0
        try:
            with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
                if set(arrays.files) != NAMES or str(arrays["format"]) != FORMAT:
                    raise ValueError
                text = str(arrays["identity"])
                coef, n_iter = arrays["coef"], int(arrays["n_iter"])
            if len(text) > LARGEST_IDENTITY:
                raise ValueError
            there: dict[str, str] = json.loads(text)
            is_sound = coef.dtype == np.float64 and coef.ndim == 1 and np.isfinite(coef).all()
            if not isinstance(there, dict) or not is_sound or n_iter < 0:
                raise ValueError
        except UNREADABLE:
            raise self._refused("{path} is damaged or is not the state of a fit") from None
        names = {**self._identity, **there}
        other = [name for name in names if self._identity.get(name) != there.get(name)]
        if other:
            what = ", ".join(other)[:200]
            raise self._refused("{path} is from a different fit (different {what})", what=what)
        return coef, n_iter

    def _refused(self, text: str, **parts: Any) -> ParameterError:
        return ParameterError(
            f"{text}. Delete it, or choose another {{checkpoint}}.",
            path=self.path,
            checkpoint=Param("checkpoint"),
            **parts,
        )


def fit_identity(data: RankingData, settings: Settings) -> dict[str, str]:
    """Return what a fit is about, part by part; X is read once, unless it comes from files.

    Parameters
    ----------
    data : RankingData
        Training set; X in memory or in shards.
    settings : Settings
        Parameters.

    Returns
    -------
    dict of str to str
    """
    X = data.X
    in_shards = isinstance(X, ShardedMatrix)
    digest = X.digest() if in_shards else DigestRows()(Shard(RowBlock(lambda: X), X.shape[0]))
    kept = {name: value for name, value in asdict(settings).items() if name not in NOT_PART}
    listed = data.preferences
    pairs = {} if listed is None else {"pairs": _digest(*listed.arrays)}
    return {
        "features": digest.hex(),
        "labels": _digest(data.y),
        "queries": _digest(data.groups.index),
        "weights": _digest(data.item_weight) + _digest(data.query_weight),
        **pairs,
        # A parameter may be a NumPy number.
        "parameters": json.dumps(kept, sort_keys=True, default=lambda value: value.item()),
    }


def _digest(*arrays: Any) -> str:
    if len(arrays) == 1 and arrays[0] is None:
        return "none"
    parts = (b"none" if array is None else np.asarray(array).tobytes() for array in arrays)
    return hashlib.sha256(b"".join(parts)).hexdigest()
