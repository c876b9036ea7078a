"""Helpful errors for arguments that other libraries have and this one does not.

Users of LightGBM, XGBoost, CatBoost or Keras may pass ``early_stopping_rounds`` or ``eval_at``.
Methods accept such arguments only to raise an error that says what to use instead.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from ranksvm.learners import LEARNERS

_NOTHING_TO_STOP = (
    "A fit ends at the optimum of a convex problem, after a few iterations. Before that, the model "
    "is only less exact, so there is nothing to stop early. If it fits the training data too "
    "closely, use a smaller C, or choose C on a validation set: {search}().fit(X, y, qid, "
    "validation=(X_val, y_val, qid_val))."
)
_CHOOSE = (
    "To choose C on a validation set: {search}().fit(X, y, qid, validation=(X_val, y_val, "
    "qid_val))."
)
# In each table, the hint is that of the first key that is a parameter of the method or of the
# constructor, or of "".
_VALIDATION = {
    "better": "To choose C on pairs of other items, pass validation=(X, better, worse) to "
    "fit_pairs of LinearRankSVMCV or KernelRankSVMCV.",
    "eval_set": "Pass one tuple, eval_set=(X, y, qid), with the query ids as its third element.",
    "validation": "Pass validation=(X, y, qid): the parameters are chosen on this validation set.",
    "": _CHOOSE,
}
_EVAL_WEIGHT = {
    **_VALIDATION,
    "eval_set": "Metrics on eval_set count all items alike. Pass a function that knows the "
    "weights: eval_metric(y, scores, qid).",
}
_NO_ROUNDS = {
    "patience": "With eval_set, fit always uses early stopping; set the number of iterations "
    "without improvement by patience= in the constructor.",
    "": _NOTHING_TO_STOP,
}
_ROUNDS = {
    "max_iter": "A fit has as many iterations as its tolerance takes. Their limit is a parameter "
    "of the constructor: {ranker}(max_iter=...).",
    "": _NOTHING_TO_STOP,
}
_EVAL_AT = {
    "eval_set": "The cutoff is part of the name of the metric: eval_metric='ndcg@10'.",
    "validation": "The cutoff is part of the name of the metric, a parameter of the constructor: "
    "metric='ndcg@10'.",
    "": "Compute metrics after the fit: ranksvm.metrics.evaluate(y, model.predict(X), qid).",
}
_METRIC = {
    "eval_set": "Pass eval_metric='ndcg@10' with eval_set.",
    "validation": "The metric is a parameter of the constructor: metric='ndcg@10'.",
    "": "Compute metrics after the fit: ranksvm.metrics.evaluate(y, model.predict(X), qid).",
}
_CALLBACK = {
    "callback": "Pass one function: callback(row, coef) is called after every iteration, and stops "
    "the fit when it returns a true value.",
    "progress": "Pass progress=: progress(done, total, message) is called after every fit.",
}
_QID = {"": "It is called qid here: the query id of each row of X."}
_CONSTRUCTOR = {"": "Pass it to the constructor: {ranker}({name}=...)."}
_VERBOSE = {"": "Pass it to the constructor: {ranker}(verbose=1)."}
_CATEGORIES = {
    "": "Categorical features are not supported: encode them as numbers, for example with "
    "sklearn.preprocessing.OneHotEncoder."
}
_NAMES = {"": "To name the features, pass X as a data frame (pandas, polars, Arrow)."}
_WARM = {"": "To start from the previous solution, use LinearRankSVM(warm_start=True)."}
_WEIGHT = {"": "Use sample_weight= for weights of items, query_weight= for weights of queries."}

FOREIGN: Mapping[str, Mapping[str, str]] = {
    **dict.fromkeys(
        ("eval_set", "eval_group", "eval_qid", "eval_names", "eval_init_score",
         "base_margin_eval_set", "validation_data", "validation_split", "validation_set",
         "valid_sets", "evals"),
        _VALIDATION,
    ),
    **dict.fromkeys(("eval_sample_weight", "sample_weight_eval_set"), _EVAL_WEIGHT),
    **dict.fromkeys(("early_stopping_rounds", "early_stopping", "use_best_model"), _NO_ROUNDS),
    **dict.fromkeys(("num_boost_round", "n_estimators", "epochs"), _ROUNDS),
    **dict.fromkeys(("eval_metric", "metrics", "scoring"), _METRIC),
    "eval_at": _EVAL_AT,
    "callbacks": _CALLBACK,
    **dict.fromkeys(
        ("group", "groups", "group_id", "qids", "query", "query_id", "queries"), _QID
    ),
    **dict.fromkeys(("verbose", "verbose_eval"), _VERBOSE),
    **dict.fromkeys(("n_jobs", "C", "tol", "max_iter"), _CONSTRUCTOR),
    **dict.fromkeys(("categorical_feature", "cat_features", "enable_categorical"), _CATEGORIES),
    **dict.fromkeys(("feature_name", "feature_names"), _NAMES),
    **dict.fromkeys(("init_model", "xgb_model", "coef_init", "init_score", "base_margin"), _WARM),
    **dict.fromkeys(("weight", "weights", "group_weight", "class_weight"), _WEIGHT),
}  # fmt: skip


def refuse_unknown(ranker: object, method: Callable[..., Any], given: Mapping[str, Any]) -> None:
    """Raise a helpful TypeError if a method got unknown keyword arguments.

    Parameters
    ----------
    ranker : object
    method : callable
        Its method.
    given : mapping
        The unknown keyword arguments; may be empty.
    """
    for name in given:
        of = [
            known
            for known, parameter in inspect.signature(method).parameters.items()
            if parameter.kind is not parameter.VAR_KEYWORD
        ]
        hints = FOREIGN.get(name, {})
        made_with = inspect.signature(type(ranker)).parameters
        hint = next((hints[key] for key in (*of, *made_with, "") if key in hints), None)
        if hint is None:
            near = difflib.get_close_matches(name, of, n=1)
            hint = f"Did you mean {near[0]!r}?" if near else f"Its parameters are {', '.join(of)}."
        called = type(ranker).__name__
        hint = hint.format(ranker=called, name=name, search=_search_for(called))
        raise TypeError(f"{called}.{method.__name__}() has no parameter {name!r}. {hint}")


def _search_for(estimator: str) -> str:
    """Return the name of the class that searches for an estimator, or of that for linear models."""
    for learner in LEARNERS.values():
        search = None if learner.search is None else learner.search.partition(":")[2]
        if search is not None and (
            estimator == search or learner.estimator.endswith(f":{estimator}")
        ):
            return search
    return "LinearRankSVMCV"
