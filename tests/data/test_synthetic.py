"""The generators keep what their documentation says of shape, scale and distribution."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse, stats

from ranksvm.datasets import make_cadata_like, make_letor_like, make_ranking, make_reuters_like


def same(a, b) -> bool:
    """Whether two samples are equal to the last bit."""
    a, b = ([part.toarray() if sparse.issparse(part) else part for part in s] for s in (a, b))
    return all(np.array_equal(u, v) for u, v in zip(a, b, strict=True))


def per_query_accuracy(y, scores, qid) -> float:
    """Pairwise accuracy over all pairs, by Kendall's tau without ties."""
    tau = [stats.kendalltau(scores[qid == q], y[qid == q]).statistic for q in np.unique(qid)]
    return (1.0 + np.mean(tau)) / 2.0


MAKERS = {
    "dense": lambda seed: make_ranking(6, 9, 5, random_state=seed),
    "sparse": lambda seed: make_ranking(6, 9, 30, density=0.2, random_state=seed),
    "shuffled": lambda seed: make_ranking(6, (2, 9), 5, shuffle=True, random_state=seed),
    "letor": lambda seed: make_letor_like(5, random_state=seed),
    "cadata": lambda seed: make_cadata_like(50, random_state=seed),
    "reuters": lambda seed: make_reuters_like(
        50, n_features=300, nnz_per_row=10, random_state=seed
    ),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_the_seed_decides_everything(make):
    assert same(make(3), make(3))
    assert same(make(3), make(np.random.default_rng(3)))
    assert not same(make(3), make(4))


def test_ranking_has_the_asked_shape():
    X, y, qid, coef = make_ranking(30, (3, 7), 11, n_informative=4, random_state=0)
    sizes = np.bincount(qid)
    assert X.shape == (qid.shape[0], 11)
    assert y.shape == qid.shape
    assert X.dtype == y.dtype == np.float64
    assert (sizes.shape[0], sizes.min(), sizes.max()) == (30, 3, 7)
    assert np.all(np.diff(qid) >= 0)
    assert np.count_nonzero(coef) == 4


def test_dense_features_fill_the_unit_interval_in_every_query():
    X, _, qid, _ = make_ranking(20, (2, 30), 6, random_state=0)
    for q in range(20):
        assert np.all(X[qid == q].min(axis=0) == 0.0)
        assert np.all(X[qid == q].max(axis=0) == 1.0)


def test_an_item_alone_in_its_query_has_no_features():
    X, _, _, _ = make_ranking(4, 1, 3, random_state=0)
    assert not X.any()


def test_one_global_ranking_of_real_utilities():
    X, y, qid, _ = make_ranking(None, 500, 4, n_levels=None, random_state=0)
    assert X.shape == (500, 4)
    assert qid is None
    assert np.unique(y).shape[0] == 500


def test_grades_have_the_asked_shares_and_queries_differ():
    shares = [0.5, 0.3, 0.15, 0.05]
    _, y, qid, _ = make_ranking(200, 50, 8, n_levels=4, level_shares=shares, random_state=0)
    assert np.bincount(y.astype(int)) / y.shape[0] == pytest.approx(shares, abs=1e-3)
    means = np.bincount(qid, weights=y) / np.bincount(qid)
    assert means.std() > 0.3


def test_grades_are_skewed_toward_zero_by_default():
    _, y, _, _ = make_ranking(100, 40, 8, n_levels=5, random_state=0)
    counts = np.bincount(y.astype(int))
    assert counts.shape == (5,)
    assert np.all(counts[:-1] > 2 * counts[1:])


def test_coef_explains_the_linear_signal_and_half_of_the_other():
    def accuracy(**options):
        X, y, qid, coef = make_ranking(40, 50, 20, n_levels=None, random_state=0, **options)
        return per_query_accuracy(y, X @ coef, qid)

    assert accuracy(noise=0.0) == pytest.approx(1.0)
    assert 0.75 < accuracy(noise=0.5) < 0.95
    assert 0.6 < accuracy(noise=0.0, signal="nonlinear") < 0.85


@pytest.mark.parametrize("signal", ["linear", "nonlinear"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_features(dtype, signal):
    X, y, _, coef = make_ranking(
        50, 40, 200, density=0.03, signal=signal, dtype=dtype, random_state=0
    )
    assert isinstance(X, sparse.csr_array)
    assert X.shape == (2000, 200)
    assert X.dtype == dtype
    assert X.indices.dtype == X.indptr.dtype == np.int32
    assert X.nnz / (2000 * 200) == pytest.approx(0.03, rel=0.02)
    assert X.data.min() > 0.0
    assert X.data.max() <= 1.0
    check_canonical(X)
    assert np.corrcoef(X @ coef, y)[0, 1] > 0.2


def test_dense_features_in_single_precision():
    X, _, _, _ = make_ranking(5, 10, 4, dtype=np.float32, random_state=0)
    assert X.dtype == np.float32
    assert (X.min(), X.max()) == (0.0, 1.0)


def test_shuffling_moves_whole_rows():
    X, y, qid, _ = make_ranking(10, (2, 9), 7, n_levels=None, random_state=5)
    mixed = make_ranking(10, (2, 9), 7, n_levels=None, shuffle=True, random_state=5)
    mixed_X, mixed_y, mixed_qid, _ = mixed
    assert np.any(np.diff(mixed_qid) < 0)
    back = np.array([np.flatnonzero(mixed_y == value)[0] for value in y])
    assert np.array_equal(mixed_X[back], X)
    assert np.array_equal(mixed_qid[back], qid)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_queries": 0}, "n_queries must be a positive integer; got 0"),
        ({"n_queries": 2.5}, "n_queries must be a positive integer"),
        ({"items_per_query": 0}, "items_per_query must be a positive integer"),
        ({"items_per_query": (5, 2)}, "low <= high"),
        ({"items_per_query": (1, 2, 3)}, "items_per_query must be a positive integer"),
        ({"n_features": -1}, "n_features"),
        ({"n_levels": 0}, "n_levels"),
        ({"n_informative": 47}, "n_informative must not exceed n_features; got 47 and 46"),
        ({"signal": "cubic"}, r"signal must be one of 'linear', 'nonlinear'; got 'cubic'"),
        ({"noise": -0.1}, "noise"),
        ({"noise": np.nan}, "noise"),
        ({"density": 0.0}, "density must lie in"),
        ({"density": 1.5}, "density must lie in"),
        ({"dtype": np.int64}, "dtype must be float32 or float64; got int64"),
        ({"level_shares": [0.5, 0.5]}, "level_shares must hold 3 shares"),
        ({"level_shares": [0.5, 0.6, 0.1]}, "sum to 1"),
        ({"level_shares": [1.0], "n_levels": None}, "level_shares needs graded labels"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        make_ranking(**options)


def test_letor_like_has_the_shape_of_its_model():
    X, y, qid, _ = make_letor_like(300, random_state=0)
    assert X.shape[1] == 46
    assert qid.max() == 299
    assert 38 < y.shape[0] / 300 < 44
    assert np.unique(y).tolist() == [0.0, 1.0, 2.0]


def test_cadata_like_has_the_shape_of_its_model():
    X, y, qid, coef = make_cadata_like(20_000, random_state=0)
    assert X.shape == (20_000, 8)
    assert X.flags.c_contiguous
    assert qid is None
    assert coef is None
    assert X.mean(axis=0) == pytest.approx(np.zeros(8), abs=1e-9)
    assert X.std(axis=0) == pytest.approx(np.ones(8))
    assert np.unique(y).shape[0] == 20_000
    correlations = np.abs(np.corrcoef(X.T) - np.eye(8))
    assert correlations.max() > 0.9
    assert stats.skew(X).max() > 1.0
    # A linear fit ranks well, and not perfectly.
    scores = X @ np.linalg.lstsq(X, y, rcond=None)[0]
    assert 0.7 < (1.0 + stats.kendalltau(scores, y).statistic) / 2.0 < 0.9


def check_canonical(X: sparse.csr_array) -> None:
    """Columns of every row strictly ascending, whatever the flags of the array say."""
    rising = np.diff(X.indices.astype(np.int64)) > 0
    rising[X.indptr[1:-1][np.diff(X.indptr)[1:] > 0] - 1] = True
    assert rising.all()


def test_reuters_like_has_the_shape_of_its_model():
    X, y, qid, coef = make_reuters_like(3000, random_state=0)
    assert isinstance(X, sparse.csr_array)
    assert X.shape == (3000, 50_000)
    assert X.dtype == np.float64
    assert X.indices.dtype == X.indptr.dtype == np.int32
    assert X.nnz / 3000 == pytest.approx(75, rel=0.03)
    check_canonical(X)
    assert np.sqrt((X * X).sum(axis=1)) == pytest.approx(np.ones(3000))
    assert qid is None
    assert y == pytest.approx(X @ coef)
    assert coef @ coef == pytest.approx(1.0)
    # Zipf: the document frequency falls like one over the rank, until every document has the word.
    frequency = np.sort(np.bincount(X.indices, minlength=50_000))[::-1]
    slope = np.polyfit(np.log(np.arange(30, 1000)), np.log(frequency[30:1000]), 1)[0]
    assert slope == pytest.approx(-1.0, abs=0.1)


def test_reuters_like_of_any_size_ranks_by_the_same_document():
    options = {"n_features": 2000, "nnz_per_row": 20, "random_state": 1}
    _, _, _, coef = make_reuters_like(10, **options)
    X, _, _, same_coef = make_reuters_like(400, **options)
    assert np.array_equal(coef, same_coef)
    assert X.nnz / 400 == pytest.approx(20, rel=0.1)


def test_sparse_sets_do_not_depend_on_memory_chunks_in_kind(monkeypatch):
    monkeypatch.setattr("ranksvm.data.synthetic._CHUNK_CELLS", 1000)
    X, _, _, _ = make_reuters_like(200, n_features=2000, nnz_per_row=20, random_state=1)
    assert X.shape == (200, 2000)
    assert X.nnz / 200 == pytest.approx(20, rel=0.1)
    check_canonical(X)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"m": 0}, "m must be a positive integer"),
        ({"m": 5, "n_features": 0}, "n_features must be a positive integer"),
        ({"m": 5, "n_features": 10, "nnz_per_row": 6}, "nnz_per_row must lie between"),
        ({"m": 5, "nnz_per_row": 0}, "nnz_per_row must lie between"),
    ],
)
def test_bad_options_of_reuters_like(options, message):
    with pytest.raises(ValueError, match=message):
        make_reuters_like(**options)


def test_cadata_like_needs_items():
    with pytest.raises(ValueError, match="m must be a positive integer; got 0"):
        make_cadata_like(0)
