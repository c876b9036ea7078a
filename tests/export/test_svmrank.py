"""Models of SVM^rank and SVM^light, and SVM^rank's C against its stated problem.

The small files are written by hand in the format that ``svm_rank_learn`` V1.00 writes.
"""

from __future__ import annotations

import io
import os
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from ranksvm import KernelRankSVM, LinearRankSVM
from ranksvm.data import QueryGroups
from ranksvm.export import from_svmrank_c, read_svmrank, write_svmrank
from ranksvm.learners import FactorizedModel, LinearModel, read_model
from ranksvm.models import Model, ModelFileError, write_model

HEADER = """\
SVM-light Version V6.20
0 # kernel type
3 # kernel parameter -d 
1 # kernel parameter -g 
1 # kernel parameter -s 
1 # kernel parameter -r 
empty# kernel parameter -u 
5 # highest feature index 
88 # number of training documents 
2 # number of support vectors plus 1 
0 # threshold b, each following line is a SV (starting with alpha*y)
"""  # noqa: W291
MODEL = HEADER + "1 1:1.9970672 2:-3.0596602 4:0.064775988 #\n"


def read(text: str | bytes, **options) -> LinearModel:
    return read_svmrank(io.BytesIO(text.encode() if isinstance(text, str) else text), **options)


def linear(coef, **facts) -> LinearModel:
    return LinearModel(coef=np.asarray(coef, dtype=np.float64), params={}, facts=facts)


def written(model: Model, **options) -> str:
    buffer = io.BytesIO()
    write_svmrank(buffer, model, **options)
    return buffer.getvalue().decode("ascii")


# Reading


def test_a_model_of_svmrank():
    model = read(MODEL)
    assert model.kind == "linear"
    assert model.coef.tolist() == [1.9970672, -3.0596602, 0.0, 0.064775988, 0.0]
    assert model.feature_names is None
    assert dict(model.params) == {}
    assert dict(model.facts) == {
        "format": "SVM-light Version V6.20",
        "threshold": 0.0,
        "n_training_documents": 88,
        "n_support_vectors": 1,
    }


def test_support_vectors_are_summed_with_their_factors():
    text = MODEL.replace("2 # number of s", "4 # number of s").replace("0 # thr", "-0.25 # thr")
    text += (
        "-0.5 qid:7 2:2 sid:3 5:1e1 cost:2.5 # a comment with 1:99 # and more\n+2e0 3:.5 4:-1.\n"
    )
    model = read(text)
    expected = [1.9970672, -3.0596602 - 1.0, 1.0, 0.064775988 - 2.0, -5.0]
    assert model.coef.tolist() == expected
    assert model.facts["threshold"] == -0.25
    assert model.facts["n_support_vectors"] == 3


def test_a_model_without_support_vectors_is_zero():
    model = read(HEADER.replace("2 # number", "1 # number"))
    assert model.coef.tolist() == [0.0] * 5
    assert read(HEADER + "1 #\n").coef.tolist() == [0.0] * 5


@pytest.mark.parametrize(
    "text",
    [
        MODEL.replace("\n", "\r\n"),
        MODEL.rstrip("\n"),
        MODEL + "\n\n",
        re.sub(r" ?#.*", "", MODEL),  # comments left out
        MODEL.replace("V6.20", "V5.00"),
        MODEL.replace(" 2:", "\t2:").replace(" 4:", "   4:"),
        MODEL.replace("1 1:1.9", "  1 1:1.9").replace(" #\n", "\n"),
    ],
)
def test_forms_of_the_same_model(text):
    assert read(text).coef.tolist() == read(MODEL).coef.tolist()


def test_more_features_can_be_asked_for():
    assert read(MODEL, n_features=7).coef.shape == (7,)
    with pytest.raises(ModelFileError, match="the model has 5 features; got n_features=4"):
        read(MODEL, n_features=4)


