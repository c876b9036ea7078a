"""Linear models of SVM^rank and SVM^light, and the conversion of their C.

A model.dat is a text file.  It starts with eleven lines, each with a value and a comment:

    SVM-light Version V6.20             for SVM^rank 1.00
    0 # kernel type                     0 linear, 1 polynomial, 2 rbf, 3 sigmoid, 4 user-defined
    3 # kernel parameter -d             parameters of the kernel, not used by the linear kernel
    1 # kernel parameter -g
    1 # kernel parameter -s
    1 # kernel parameter -r
    empty# kernel parameter -u
    46 # highest feature index          indices count from 1
    88 # number of training documents   not part of the model
    2 # number of support vectors plus 1
    0 # threshold b, each following line is a SV (starting with alpha*y)

followed by one line per support vector, "alpha index:value index:value ... # comment", which may
also contain "qid:", "sid:" and "cost:".  The weights are w = sum over the lines of alpha * x;
SVM^rank writes a single line with w itself and alpha = 1.  Scores are w.x - b: the threshold b
shifts all scores equally and does not affect rankings.

SVM^light writes numbers with eight digits, and stores the values it reads in single precision.
"""

from __future__ import annotations

import os
import re
from typing import BinaryIO, NoReturn

import numpy as np
from numpy.typing import ArrayLike

from ranksvm._checks import check_positive
from ranksvm._contents import SVMLIGHT
from ranksvm._files import atomic_write, naming
from ranksvm._vectors import Array
from ranksvm._waiting import blocking, file_name
from ranksvm.data.queries import QueryGroups
from ranksvm.data.sources import excerpt
from ranksvm.learners.linear_model import LinearModel
from ranksvm.models.model import Model, ModelFileError

KERNELS = {0: "linear", 1: "polynomial", 2: "rbf", 3: "sigmoid", 4: "user-defined"}
HIGHEST_INDEX = 99_999_999  # limit of SVM^light; keeps a wrong number from using all memory

LONGEST_HEADER = 4096  # bytes of a line
LONGEST_PAIR = 128  # bytes of index:value

