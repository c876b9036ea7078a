"""Checks of the facts of a model.  All facts are optional, except the kernel.

    objective, gap                   numbers, finite or not
    n_iter, n_products, n_pairs, n_queries, best_iteration      non-negative integers
    frame_columns                    a list of strings
    label_column, qid_column, docid_column      a string or null
    target                           a string: what was learned, if not labels ("survival")
    query_features                   a list of different keys of ``QUERY_FEATURES``, at least one
    keep_features                    whether the features are columns, too; with query_features only
    pair_probability                 a mapping with a slope, a finite number >= 0, or with a reason,
                                     a string
    gamma                            a positive number or null
    kernel                           required for kinds that compute a kernel, not allowed for
                                     others; a mapping with

        function                     a kernel function that the kind supports
        gamma, coef0, scale          finite numbers; gamma is positive, except for linear
        degree                       a positive integer

    encoding                         as in :mod:`ranksvm.data.table_encoding`

Other facts are informational and can have any value that a file can represent.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Collection, Mapping
from typing import Any

from ranksvm.data.query_features import QUERY_FEATURES
from ranksvm.models.pair_probability import FACT, check_fact

NUMBERS = ("objective", "gap")
COUNTS = ("n_iter", "n_products", "n_pairs", "n_queries", "best_iteration")
OF_KERNEL = ("function", "gamma", "coef0", "degree", "scale")
LARGEST_COUNT = 2**63 - 1
LARGEST_DEGREE = 2**31 - 1


def check_facts(facts: Mapping[str, Any], functions: Collection[str]) -> None:
    """Check the facts that the library uses.

    Parameters
    ----------
    facts : mapping
        Facts of a model.
    functions : collection of str
        Kernel functions that the kind of model supports; empty if it computes no kernel.

    Raises
    ------
    ValueError
        If a fact is invalid.
    """
    for name in NUMBERS:
        if name in facts and not _is_number(facts[name]):
            raise _wrong(name, "a number", facts[name])
    for name in COUNTS:
        if name in facts and not _is_count(facts[name], LARGEST_COUNT):
            raise _wrong(name, "a non-negative integer", facts[name])
    columns = facts.get("frame_columns", [])
    if not isinstance(columns, list | tuple) or not all(isinstance(one, str) for one in columns):
        raise _wrong("frame_columns", "a list of strings", columns)
    for name in ("label_column", "qid_column", "docid_column"):
        column = facts.get(name)
        if column is not None and not isinstance(column, str):
            raise _wrong(name, "a string or null", column)
    if not isinstance(facts.get("target", ""), str):
        raise _wrong("target", "a string", facts["target"])
    _check_view(facts)
    if FACT in facts:
        check_fact(facts[FACT])
    gamma = facts.get("gamma")
    if gamma is not None and not (_is_finite(gamma) and gamma > 0.0):
        raise _wrong("gamma", "a positive number or null", gamma)
    if functions:
        _check_kernel(facts.get("kernel"), functions)
    elif "kernel" in facts:
        raise ValueError("the facts contain a kernel, but this kind of model does not compute one")


def _check_view(facts: Mapping[str, Any]) -> None:
    if "query_features" not in facts:
        if "keep_features" in facts:
            raise ValueError("the facts contain keep_features, but no query_features")
        return
    names = facts["query_features"]
    known = isinstance(names, list | tuple) and all(
        isinstance(one, str) and one in QUERY_FEATURES for one in names
    )
    if not known or not names or len(set(names)) < len(names):
        raise _wrong("query_features", f"different names of {', '.join(QUERY_FEATURES)}", names)
    if not isinstance(facts.get("keep_features"), bool):
        raise _wrong("keep_features", "true or false", facts.get("keep_features"))


def _check_kernel(kernel: Any, functions: Collection[str]) -> None:
    if not isinstance(kernel, Mapping) or kernel.keys() != set(OF_KERNEL):
        raise ValueError(
            f"the kernel must have the entries {', '.join(OF_KERNEL)}; got {reprlib.repr(kernel)}"
        )
    function = kernel["function"]
    if not isinstance(function, str) or function not in functions:
        raise _wrong("the kernel's function", f"one of {', '.join(functions)}", function)
    for name in ("gamma", "coef0", "scale"):
        if not _is_finite(kernel[name]):
            raise _wrong(f"the kernel's {name}", "a finite number", kernel[name])
    if function != "linear" and not kernel["gamma"] > 0.0:
        raise _wrong("the kernel's gamma", "positive", kernel["gamma"])
    if not (_is_count(kernel["degree"], LARGEST_DEGREE) and kernel["degree"] >= 1):
        raise _wrong("the kernel's degree", "a positive integer", kernel["degree"])


def _is_number(value: Any) -> bool:
    return isinstance(value, float) or _is_count(value, LARGEST_COUNT)


def _is_finite(value: Any) -> bool:
    return isinstance(value, float) and math.isfinite(value)


def _is_count(value: Any, largest: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= largest


def _wrong(name: str, expected: str, got: Any) -> ValueError:
    return ValueError(f"{name} in the facts must be {expected}; got {reprlib.repr(got)}")