def line(number: int, text: str) -> str:
    """The model with another line."""
    lines = MODEL.splitlines()
    lines[number - 1] = text
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("text", "number", "message"),
    [
        ("", 1, "starts with 'SVM-light Version'; got ''"),
        ("\0" * 10_000, 1, "more than 4096 bytes"),
        ("1 qid:1 1:0.5\n", 1, "got '1 qid:1 1:0.5'"),
        (
            line(2, "1 # kernel type"),
            2,
            r"kernel 1 \(polynomial\) has no weight vector; only linear",
        ),
        (line(2, "2 # kernel type"), 2, r"kernel 2 \(rbf\)"),
        (line(2, "4 # kernel type"), 2, r"kernel 4 \(user-defined\)"),
        (line(2, "77 # kernel type"), 2, r"kernel 77 \(unknown\)"),
        (
            line(2, "linear # kernel type"),
            2,
            "'kernel type' must be a non-negative integer; got 'linear'",
        ),
        (line(2, "0x0 # kernel type"), 2, "must be a non-negative integer"),
        (line(4, "1 # number of classes"), 4, "expected 'kernel parameter -g'; got 'number of cl"),
        (line(8, "0 # highest feature index"), 8, "must be from 1 to 99999999; got 0"),
        (line(8, "999999999999999 # highest feature index"), 8, "must be from 1 to 99999999"),
        (line(8, "1" * 30 + " # highest feature index"), 8, "must be a non-negative integer"),
        (line(8, "-5 # highest feature index"), 8, "must be a non-negative integer; got '-5'"),
        (line(9, "many # number of training documents"), 9, "must be a non-negative integer"),
        (line(10, "0 # number of support vectors plus 1"), 10, "must be at least 1; got 0"),
        (
            line(10, "3 # number of support vectors plus 1"),
            13,
            "2 support vectors; the file ends after 1",
        ),
        (
            line(10, "1 # number of support vectors plus 1"),
            12,
            "end of the file after 0 support vectors; got '1 1:1.9",
        ),
        (line(11, "nan # threshold b"), 11, "'threshold b' must be a finite number; got 'nan'"),
        (line(11, "1e999 # threshold b"), 11, "must be a finite number"),
        (line(12, "x 1:1"), 12, r"alpha\*y must be a finite number; got 'x'"),
        (line(12, "1 1:1 2"), 12, "expected 'index:value'; got '2'"),
        (line(12, "1 1:1 2:"), 12, "expected 'index:value'; got '2:'"),
        (line(12, "1 1:1 docid:3"), 12, "expected 'index:value'; got 'docid:3'"),
        (line(12, "1 0:1"), 12, "must ascend from 1 to 5, .* got 0 after 0"),
        (line(12, "1 6:1"), 12, "must ascend from 1 to 5, .* got 6 after 0"),
        (line(12, "1 2:1 2:1"), 12, "got 2 after 2"),
        (line(12, "1 3:1 2:1"), 12, "got 2 after 3"),
        (line(12, "1 2:inf"), 12, "feature 2 must be a finite number; got 'inf'"),
        (line(12, "1 2:1_0"), 12, "feature 2 must be a finite number; got '1_0'"),
        (line(12, "1 2:1,5"), 12, "feature 2 must be a finite number; got '1,5'"),
        (line(12, "1e200 2:1e200"), 13, "the sum of the support vectors overflows"),
        (line(12, "1 1:1" + "0" * 10_000), 12, "more than 4736 bytes"),
        (MODEL + "1 1:1\n", 13, "expected the end .* after 1 support vectors; got '1 1:1'"),
    ],
)
def test_errors_name_file_and_line(text, number, message, tmp_path):
    path = tmp_path / "model.dat"
    path.write_text(text, newline="")
    with pytest.raises(ModelFileError, match=message) as caught:
        read_svmrank(path)
    assert str(caught.value).startswith(f"{path}, line {number}: ")
    with pytest.raises(ModelFileError, match=f"^<BytesIO>, line {number}: "):
        read(text)


def test_a_file_that_is_cut_off_is_refused():
    whole = read(MODEL).coef.tolist()
    closed = MODEL.rindex("#")
    for text in (MODEL, MODEL.replace(" #\n", "\n")):
        for length in range(closed):
            with pytest.raises(ModelFileError):
                read(text[:length])
    assert read(MODEL[: closed + 1]).coef.tolist() == whole


@given(st.integers(0, len(MODEL) - 1), st.binary(max_size=3))
def test_damage_is_refused_or_read_as_numbers(at, noise):
    text = MODEL.encode()
    try:
        model = read(text[:at] + noise + text[at + len(noise) :])
    except ModelFileError:
        return
    assert np.isfinite(model.coef).all()


