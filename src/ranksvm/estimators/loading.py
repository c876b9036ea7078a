"""Loading a model file as an estimator, without scikit-learn until it is needed.

Importing scikit-learn takes a second and a hundred megabytes, and a program that only predicts
needs nothing of it.  So ``load`` returns an object that can predict.  When anything else is asked
of it (an attribute, its class, a copy), or X needs scikit-learn's checks, it becomes the estimator:
the same object, with the attributes and the class of the estimator from then on.
``importlib.util.LazyLoader`` does the same with modules.  If the class of the estimator has been
imported already, the object is an estimator from the start.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from ranksvm._lazy import found_at
from ranksvm._threads import resolve_n_jobs
from ranksvm._vectors import Array
from ranksvm.data.queries import QueryGroups
from ranksvm.estimators.plain import plain_items
from ranksvm.learners import Kind, kind_of, read_model
from ranksvm.models.model import Model, ModelFileError

if TYPE_CHECKING:
    from ranksvm.estimators.model_ranker import ModelRanker

_becoming = threading.Lock()


def estimator_of(kind: Kind) -> type[ModelRanker]:
    """Return the estimator class for a kind of model."""
    found: type[ModelRanker] = found_at(kind.estimator)
    return found


def load(path: str | os.PathLike[str] | BinaryIO) -> ModelRanker:
    """Read a model that ``save`` wrote.

    Only numbers and names are read; no code in the file is ever executed.  A program that only
    calls ``predict``, with float arrays or pandas frames, never imports scikit-learn.

    Parameters
    ----------
    path : path-like or binary file
        The model file.

    Returns
    -------
    LinearRankSVM, KernelRankSVM, FactorizedRankSVM, SurvivalRankSVM, KernelSurvivalRankSVM or \
AutoRankSVM
        The fitted estimator, with the parameters and training facts of the file; ``history_`` is
        empty.

    Raises
    ------
    ModelFileError
        If the file is not a model, is damaged, or was written by a newer version.
    """
    model = read_model(path)
    if kind_of(model).estimator.partition(":")[0] in sys.modules:
        return _estimator(model, path)
    return cast("ModelRanker", _Loaded(model, path))


def _estimator(model: Model, path: Any) -> ModelRanker:
    try:
        return estimator_of(kind_of(model))._from_model(model)
    except (TypeError, ValueError, OverflowError) as error:
        raise ModelFileError(f"{path}: this version cannot load the model: {error}") from error


class _File(NamedTuple):
    """What an object that is not an estimator yet has."""

    model: Model
    feature_names: NDArray[np.object_] | None
    path: Any


class _Loaded:
    """A model that predicts, and becomes an estimator for everything else."""

    def __init__(self, model: Model, path: Any) -> None:
        names = model.feature_names
        array = None if names is None else np.array(names, dtype=object)
        vars(self)["_file"] = _File(model, array, path)

    def predict(self, X: Any, qid: Any = None) -> Array:
        """Score items; larger is ranked higher.  See ``predict`` of the estimator."""
        file: _File | None = vars(self).get("_file")  # None: another thread needed the estimator
        if file is not None and file.model.encoding is None and not isinstance(qid, str):
            n_jobs = file.model.params.get("n_jobs")
            items = plain_items(X, file.model.n_features, file.feature_names, n_jobs)
            if items is not None:
                groups = None if qid is None else QueryGroups.from_qid(qid, items.shape[0])
                threads = resolve_n_jobs(n_jobs)
                return file.model.scores(items, groups=groups, n_threads=threads)
        scores: Array = _become_estimator(self).predict(X, qid)
        return scores

    # All other attributes are those of the estimator.  Python looks up some of them in the class.

    @property  # type: ignore[misc]  # it can be written otherwise
    def __class__(self) -> Any:
        # isinstance asks for it, and compares it only if the object is still of another type.
        file: _File | None = vars(self).get("_file")
        return type(self) if file is None else estimator_of(kind_of(file.model))

    def __getattr__(self, name: str) -> Any:
        return getattr(_become_estimator(self), name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(_become_estimator(self), name, value)

    def __delattr__(self, name: str) -> None:
        delattr(_become_estimator(self), name)

    def __dir__(self) -> Any:
        return dir(_become_estimator(self))

    def __repr__(self) -> str:
        return repr(_become_estimator(self))

    def __getstate__(self) -> Any:
        return _become_estimator(self).__getstate__()

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _become_estimator(self).__reduce_ex__(protocol)


def _become_estimator(loaded: Any) -> Any:
    """Make the object an estimator, unless it is one already, and return it."""
    attributes = vars(loaded)
    file = attributes.get("_file")
    if file is None:
        return loaded
    made = _estimator(file.model, file.path)
    with _becoming:
        if "_file" in attributes:
            attributes.update(vars(made))
            object.__dict__["__class__"].__set__(loaded, type(made))
            del attributes["_file"]  # last: without it, other threads take it for an estimator
    return loaded
