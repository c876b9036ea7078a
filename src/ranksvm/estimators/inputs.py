"""The arguments of ``fit``, ``predict`` and ``score``: checked, and returned as one data set.

The functions set or compare the features of the ranker, and remember which columns of a data frame
are not features.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from ranksvm._checks import check_item_weight
from ranksvm._messages import Param, ParameterError
from ranksvm._sparse import is_sparse
from ranksvm._text import counted, listed
from ranksvm._threads import resolve_n_jobs
from ranksvm.data.frames import check_numeric, drop_columns, frame_columns, is_frame, split_frame
from ranksvm.data.queries import QueryGroups, ids_of_groups
from ranksvm.data.ranking_data import Origin, RankingData
from ranksvm.data.shard_files import open_files
from ranksvm.data.table_encoding import TableEncoding
from ranksvm.data.table_kinds import check_no_ids
from ranksvm.estimators.checks import (
    check_both_have_ids,
    check_finite_columns,
    check_items,
    check_labels,
)
from ranksvm.estimators.logs import logged
from ranksvm.estimators.plain import plain_array, plain_items
from ranksvm.learners.weights import check_query_weight
from ranksvm.maps.gram_checks import check_gram

# Attributes that ``fit`` sets from X before there is a model.
FEATURE_FACTS = (
    "n_features_in_", "feature_names_in_", "_frame_columns", "_qid_column", "_encoding",
)  # fmt: skip


def training_data(
    ranker: Any,
    X: Any,
    y: Any,
    qid: Any = None,
    *,
    group: Any = None,
    sample_weight: Any = None,
    query_weight: Any = None,
    needs_labels: bool = True,
) -> RankingData:
    """Check the arguments of ``fit``, and return them as one data set."""
    if qid is not None and group is not None:
        raise ValueError("qid and group are two names for one thing: pass only one of them")
    name = "qid" if group is None else "group"
    given = {
        "y": y,
        name: qid if group is None else group,
        "sample_weight": sample_weight,
    }
    X, values = split_frame(X, **given)
    if values[name] is None and is_frame(X):
        check_no_ids(X)
    X = check_X(ranker, X, reset=True)
    n_items = X.shape[0]
    utility = labels = None
    if needs_labels or y is not None:
        utility, labels = check_labels(values["y"], n_items)
    if group is not None:
        values[name] = _ids_of_groups(ranker, values[name], n_items, name)
    groups = QueryGroups.from_qid(values[name], n_items, name=name)
    item_weight = check_item_weight(values["sample_weight"], n_items)
    names = getattr(ranker, "feature_names_in_", None)  # set by scikit-learn's check of X
    encoding: TableEncoding | None = ranker._encoding  # set by the same check
    if encoding is not None:
        names = encoding.feature_names
    if ranker._is_pairwise:
        X = check_gram(X, n_threads=resolve_n_jobs(ranker.n_jobs))
    data = RankingData(
        X,
        utility,
        None if values[name] is None else groups.ids_of_rows(values[name]),
        labels=None if labels is utility else labels,
        item_weight=item_weight,
        query_weight=check_query_weight(query_weight, groups),
        feature_names=None if names is None else tuple(map(str, names)),
        origin=Origin(
            "X",
            frame_columns=tuple(dict.fromkeys(v for v in given.values() if isinstance(v, str))),
            label_column=y if isinstance(y, str) else None,
            qid_column=given[name] if isinstance(given[name], str) else None,
            encoding=encoding,
        ),
    )
    note_features(ranker, data)
    return data.with_groups(groups)


def _ids_of_groups(ranker: Any, group: Any, n_items: int, name: str) -> Any:
    """Return query ids, made of sizes if ``group`` has these; a line in the log says so."""
    ids = ids_of_groups(group, n_items, name)
    if ids is not group:
        with logged(getattr(ranker, "verbose", 0)) as logger:
            logger.info(
                "%s: taken as the sizes of %s, whose sum is %s", name,
                counted(len(group), "query"), counted(n_items, "row"),
            )  # fmt: skip
    return ids


def note_features(ranker: Any, data: RankingData) -> None:
    """Set the features of the ranker to those of its training set."""
    set_features(ranker, data.n_features, data.feature_names, data.origin)


def set_features(ranker: Any, n_features: int, names: Iterable[str] | None, origin: Origin) -> None:
    """Set the attributes in ``FEATURE_FACTS`` for the features of a training set.

    With an encoding, the features that come in are its columns.
    """
    encoding = origin.encoding
    if encoding is not None:
        n_features, names = encoding.n_columns, encoding.columns
    ranker._encoding = encoding
    ranker.n_features_in_ = n_features
    ranker.__dict__.pop("feature_names_in_", None)
    if names is not None:
        ranker.feature_names_in_ = np.array(list(names), dtype=object)
    ranker._frame_columns = frozenset(origin.frame_columns)
    ranker._qid_column = origin.qid_column


def file_data(
    ranker: Any, paths: Any, y: Any, qid: Any, *, query_weight: Any = None, **options: Any
) -> RankingData:
    """Open the files of ``fit_files``; ``options`` are those of ``open_files``."""
    if getattr(ranker, "missing", "error") != "error":
        raise ParameterError(
            "{impute} needs all items in memory, and fit_files reads them in pieces. Fill the "
            "values in before, or use fit.",
            impute=Param("missing", ranker.missing),
        )
    data = open_files(paths, y=y, qid=qid, n_threads=resolve_n_jobs(ranker.n_jobs), **options)
    note_features(ranker, data)
    weight = check_query_weight(query_weight, data.groups)
    return replace(data, query_weight=weight).with_groups(data.groups)


def validation_files(ranker: Any, paths: Any, y: Any, qid: Any, **options: Any) -> RankingData:
    """Open validation files, whose features must be those of the training set."""
    if options["columns"] is None and hasattr(ranker, "feature_names_in_"):
        options["columns"] = ranker.feature_names_in_.tolist()
    data = open_files(
        paths,
        y=y,
        qid=qid,
        n_features=ranker.n_features_in_,
        n_threads=resolve_n_jobs(ranker.n_jobs),
        **options,
    )
    if data.n_features != ranker.n_features_in_:
        raise ValueError(
            f"validation: {data.origin.name} has {data.n_features} features; the training set has "
            f"{ranker.n_features_in_}"
        )
    return data


def validation_data(
    ranker: Any,
    name: str,
    given: Any,
    y: Any,
    qid: Any,
    *,
    own_qid: Any = None,
    own_group: Any = None,
) -> RankingData:
    """Check a validation set in the same way as the training set.

    ``given`` is a tuple (X, y) or (X, y, qid), or a frame.  ``y`` and ``qid`` are those of the
    training set: a column name applies to both sets.  ``own_qid`` and ``own_group`` are query ids
    that are not in the tuple; the latter may be sizes.
    """
    is_tuple = isinstance(given, tuple | list)
    parts = list(given) if is_tuple else [given]
    own = own_qid if own_group is None else own_group
    if own is not None:
        if (own_qid is not None and own_group is not None) or len(parts) == 3:
            raise ParameterError(
                "the query ids of {name} are given twice. Pass them once: in {name}=(X, y, qid), "
                "or as eval_qid or eval_group",
                name=Param(name),
            )
        if len(parts) == 1 and isinstance(y, str):
            parts.append(y)
        parts.append(own)
    named = [v if isinstance(v, str) and is_frame(parts[0]) else None for v in (y, qid)]
    parts += named[len(parts) - 1 :]
    if len(parts) != 3 or parts[1] is None or isinstance(parts[0], tuple):
        got = f"a tuple of {len(given)}" if is_tuple else type(given).__name__
        raise ValueError(
            f"{name} must be one tuple (X, y) or (X, y, qid), like the training set; got {got}"
        )
    X, values = split_frame(parts[0], y=parts[1], qid=parts[2])
    X = check_X(ranker, X, reset=False)
    utility, labels = check_labels(values["y"], X.shape[0])
    check_both_have_ids(name, values["qid"] is not None, qid is not None)
    if own_group is not None:
        values["qid"] = _ids_of_groups(ranker, values["qid"], X.shape[0], "eval_group")
    groups = QueryGroups.from_qid(values["qid"], X.shape[0], name=f"qid of {name}")
    ids = None if values["qid"] is None else groups.ids_of_rows(values["qid"])
    data = RankingData(
        X,
        utility,
        ids,
        labels=None if labels is utility else labels,
        origin=Origin(name),
    )
    return data.with_groups(groups)


def check_X(estimator: Any, X: Any, *, reset: bool) -> Any:
    """Return X as finite float32 or float64, dense, CSR or CSC, in the layout it came in.

    Categories and missing values are encoded, if the estimator can do that.
    """
    n_jobs = getattr(estimator, "n_jobs", 1)
    encoding = None if reset else estimator.__dict__.get("_encoding")
    learns = reset and hasattr(estimator, "missing") and not estimator._is_pairwise
    if reset and hasattr(estimator, "missing"):
        estimator._encoding = None
    fills = learns and estimator.missing != "error"
    if reset and not fills and plain_array(X, n_jobs) is not None:
        estimator.n_features_in_ = X.shape[1]
        estimator.__dict__.pop("feature_names_in_", None)
        return X
    if not reset and encoding is None:
        known = estimator.__dict__
        array = plain_items(X, known.get("n_features_in_"), known.get("feature_names_in_"), n_jobs)
        if array is not None:
            return array
    X = check_items(X, n_jobs)
    comes_as_frame = is_frame(X)
    if comes_as_frame and not reset:
        X = _known_columns(estimator, X)
    if comes_as_frame and learns:
        encoding = estimator._encoding = _learned(estimator, X)
    if comes_as_frame and encoding is not None:
        validate_data(estimator, X, reset=reset, skip_check_array=True)
        return _encoded(estimator, encoding, X, n_jobs)
    if comes_as_frame:
        names = None if reset else getattr(estimator, "feature_names_in_", None)
        if names is None or frame_columns(X) == names.tolist():  # otherwise names are wrong
            check_numeric(X, "sample_weight" if hasattr(estimator, "predict") else None)
    elif encoding is not None and encoding.values:
        raise ValueError(
            f"the model was trained on a frame with categories, and X is a {type(X).__name__}. "
            f"Pass a frame with the columns {listed(map(repr, encoding.columns or ()))}."
        )
    try:
        X = validate_data(
            estimator,
            X,
            reset=reset,
            accept_sparse=("csr", "csc"),
            accept_large_sparse=True,
            dtype=(np.float64, np.float32),
            ensure_all_finite=False,
        )
    except ValueError as error:
        if "could not convert string to float" not in str(error):
            raise
        raise ValueError(
            f"X holds text: {error}. Pass a frame (pandas, polars, Arrow): its columns of text can "
            "become categories."
        ) from None
    if fills and not is_sparse(X):
        encoding = estimator._encoding = _learned(estimator, X)
    if encoding is not None:
        if is_sparse(X):
            raise ValueError("missing values are filled in for dense X only; pass X.toarray()")
        return _encoded(estimator, encoding, X, n_jobs)
    names = getattr(estimator, "feature_names_in_", None)
    can_fill = hasattr(estimator, "missing") and not estimator._is_pairwise
    check_finite_columns(X, names, n_jobs=n_jobs, can_fill=can_fill)
    return X


def _learned(estimator: Any, X: Any) -> TableEncoding | None:
    from ranksvm.estimators.encodings import learn_encoding

    return learn_encoding(X, missing=estimator.missing, min_frequency=estimator.min_frequency)


def _encoded(estimator: Any, encoding: TableEncoding, X: Any, n_jobs: int | None) -> Any:
    from ranksvm.data.table_features import encode

    X = encode(encoding, X)
    can_fill = encoding.medians is None
    check_finite_columns(X, encoding.feature_names, n_jobs=n_jobs, can_fill=can_fill)
    return X


def _known_columns(estimator: Any, X: Any) -> Any:
    """Return a frame without columns that are no features; warn about those not seen before.

    Anything else that is wrong with the columns is left to scikit-learn's check.
    """
    X = drop_columns(X, estimator._frame_columns)
    names = getattr(estimator, "feature_names_in_", None)
    if names is None or not hasattr(estimator, "predict"):
        return X
    here, known = frame_columns(X), set(names.tolist())
    extra = [name for name in here if name not in known]
    if not extra or not known <= set(here):
        return X
    warnings.warn(
        f"X has {counted(len(extra), 'column')} that the model does not know, ignored: "
        f"{listed(map(repr, extra))}.",
        UserWarning,
        stacklevel=4,
    )
    return drop_columns(X, extra)


def known_qid(ranker: Any, X: Any, qid: Any) -> Any:
    """Return qid, or the column of the frame X that held the ids in ``fit``."""
    if qid is not None or ranker._qid_column is None or not is_frame(X):
        return qid
    return ranker._qid_column if ranker._qid_column in frame_columns(X) else None


@contextmanager
def fitting(estimator: BaseEstimator) -> Iterator[None]:
    """Restore the attributes in ``FEATURE_FACTS`` if a fit fails, so that an old model works."""
    before = {
        name: estimator.__dict__[name] for name in FEATURE_FACTS if name in estimator.__dict__
    }
    try:
        yield
    except BaseException:  # including KeyboardInterrupt
        for name in FEATURE_FACTS:
            estimator.__dict__.pop(name, None)
        estimator.__dict__.update(before)
        raise