def test_what_is_no_binary_file_is_refused(tmp_path):
    with pytest.raises(ModelFileError, match="a directory"):
        read_svmrank(tmp_path)
    with pytest.raises(FileNotFoundError):
        read_svmrank(tmp_path / "nowhere")
    with pytest.raises(TypeError, match="open the file in binary mode"):
        read_svmrank(io.StringIO(MODEL))


# Writing


def test_the_text_that_is_written():
    expected = MODEL.replace(" \n", "\n").replace("88 # number", "0 # number")
    assert written(linear([1.9970672, -3.0596602, 0.0, 0.064775988, 0.0])) == expected


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20))
def test_weights_come_back_to_the_last_bit(coef):
    model = read(written(linear(coef)))
    assert (model.coef + 0.0).tobytes() == (np.array(coef) + 0.0).tobytes()  # -0 is 0


def test_a_round_trip_keeps_threshold_and_counts():
    text = MODEL.replace("0 # thr", "0.125 # thr").replace(" \n", "\n")
    assert written(read(text)) == text
    assert "\n7 # number of training documents\n" in written(linear([1.0], n_items=7))


def test_as_svm_light_reads_it():
    """The way of the original: scanf for the header, then tokens; values in single precision."""
    coef = np.random.default_rng(0).standard_normal(50)
    coef[::3] = 0.0
    lines = written(linear(coef)).split("\n")
    assert lines[0] == "SVM-light Version V6.20"
    header = [re.match(r"\s*([^\s#]+)[^\n]+$", text)[1] for text in lines[1:11]]
    assert header == ["0", "3", "1", "1", "1", "empty", "50", "0", "2", "0"]
    tokens = lines[11].partition("#")[0].split()
    weights = np.zeros(51, dtype=np.float32)
    for token in tokens[1:]:
        index, value = token.split(":")
        weights[int(index)] = np.float32(float(tokens[0]) * float(value))
    assert weights[1:].tolist() == coef.astype(np.float32).tolist()
    assert lines[12:] == [""]


def test_the_version_of_the_program_can_be_chosen():
    text = written(linear([1.0]), version="V6.02")
    assert text.startswith("SVM-light Version V6.02\n")
    with pytest.raises(ValueError, match="version must be one word"):
        written(linear([1.0]), version="V6.02\n0")


def test_the_weights_of_a_factorized_model_are_written():
    coef = np.array([0.5, 0.0, -2.0])
    model = FactorizedModel(coef=coef, factors=np.ones((4, 2)), params={}, facts={"n_items": 4})
    assert written(model) == written(linear(coef, n_items=4))


def test_what_the_format_cannot_hold_is_refused():
    kernel = KernelRankSVM(scaling=None).fit([[1.0], [2.0], [4.0]], [0, 1, 2])._get_model()
    with pytest.raises(ValueError, match=r"one weight per feature; got a kernel model"):
        written(kernel)
    with pytest.raises(ValueError, match="must be finite"):
        written(linear([1.0, np.nan]))
    with pytest.raises(ValueError, match="at most 99999999 features; got 100000000"):
        written(LinearModel(coef=np.broadcast_to(0.0, 10**8), params={}, facts={}))


def test_a_failure_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "model.dat"
    write_svmrank(path, linear([1.0]))
    old = path.read_bytes()

    def fail(*arguments):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_svmrank(path, linear([2.0]))
    assert path.read_bytes() == old
    assert os.listdir(tmp_path) == ["model.dat"]


def test_model_files_hold_what_was_read(tmp_path):
    model = read(MODEL)
    write_model(tmp_path / "model.safetensors", model)
    again = read_model(tmp_path / "model.safetensors")
    assert again.facts == model.facts
    assert again.coef.tolist() == model.coef.tolist()


# What C means


