"""The state of an unfinished fit in a file."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from shard_sets import cut

from ranksvm.data import Preferences, RankingData
from ranksvm.datasets import make_ranking
from ranksvm.learners import make_problem
from ranksvm.learners.kernel import KernelSettings
from ranksvm.learners.linear import LinearSettings
from ranksvm.learners.resume import FitState, fit_identity
from ranksvm.solvers.base import Status

IDENTITY = {"features": "a", "parameters": "b"}


def ranking() -> RankingData:
    X, y, qid, _ = make_ranking(10, (5, 20), 6, random_state=0)
    return RankingData(X, y, qid)


def test_what_is_saved_is_loaded(tmp_path) -> None:
    path = tmp_path / "state.npz"
    assert FitState(path, IDENTITY).coef is None
    state = FitState(path, IDENTITY)
    state.save(np.array([1.0, -2.5]), 3)
    state.save(np.array([1.0, -2.0]), 4)
    for one in (state, FitState(path, IDENTITY)):
        assert one.coef is not None
        assert one.coef.tolist() == [1.0, -2.0]
        assert one.n_iter == 4
    assert [one.name for one in tmp_path.iterdir()] == ["state.npz"]
    fit = make_problem(ranking(), LinearSettings()).solve()
    state.finish(replace(fit, status=Status.MAX_ITER))
    assert path.exists()  # it may go on
    state.finish(fit)
    state.finish(fit)
    assert not path.exists()
    path.touch()
    assert FitState(path, IDENTITY).coef is None


def test_random_features_need_a_seed(tmp_path) -> None:
    data, path = ranking(), tmp_path / "state.npz"
    drawn = KernelSettings(approximation="fourier", n_components=5)
    with pytest.raises(ValueError, match="checkpoint needs random_state, an integer"):
        FitState.of(path, data, drawn)
    assert FitState.of(path, data, replace(drawn, random_state=0)).n_iter == 0
    for settings in (KernelSettings(), LinearSettings()):  # nothing is drawn
        assert FitState.of(path, data, settings).n_iter == 0


def test_a_fit_with_rounds_keeps_the_first(tmp_path) -> None:
    data, path = ranking(), tmp_path / "state.npz"
    settings = LinearSettings(C=100.0, pair_weight="lambda", n_reweight=2)
    problem = make_problem(data, settings)
    whole = problem.solve()
    assert whole.first is not None

    def stop(row, coef) -> bool:
        return row.round == 2

    state = FitState.of(path, data, settings)
    assert state.solve(problem, stop).status is Status.STOPPED
    state = FitState.of(path, data, settings)
    assert state.n_iter == whole.first.n_iter
    fit = state.solve(problem, None)
    # It begins at the end of round 0, and so finds the same weights.
    assert next(row.iteration for row in fit.history[::-1] if row.round == 0) == 0
    assert fit.n_iter == whole.n_iter
    np.testing.assert_allclose(fit.coef, whole.coef, rtol=1e-6)


def test_another_fit_is_refused(tmp_path) -> None:
    path = tmp_path / "state.npz"
    FitState(path, IDENTITY).save(np.ones(2), 1)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"state.npz is from a different fit \(different param"):
        FitState(path, {**IDENTITY, "parameters": "c"})
    with pytest.raises(ValueError, match=r"different queries\). Delete it, or choose another chec"):
        FitState(path, {**IDENTITY, "queries": "c"})
    assert path.read_bytes() == before


def damaged() -> dict[str, bytes]:
    return {"text": b"qid:1 1:2\n", "zip": b"PK\x03\x04" + b"\0" * 50, "npy": b"\x93NUMPY\x01\x00"}


@pytest.mark.parametrize("kind", sorted(damaged()))
def test_other_files_are_refused(tmp_path, kind) -> None:
    path = tmp_path / "state.npz"
    path.write_bytes(damaged()[kind])
    with pytest.raises(ValueError, match=r"is damaged or is not the state of a fit. Delete it"):
        FitState(path, IDENTITY)
    assert path.read_bytes() == damaged()[kind]


def test_no_part_of_a_state_is_enough(tmp_path) -> None:
    path = tmp_path / "state.npz"
    FitState(path, IDENTITY).save(np.ones(40), 1)
    whole = path.read_bytes()
    for size in range(1, len(whole), 37):
        path.write_bytes(whole[:size])
        with pytest.raises(ValueError, match="is damaged"):
            FitState(path, IDENTITY)


@pytest.mark.parametrize(
    "arrays",
    [
        {"coef": np.array([1.0, np.nan])},
        {"coef": np.ones((2, 2))},
        {"coef": np.ones(2, dtype=np.float32)},
        {"n_iter": np.array(-1)},
        {"identity": np.array("[]")},
        {"format": np.array("another")},
        {"more": np.ones(2)},
        {"coef": np.array([None, {}], dtype=object)},
    ],
)
def test_impossible_content_is_refused(tmp_path, arrays) -> None:
    path = tmp_path / "state.npz"
    FitState(path, IDENTITY).save(np.ones(2), 1)
    with np.load(path) as found:
        content = dict(found)
    np.savez(path, **{**content, **arrays})
    with pytest.raises(ValueError, match="is damaged"):
        FitState(path, IDENTITY)


def test_places_that_cannot_be_written(tmp_path) -> None:
    with pytest.raises(IsADirectoryError):
        FitState(tmp_path, IDENTITY)
    with pytest.raises(FileNotFoundError, match="create it first"):
        FitState(tmp_path / "none" / "state.npz", IDENTITY)


def test_the_identity_of_a_fit() -> None:
    data, settings = ranking(), LinearSettings()
    cuts = [30, 60]
    whole = fit_identity(data, settings)
    parts = fit_identity(cut(data, cuts), settings)
    # The layout in memory does not matter; the cuts do, because they are hashed one by one.
    assert parts == fit_identity(cut(data, cuts, order="F"), settings)
    assert {name for name in whole if whole[name] != parts[name]} == {"features"}
    assert fit_identity(data, replace(settings, tol=1e-9, max_iter=3)) == whole

    def differs(other: object, chosen: LinearSettings = settings) -> set[str]:
        found = fit_identity(other, chosen)
        return {name for name in {*whole, *found} if whole.get(name) != found.get(name)}

    assert differs(data, replace(settings, C=3.0)) == {"parameters"}
    assert differs(replace(data, y=data.y + 1)) == {"labels"}
    assert differs(replace(data, qid=None)) == {"queries"}
    assert differs(replace(data, item_weight=np.ones(data.n_items))) == {"weights"}
    lists = [
        replace(data, preferences=Preferences(np.array([0, 2]), np.array([1, worse]), weight))
        for worse, weight in ((3, None), (4, None), (3, np.array([1.0, 2.0])))
    ]
    # In data of one query, only this tells whether pairs belong to it.
    lists.append(replace(data, preferences=replace(lists[0].preferences, query=np.zeros(2, int))))
    assert [differs(one) for one in lists] == [{"pairs"}] * 4
    assert len({fit_identity(one, settings)["pairs"] for one in lists}) == 4
    X = data.X.copy()
    X[3, 2] = np.nextafter(X[3, 2], np.inf)
    assert differs(replace(data, X=X)) == {"features"}
    assert differs(replace(data, X=sparse.csr_matrix(data.X))) == {"features"}
    changed = sparse.csr_matrix(X)
    assert fit_identity(replace(data, X=changed), settings)["features"] not in (
        fit_identity(replace(data, X=sparse.csr_matrix(data.X)), settings)["features"],
        whole["features"],
    )
