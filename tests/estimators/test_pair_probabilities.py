"""``predict_pair_proba``: probabilities that one item is better, from pairs that were held out."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from ranksvm import KernelRankSVM, KernelRankSVMCV, LinearRankSVM, LinearRankSVMCV, load
from ranksvm.data import save_letor
from ranksvm.learners import calibration
from ranksvm.learners.calibration import slope_of
from ranksvm.models.facts import check_facts
from ranksvm.models.pair_probability import log_loss, probability


def bradley_terry(n: int, d: int, seed: int, sharp: float = 1.5):
    """Return pairs of rows, the better one first, and the probability that it is the better one."""
    rng = np.random.default_rng(seed)
    A, B = rng.normal(size=(2, n, d))
    d_true = sharp * ((A - B) @ rng.normal(size=d)) / np.sqrt(d)
    up = rng.random(n) < 1.0 / (1.0 + np.exp(-d_true))
    chosen, rejected = np.where(up[:, None], A, B), np.where(up[:, None], B, A)
    return chosen, rejected, 1.0 / (1.0 + np.exp(-np.where(up, d_true, -d_true)))


def bins_off(found, n_bins: int = 10):
    """Return how far each bin of probabilities is off, in standard errors.

    ``found`` are the probabilities of the better items; half of the pairs are turned round.
    """
    turned = np.arange(found.size) % 2 == 1
    p, won = np.where(turned, 1.0 - found, found), ~turned
    off = []
    for part in np.array_split(np.argsort(p), n_bins):
        error = np.sqrt(np.mean(p[part] * (1.0 - p[part])) / part.size)
        off.append((won[part].mean() - p[part].mean()) / error)
    return np.array(off)


@pytest.mark.parametrize(
    "model",
    [
        LinearRankSVM(),
        LinearRankSVM(loss="hinge"),
        LinearRankSVM(100.0, reduction="sum"),
        KernelRankSVM(300.0, kernel="linear", approximation="nystroem", n_components=20,
                      random_state=0),
    ],
    ids=["squared hinge", "hinge", "sum", "nystroem"],
)  # fmt: skip
def test_probabilities_are_those_of_the_process_that_made_the_pairs(model) -> None:
    A, B, truth = bradley_terry(24_000, 8, 0)
    train, test = slice(0, 4000), slice(4000, None)
    model.fit_pairs(chosen=A[train], rejected=B[train])
    found = model.predict_pair_proba(A[test], B[test])
    raw = probability(1.0, model.predict(A[test]) - model.predict(B[test]))
    assert log_loss(found) == pytest.approx(log_loss(truth[test]), abs=0.003)
    assert np.abs(bins_off(found)).max() < 3.5
    assert log_loss(raw) > log_loss(found) + 0.01
    assert np.abs(bins_off(raw)).max() > 8.0
    assert np.abs(found - truth[test]).mean() < 0.03


def test_training_pairs_would_be_too_sure() -> None:
    """With few pairs and many features, a slope from the training pairs is far too large."""
    A, B, _ = bradley_terry(3300, 40, 1)
    model = LinearRankSVM().fit_pairs(chosen=A[:300], rejected=B[:300])
    seen = slope_of(model.predict(A[:300]) - model.predict(B[:300]))
    fresh = slope_of(model.predict(A[300:]) - model.predict(B[300:]))
    slope = model._facts["pair_probability"]["slope"]
    assert seen > 1.5 * fresh
    assert 0.5 * fresh < slope < 1.6 * fresh


def test_is_symmetric_and_half_for_equal_scores() -> None:
    A, B, _ = bradley_terry(300, 3, 2)
    model = LinearRankSVM().fit_pairs(chosen=A, rejected=B)
    there, back = model.predict_pair_proba(A, B), model.predict_pair_proba(B, A)
    np.testing.assert_allclose(there + back, 1.0, rtol=1e-15)
    assert (model.predict_pair_proba(A, A) == 0.5).all()
    X, rows = np.concatenate([A, B]), np.arange(300)
    np.testing.assert_allclose(model.predict_pair_proba(X, i=rows, j=300 + rows), there)
    order = np.argsort(model.predict(A) - model.predict(B))
    assert (np.diff(there[order]) >= 0.0).all()


def test_slope_has_the_largest_likelihood() -> None:
    rng = np.random.default_rng(0)
    d, weight = rng.normal(0.5, 1.0, size=200), rng.random(200)
    n = weight.sum() ** 2 / (weight**2).sum()
    t = (n + 1.0) / (n + 2.0)

    def loss(a):
        return weight @ (t * np.logaddexp(0.0, -a * d) + (1.0 - t) * np.logaddexp(0.0, a * d))

    wanted = minimize_scalar(loss, bounds=(0.0, 50.0), method="bounded", options={"xatol": 1e-10})
    assert slope_of(d, weight) == pytest.approx(wanted.x, rel=1e-6)
    assert slope_of(1e-200 * d, weight) == pytest.approx(1e200 * wanted.x, rel=1e-6)
    separable = np.abs(d) + 0.1
    assert np.isfinite(slope_of(separable))
    assert slope_of(np.array([1.0])) == pytest.approx(np.log(2.0))  # the target is 2/3
    assert slope_of(-separable) == slope_of(np.zeros(3)) == 0.0


def test_ties_count_half_in_each_direction() -> None:
    A, B, _ = bradley_terry(2000, 3, 3)
    plain = LinearRankSVM().fit_pairs(chosen=A[:1000], rejected=B[:1000])
    tied = LinearRankSVM().fit_pairs(
        chosen=A[:1000], rejected=B[:1000], ties=(A[1000:], B[1000:], np.full(1000, 3.0))
    )
    before, after = (m.predict_pair_proba(A[1000:], B[1000:]).mean() for m in (plain, tied))
    assert after < before - 0.1


@pytest.mark.parametrize("loss", ["squared_hinge", "hinge"])
def test_folds_hold_out_whole_groups(monkeypatch, loss: str) -> None:
    """The same answers in many pairs, with random winners: nothing can be known about others."""
    rng = np.random.default_rng(4)
    prompts = np.repeat(np.arange(40), 10)
    winner, loser = rng.normal(size=(2, 40, 60))
    A = winner[prompts] + 1e-9 * rng.normal(size=(400, 60))
    B = loser[prompts] + 1e-9 * rng.normal(size=(400, 60))
    apart = LinearRankSVM(loss=loss).fit_pairs(chosen=A, rejected=B)
    grouped = LinearRankSVM(loss=loss).fit_pairs(chosen=A, rejected=B, groups=prompts)
    slopes = [m._facts["pair_probability"]["slope"] for m in (apart, grouped)]
    assert slopes[0] > 3.0  # near copies of held-out pairs were trained on
    assert slopes[1] < 0.5
    equal = LinearRankSVM(loss=loss).fit_pairs(chosen=winner[prompts], rejected=loser[prompts])
    assert equal._facts["pair_probability"]["slope"] < 0.5  # equal rows connect their pairs


def test_queries_and_labels_are_held_out_as_well() -> None:
    rng = np.random.default_rng(5)
    qid = np.repeat(np.arange(30), 8)
    X = rng.normal(size=(240, 4))
    y = np.round(X[:, 0] + rng.normal(size=240))
    better, worse = np.arange(0, 240, 8), np.arange(1, 240, 8)
    up = X[better, 0] + rng.logistic(size=30) > X[worse, 0]
    better, worse = np.where(up, [better, worse], [worse, better])
    for make in (LinearRankSVM, KernelRankSVM):
        with pytest.warns(UserWarning, match="from the labels as well"):
            model = make(reduction="query_mean").fit_pairs(
                X, better, worse, y=y, qid=qid, query_weight=np.arange(30) % 4
            )
        fact = model._facts["pair_probability"]
        assert fact["folds"] == 5
        assert fact["pairs"] == np.count_nonzero(np.arange(30) % 4)


def test_few_fits_for_many_pairs(monkeypatch) -> None:
    A, B, _ = bradley_terry(400, 3, 6)
    all_folds = LinearRankSVM().fit_pairs(chosen=A, rejected=B)._facts["pair_probability"]
    assert (all_folds["folds"], all_folds["pairs"]) == (5, 400)
    monkeypatch.setattr(calibration, "ENOUGH", 100)
    some = LinearRankSVM().fit_pairs(chosen=A, rejected=B)._facts["pair_probability"]
    assert (some["folds"], some["pairs"]) == (2, 160)
    assert some["slope"] == pytest.approx(all_folds["slope"], rel=0.5)


def test_calibration_changes_no_score_and_any_number_of_threads_gives_the_same() -> None:
    A, B, _ = bradley_terry(200, 4, 7)
    for make in (LinearRankSVM, lambda **o: KernelRankSVM(10.0, **o)):
        with_, without = (
            make(n_jobs=n).fit_pairs(chosen=A, rejected=B, calibrate=c)
            for n, c in ((1, True), (2, False))
        )
        np.testing.assert_array_equal(with_.predict(A), without.predict(A))
        again = make(n_jobs=2).fit_pairs(chosen=A, rejected=B)
        assert again._facts["pair_probability"] == with_._facts["pair_probability"]
        assert with_.n_products_ == without.n_products_


@pytest.mark.parametrize("kind", ["linear", "kernel", "nystroem", "linear cv", "kernel cv"])
def test_files_pickles_and_clones(kind: str, tmp_path) -> None:
    A, B, _ = bradley_terry(80, 3, 8)
    model = {
        "linear": lambda: LinearRankSVM(),
        "kernel": lambda: KernelRankSVM(10.0),
        "nystroem": lambda: KernelRankSVM(10.0, approximation="nystroem", n_components=20),
        "linear cv": lambda: LinearRankSVMCV([0.1, 1.0, 10.0], cv=3),
        "kernel cv": lambda: KernelRankSVMCV([1.0, 10.0, 100.0], gammas=[0.05, 0.1, 0.2], cv=3),
    }[kind]()
    import warnings

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*of the grid")
        model.fit_pairs(chosen=A, rejected=B)
    wanted = model.predict_pair_proba(A, B)
    assert 0.5 < wanted.mean() < 1.0
    path = tmp_path / "model.safetensors"
    model.save(path)
    np.testing.assert_allclose(load(path).predict_pair_proba(A, B), wanted, rtol=1e-12)
    np.testing.assert_array_equal(
        pickle.loads(pickle.dumps(model)).predict_pair_proba(A, B), wanted
    )
    with pytest.raises(NotFittedError):
        clone(model).predict_pair_proba(A, B)


def test_says_why_there_are_no_probabilities() -> None:
    A, B, _ = bradley_terry(60, 3, 9)
    labeled = LinearRankSVM().fit(A, A[:, 0])
    with pytest.raises(NotFittedError, match=r"fitted to labels.* Fit it to pairs: fit_pairs"):
        labeled.predict_pair_proba(A, B)
    model = LinearRankSVM().fit_pairs(chosen=A, rejected=B, calibrate=False)
    with pytest.raises(NotFittedError, match=r"calibrate=False. Fit it again with calibrate=True"):
        model.predict_pair_proba(A, B)
    model.fit_pairs(chosen=A[:9], rejected=B[:9])
    with pytest.raises(NotFittedError, match=r"its pairs form 9 groups .* at least 10"):
        model.predict_pair_proba(A, B)
    chain = LinearRankSVM().fit_pairs(A, np.arange(59), np.arange(1, 60))
    with pytest.raises(NotFittedError, match="its pairs form 1 group "):
        chain.predict_pair_proba(A, B)
    stopped = LinearRankSVM().fit_pairs(
        chosen=A, rejected=B, callback=lambda row, coef: row.iteration >= 1
    )
    with pytest.raises(NotFittedError, match="the callback stopped the fit"):
        stopped.predict_pair_proba(A, B)
    model.fit_pairs(chosen=A, rejected=B)
    for arguments in ((A,), (A, B, [0])):
        with pytest.raises((ValueError, TypeError), match=r"predict_pair_proba|positional"):
            model.predict_pair_proba(*arguments)
    with pytest.raises(ValueError, match="A and B must have one row per pair each; got 60 and 2"):
        model.predict_pair_proba(A, B[:2])
    with pytest.raises(ValueError, match="i and j must have one row number per pair"):
        model.predict_pair_proba(A, i=[0], j=[1, 2])
    with pytest.raises(ValueError, match="j has row numbers that X does not have"):
        model.predict_pair_proba(A, i=[0], j=[60])
    with pytest.raises(ValueError, match="qid is for the rows of X"):
        model.predict_pair_proba(A, B, qid=[0] * 60)


@pytest.mark.parametrize(
    "fact",
    [
        1.0, {}, {"slope": 1.0, "reason": "x"}, {"slope": -1.0}, {"slope": float("nan")},
        {"slope": float("inf")}, {"slope": "1"}, {"slope": 1}, {"slope": True}, {"reason": 3},
        [], None,
    ],
)  # fmt: skip
def test_facts_are_checked(fact) -> None:
    with pytest.raises(ValueError, match="pair_probability in the facts"):
        check_facts({"pair_probability": fact}, ())


def test_commands_save_and_show_it(tmp_path, run) -> None:
    A, B, _ = bradley_terry(80, 3, 8)
    items, pairs = tmp_path / "items.txt", tmp_path / "pairs.txt"
    save_letor(items, np.concatenate([A, B]), np.zeros(160))
    lines = [f"{p + 1} {p + 81}\n" for p in range(70)]
    lines += [f"{p + 1} = {p + 81} 0.5\n" for p in range(70, 80)]
    pairs.write_text("".join(lines))
    for command in (("train",), ("tune", "--C-grid", "0.1,1,10")):
        path = tmp_path / f"{command[0]}.safetensors"
        code, _, errors = run(*command, items, "--ignore-qid", "--pairs", pairs, "-o", path)
        assert code == 0, errors
        code, out, _ = run("info", path, "--json")
        shown = json.loads(out)
        assert (shown["n_pairs"], shown["explicit_ties"]) == (80, 10)
        assert (shown["pair_probability"]["folds"], shown["pair_probability"]["pairs"]) == (5, 80)
        assert load(path).predict_pair_proba(A, B).mean() > 0.5