def make_set(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Six queries of one to nine items; two of them, one with a single grade, have no pair."""
    generator = np.random.default_rng(seed)
    qid = np.repeat([3, 4, 7, 8, 9, 12], [9, 6, 1, 5, 4, 7])
    X = generator.standard_normal((len(qid), 4))
    y = np.round(X @ [1.0, -0.5, 0.25, 0.0] + generator.standard_normal(len(qid)))
    y[qid == 8] = 1.0
    return X, y, qid


def svmrank_optimum(X, y, qid, c: float, loss: int) -> np.ndarray:
    """The minimiser of SVM^rank's stated problem, over explicit pairs.

    1/2 |w|^2 + c/n sum_q loss_q has the dual: maximise sum(a) - 1/2 |D'a|^2 for 0 <= a <= bound,
    with a row of D for every pair, bound = c/n (-l 1) or c/n divided by the pairs of its query
    (-l 2), and w = D'a.
    """
    queries = np.unique(qid)
    rows, bounds = [], []
    for query in queries:
        items = np.flatnonzero(qid == query)
        pairs = [(i, j) for i in items for j in items if y[i] > y[j]]
        rows += [X[i] - X[j] for i, j in pairs]
        bounds += [c / len(queries) / max(1, len(pairs) if loss == 2 else 1)] * len(pairs)
    D, upper = np.array(rows), np.array(bounds)
    result = minimize(
        lambda a: (0.5 * np.sum((a @ D) ** 2) - a.sum(), D @ (a @ D) - 1.0),
        0.5 * upper,
        jac=True,
        method="L-BFGS-B",
        bounds=[(0.0, bound) for bound in upper],
        options={"ftol": 1e-16, "gtol": 1e-11, "maxiter": 100_000, "maxfun": 100_000},
    )
    w = result.x @ D
    value = 0.5 * w @ w + upper @ np.maximum(0.0, 1.0 - D @ w)
    assert value + result.fun <= 1e-8 * value  # hardly a gap: this is the optimum
    return w


@pytest.mark.parametrize("loss", [1, 2])
@pytest.mark.parametrize("c", [0.05, 0.4, 20.0])
def test_the_same_model_as_svmrank(c, loss):
    X, y, qid = make_set()
    C, reduction = from_svmrank_c(c, QueryGroups.from_qid(qid, len(y)), y, loss=loss)
    model = LinearRankSVM(C, loss="hinge", reduction=reduction, tol=1e-9, scaling=None).fit(
        X, y, qid=qid
    )
    np.testing.assert_allclose(
        model.coef_, svmrank_optimum(X, y, qid, c, loss), rtol=0.0, atol=1e-6
    )


def test_what_is_handed_over():
    _, y, qid = make_set()
    queries, one = QueryGroups.from_qid(qid, len(y)), QueryGroups.from_qid(None, len(y))
    assert from_svmrank_c(3, queries) == (0.5, "sum")
    assert from_svmrank_c(3, queries, y, loss=2) == (2.0, "query_mean")
    assert from_svmrank_c(3, one) == (3.0, "sum")
    assert from_svmrank_c(3, one, y, loss=2) == (3.0, "query_mean")
    mixed = QueryGroups.from_qid(list("abab"), 4)
    assert from_svmrank_c(3, mixed, [1, 2, 1, 1], loss=2) == (1.5, "query_mean")


def test_wrong_arguments_are_named():
    two = QueryGroups.from_qid(["a", "b"], 2)
    with pytest.raises(ValueError, match="c must be a positive finite number; got 0"):
        from_svmrank_c(0, two)
    with pytest.raises(ValueError, match=r"loss must be 1 .* or 2 .*; got 0"):
        from_svmrank_c(1.0, two, loss=0)
    with pytest.raises(ValueError, match="the training set has no queries"):
        from_svmrank_c(1.0, QueryGroups.from_qid([], 0))
    with pytest.raises(ValueError, match="one label for each of the 2 items; got none"):
        from_svmrank_c(1.0, two, loss=2)
    with pytest.raises(ValueError, match=r"2 items; got the shape \(3,\)"):
        from_svmrank_c(1.0, two, [1, 2, 3], loss=2)
    with pytest.raises(ValueError, match="no query has two items with different labels"):
        from_svmrank_c(1.0, two, [1, 2], loss=2)


def test_the_flags_of_the_guide_stand_in_it():
    """Every flag of svm_rank_learn has its line."""
    guide = (Path(__file__).parents[2] / "docs" / "svmrank.md").read_text(encoding="utf-8")
    for flag in "cploewkfbnmh#tdgsruvya":
        assert f"`-{flag}" in guide, flag