INTEGER = re.compile(rb"[0-9]{1,18}")
NUMBER = re.compile(rb"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
NO_FEATURE = re.compile(rb"(?:qid|sid|cost):")

# Comments of the header lines after the first.  They may be missing, but not different.
COMMENTS = (
    "kernel type",
    "kernel parameter -d",
    "kernel parameter -g",
    "kernel parameter -s",
    "kernel parameter -r",
    "kernel parameter -u",
    "highest feature index",
    "number of training documents",
    "number of support vectors plus 1",
    "threshold b",
)


def read_svmrank(
    source: str | os.PathLike[str] | BinaryIO, *, n_features: int | None = None
) -> LinearModel:
    """Read a linear model of SVM^rank or SVM^light.

    Parameters
    ----------
    source : path-like or binary file
    n_features : int or None, default=None
        Number of features of the model, at least the highest index in the file; None for that
        index.  SVM^rank does not count features at the end that are zero in the whole training set.

    Returns
    -------
    LinearModel
        ``coef[j]`` is the weight of feature j + 1 of the file.  ``params`` is empty, because the
        file does not contain the training parameters; ``facts`` has "format", "threshold",
        "n_training_documents" and "n_support_vectors".

    Raises
    ------
    ModelFileError
        If the file is not a model of SVM^light, is damaged, or has another kernel than the linear
        one; the message gives the file and line.
    OSError
        If the file does not exist or cannot be read.
    """
    if not isinstance(source, str | os.PathLike):
        return _Parser(blocking(source), file_name(source)).model(n_features)
    path = os.fspath(source)
    try:
        with open(path, "rb") as file:
            return _Parser(file, path).model(n_features)
    except IsADirectoryError:
        raise ModelFileError(f"{path} is a directory; pass the model.dat in it.") from None


def write_svmrank(
    target: str | os.PathLike[str] | BinaryIO, model: Model, *, version: str = "V6.20"
) -> None:
    """Write a linear model for ``svm_rank_classify`` or ``svm_classify``.

    Weights are written as the shortest decimals that give the same float64 back; zeros are omitted.
    The format has no feature names.

    Parameters
    ----------
    target : path-like or binary file
        A path is replaced atomically.
    model : Model
        A model with one weight per feature: linear or factorized.  The threshold and the number of
        documents are its facts "threshold" and "n_training_documents" or "n_items"; 0 if absent.
    version : str, default="V6.20"
        Version of the program that will read the file; it accepts no other.  "V6.20" is SVM^rank
        1.00, "V6.02" is SVM^light 6.02.

    Raises
    ------
    ValueError
        If the model is not linear, or the format cannot represent it.
    OSError
        If the file cannot be written.
    """
    content = _to_text(model, version).encode("ascii")
    if not isinstance(target, str | os.PathLike):
        target.write(content)
        return
    with atomic_write(target) as file:
        file.write(content)


def from_svmrank_c(
    c: float, groups: QueryGroups, y: ArrayLike | None = None, *, loss: int = 1
) -> tuple[float, str]:
    """Convert the options ``-c`` and ``-l`` of ``svm_rank_learn`` to ``C`` and ``reduction``.

    SVM^rank minimizes 1/2 |w|^2 + c/n * (sum of the losses of its n queries).  With ``-l 1``, the
    loss of a query is the sum over its pairs of max(0, 1 - s_better + s_worse); with ``-l 2``, that
    sum divided by the number of its pairs.

    Parameters
    ----------
    c : float
        The option ``-c``.
    groups : QueryGroups
        Queries of the training set.
    y : array-like of shape (n_items,) or None, default=None
        Labels of the training set; required for ``loss=2``.
    loss : {1, 2}, default=1
        The option ``-l``.

    Returns
    -------
    C : float
    reduction : {"sum", "query_mean"}
        ``LinearRankSVM(C, loss="hinge", reduction=reduction)`` minimizes the same function on this
        training set.  With ``loss=2``, C is c times the fraction of queries that have a pair,
        because SVM^rank averages over all queries, and "query_mean" only over those.

    Examples
    --------
    >>> from ranksvm.data import QueryGroups
    >>> from ranksvm.export import from_svmrank_c
    >>> from_svmrank_c(20.0, QueryGroups.from_qid(["a", "a", "b", "b"], 4))
    (10.0, 'sum')
    """
    check_positive("c", c)
    if loss not in (1, 2):
        raise ValueError(
            "loss must be 1 (-l 1: swapped pairs) or 2 (-l 2: fraction of swapped pairs per query);"
            f" got {loss!r}"
        )
    if groups.n_queries == 0:
        raise ValueError("the training set has no queries")
    if loss == 1:
        return float(c) / groups.n_queries, "sum"
    labels = np.asarray([] if y is None else y, dtype=np.float64)
    if labels.shape != (groups.n_items,):
        raise ValueError(
            f"loss=2 needs y, one label for each of the {groups.n_items} items; got "
            f"{'none' if y is None else f'the shape {labels.shape}'}"
        )
    grouped, starts = labels[groups.rows], groups.offsets[:-1]
    with_pairs = np.maximum.reduceat(grouped, starts) > np.minimum.reduceat(grouped, starts)
    if not with_pairs.any():
        raise ValueError("no query has two items with different labels; check labels and query ids")
    return float(c) * int(with_pairs.sum()) / groups.n_queries, "query_mean"


def _to_text(model: Model, version: str) -> str:
    if model.weights is None:
        article = "an" if model.kind[0] in "aeiou" else "a"
        raise ValueError(
            "SVM^rank's format (.dat) is for models with one weight per feature; got "
            f"{article} {model.kind} model{_why_not(model)}"
        )
    if not re.fullmatch(r"[!-~]{1,99}", version):
        raise ValueError(f"version must be one word such as 'V6.20'; got {version!r}")
    coef = np.asarray(model.weights, dtype=np.float64)
    if len(coef) > HIGHEST_INDEX:
        raise ValueError(f"SVM^light has at most {HIGHEST_INDEX} features; got {len(coef)}")
    if not np.isfinite(coef).all():
        raise ValueError("the weights must be finite; got NaN or infinity")
    threshold = float(model.facts.get("threshold", 0.0))
    n_documents = model.facts.get("n_training_documents", model.facts.get("n_items", 0))
    values = (0, 3, 1, 1, 1, "empty", len(coef), n_documents, 2, _decimal(threshold))
    comments = (
        *COMMENTS[:-1],
        f"{COMMENTS[-1]}, each following line is a SV (starting with alpha*y)",
    )
    nonzero = np.flatnonzero(coef)
    pairs = zip((nonzero + 1).tolist(), coef[nonzero].tolist(), strict=True)
    lines = [SVMLIGHT.decode() + version]
    for value, comment in zip(values, comments, strict=True):
        # The value of -u is a string that extends to the comment sign.
        lines.append(f"{value}{'' if value == 'empty' else ' '}# {comment}")
    lines.append(" ".join(["1", *(f"{index}:{_decimal(value)}" for index, value in pairs), "#"]))
    return "\n".join(lines) + "\n"


def _why_not(model: Model) -> str:
    """Return why a linear model has no weights of the features, and what to do."""
    if not isinstance(model, LinearModel):
        return ""
    if model.view:
        return (
            f" with features of the query ({', '.join(model.view.names)}). Train it without them, "
            "on data that have them as features (ranksvm.preprocessing.QueryFeatures)"
        )
    return " of quantiles. Train it with another scaling"


def _decimal(value: float) -> str:
    """Return the shortest decimal that gives the same float64 back."""
    return repr(value).removesuffix(".0")


class _Parser:
    """Reads a model.dat line by line, and counts lines for messages."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self.file = file
        self.name = name
        self.number = 0

    def model(self, n_features: int | None) -> LinearModel:
        first = self._line(LONGEST_HEADER).rstrip()
        if not first.startswith(SVMLIGHT):
            self._refuse(
                f"a model of SVM^light starts with 'SVM-light Version'; got {excerpt(first)}"
            )
        kernel = self._integer(0)
        if kernel != 0:
            self._refuse(
                f"a model with kernel {kernel} ({KERNELS.get(kernel, 'unknown')}) has no weight "
                "vector; only linear models (-t 0) can be read. Train the model again with ranksvm"
            )
        for i in range(1, 6):
            self._header(i)
        highest = self._integer(6)
        if not 1 <= highest <= HIGHEST_INDEX:
            self._refuse(f"'{COMMENTS[6]}' must be from 1 to {HIGHEST_INDEX}; got {highest}")
        if n_features is not None and n_features < highest:
            self._refuse(f"the model has {highest} features; got n_features={n_features}")
        n_documents = self._integer(7)
        n_vectors = self._integer(8) - 1
        if n_vectors < 0:
            self._refuse(f"'{COMMENTS[8]}' must be at least 1; got 0")
        threshold = self._number(self._header(9), f"'{COMMENTS[9]}'")
        return LinearModel(
            coef=self._weights(n_features or highest, highest, n_vectors),
            params={},
            facts={
                "format": first.decode("ascii", "replace"),
                "threshold": threshold,
                "n_training_documents": n_documents,
                "n_support_vectors": n_vectors,
            },
        )

    def _line(self, longest: int) -> bytes:
        """Return the next line; empty at the end of the file."""
        with naming(self.name):
            line = self.file.readline(longest + 1)
        if not isinstance(line, bytes):
            raise TypeError(f"{self.name}: open the file in binary mode, not as text")
        self.number += 1
        if len(line) > longest:
            self._refuse(f"more than {longest} bytes in a line; this is not a model of SVM^light")
        return line

    def _header(self, i: int) -> bytes:
        """Return the value in the next line, which must have comment ``i``."""
        line = self._line(LONGEST_HEADER)
        if not line:
            self._refuse(f"expected '{COMMENTS[i]}'; the file is truncated and ends here")
        value, _, comment = line.partition(b"#")
        if comment.strip() and not comment.strip().startswith(COMMENTS[i].encode()):
            self._refuse(f"expected '{COMMENTS[i]}'; got {excerpt(comment.strip())}")
        return value.strip()

    def _weights(self, n_features: int, highest: int, n_vectors: int) -> Array:
        coef = np.zeros(n_features)
        longest = LONGEST_HEADER + LONGEST_PAIR * highest
        for i in range(n_vectors):
            line = self._line(longest)
            tokens = line.partition(b"#")[0].split()
            if not tokens:
                self._refuse(f"expected {n_vectors} support vectors; the file ends after {i}")
            if b"#" not in line and not line.endswith(b"\n"):
                self._refuse("the file is truncated: this line has neither '#' nor a line ending")
            columns, values = self._vector(tokens[1:], highest)
            with np.errstate(over="ignore", invalid="ignore"):
                coef[columns] += self._number(tokens[0], "alpha*y") * values
        while line := self._line(longest):
            if line.strip():
                self._refuse(
                    f"expected the end of the file after {n_vectors} support vectors; got "
                    f"{excerpt(line.strip())}"
                )
        if not np.isfinite(coef).all():
            self._refuse("the sum of the support vectors overflows")
        return coef

    def _vector(self, tokens: list[bytes], highest: int) -> tuple[list[int], Array]:
        """Return the columns (from 0) and values of a support vector."""
        columns, values = [], []
        last = 0
        for token in tokens:
            if NO_FEATURE.match(token):
                continue
            index, _, value = token.partition(b":")
            if not INTEGER.fullmatch(index) or not value:
                self._refuse(f"expected 'index:value'; got {excerpt(token)}")
            number = int(index)
            if not last < number <= highest:
                self._refuse(
                    f"feature indices must ascend from 1 to {highest}, the highest index according "
                    f"to the header; got {number} after {last}"
                )
            last = number
            columns.append(number - 1)
            values.append(self._number(value, f"feature {number}"))
        return columns, np.array(values, dtype=np.float64)

    def _integer(self, i: int) -> int:
        """Return the integer in the next line, which must have comment ``i``."""
        text = self._header(i)
        if not INTEGER.fullmatch(text):
            self._refuse(f"'{COMMENTS[i]}' must be a non-negative integer; got {excerpt(text)}")
        return int(text)

    def _number(self, text: bytes, what: str) -> float:
        value = float(text) if NUMBER.fullmatch(text) else np.nan
        if not np.isfinite(value):
            self._refuse(f"{what} must be a finite number; got {excerpt(text)}")
        return value

    def _refuse(self, what: str) -> NoReturn:
        raise ModelFileError(f"{self.name}, line {self.number}: {what}.") from None
