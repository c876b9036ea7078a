"""The benchmarks run; what they measure is not looked at here."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.skipif(
    not (ROOT / "benchmarks").is_dir(), reason="benchmarks come with the sources"
)


def quick_run(
    folder: Path, *parts: str, options: Sequence[str] = ()
) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """What a quick run of some parts writes, and its goals by their keys."""
    pytest.importorskip("matplotlib", reason="the benchmarks' requirements are not installed")
    command = [sys.executable, "-m", "benchmarks", "--quick", "--only", *parts]
    done = subprocess.run(
        [*command, *options, "--out", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr

    found = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    goals = {goal["key"]: goal for goal in found["goals"]}
    assert len(goals) == len(found["goals"]) > 60  # no key twice
    assert {goal["verdict"] for goal in goals.values()} <= {"not judged", "not run"}
    assert set(found["parts"]) == set(parts)
    return found, goals


def test_quick_run_writes_goals(tmp_path: Path) -> None:
    _, goals = quick_run(tmp_path, "oracle", "products")
    measured = {key for key, goal in goals.items() if goal["measured"] is not None}
    assert measured == {
        "oracle_1", "oracle_n", "hessp_1", "hessp_n", "letor_tree", "csr_products",
        "text_products", "rbf_products", "raw_products", "cheap_products",
    }  # fmt: skip
    assert all(goals[key]["measured"] > 0 for key in measured)
    assert (tmp_path / "oracle_time.png").stat().st_size > 0


@pytest.mark.slow
def test_quick_run_of_scalings(tmp_path: Path) -> None:
    found, _ = quick_run(tmp_path, "scalings")
    tables = found["parts"]["scalings"]["tables"]
    best = tables["rbf: best value on validation by scaling"]
    assert all(0.0 < float(row["standard"]) <= 1.0 for row in best)
    assert {row["set"] for row in best} >= {"raw web features", "words"}


@pytest.mark.slow
def test_quick_run_of_threads(tmp_path: Path) -> None:
    found, goals = quick_run(tmp_path, "scaling")
    measured = {key for key, goal in goals.items() if goal["measured"] is not None}
    with_two = {key for key in goals if key.startswith("scaling_") and key.endswith("_2")}
    assert measured == {*with_two, "busy"}
    *breakdowns, whole, busy = found["parts"]["scaling"]["tables"].values()
    assert len(breakdowns) == len(whole) >= 15
    assert all(row["phase"] for table in breakdowns for row in table)
    assert [row["threads"] for row in busy] == [1, 2]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_quick_run_of_tables(tmp_path: Path) -> None:
    found, _ = quick_run(tmp_path, "tables")
    memory, times = found["parts"]["tables"]["tables"].values()
    assert [row["type"] for row in memory] == ["float32", "float32", "float32", "float64"]
    assert all(row["same sum"] for row in times)


@pytest.mark.slow
def test_quick_run_of_small_fits(tmp_path: Path) -> None:
    found, goals = quick_run(tmp_path, "small_fits")
    measured = {key for key, goal in goals.items() if goal["measured"] is not None}
    assert measured | {"small_fit_mq2008"} == {
        "small_fit", "small_fit_mq2008", "predict_linear", "predict_frame", "predict_nystroem",
        "predict_exact", "cold_seconds", "cold_memory",
    }  # fmt: skip
    assert len(found["parts"]["small_fits"]["tables"]) == 3


@pytest.mark.slow
def test_quick_run_of_survival_times(tmp_path: Path) -> None:
    found, goals = quick_run(tmp_path, "survival")
    measured = {key for key, goal in goals.items() if goal["measured"] is not None}
    optional = {"survival_peer", "survival_kernel_peer"}  # scikit-survival
    assert measured | optional == {"survival_peer", "survival_kernel_peer", "survival_fit"}
    *programs, _ = found["parts"]["survival"]["tables"].values()
    assert len(programs) == 3
    for row in (row for table in programs for row in table):  # all mean the same objective
        assert row["own"] is None or float(row["own"]) == pytest.approx(float(row["objective"]))


@pytest.mark.slow
def test_quick_run_of_the_kernel_machines(tmp_path: Path) -> None:
    found, goals = quick_run(tmp_path, "kernel", "approximation", "kernel_peers")
    measured = {key for key, goal in goals.items() if goal["measured"] is not None}
    optional = {"kernel_mq2008", "kernel_peer"}  # real data; scikit-survival
    assert measured | optional == {
        "kernel_products", "kernel_outside", "kernel_seconds", "tiled_scores", "tiled_memory",
        "kernel_mq2008", "kernel_cadata", "nystroem_seconds", "nystroem_share", "fourier_seconds",
        "fourier_share", "nystroem_letor", "nystroem_memory", "nystroem_growth", "kernel_peer",
    }  # fmt: skip
    assert goals["tiled_scores"]["measured"] <= 1e-6

    tables = [table for part in found["parts"].values() for table in part["tables"].values()]
    fits = [row for table in tables for row in table if "status" in row]
    assert len(fits) >= 12
    assert all(row["status"] == "converged" and row["rel gap"] <= 1e-3 for row in fits)
    (programs,) = found["parts"]["kernel_peers"]["tables"].values()
    for row in programs:  # all mean the same objective
        assert row["own"] is None or float(row["own"]) == pytest.approx(float(row["objective"]))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_quick_run_of_large_data(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    found, goals = quick_run(tmp_path, "out_of_core", "dask")
    measured = {key for key, goal in goals.items() if goal["measured"] is not None}
    assert measured == {"out_of_core_speed", "out_of_core_memory", "out_of_core_coef"}
    assert goals["out_of_core_coef"]["measured"] <= 1e-10
    assert len(found["parts"]["dask"]["tables"]) == 3


def test_a_revision_that_is_not_there_is_skipped(tmp_path: Path) -> None:
    found, goals = quick_run(tmp_path, "earlier", options=["--against", "no-such-revision"])
    (note,) = found["parts"]["earlier"]["notes"]
    assert note.startswith("skipped: ")
    assert "no-such-revision" in note or "git" in note
    assert goals["earlier"]["measured"] is None
    assert found["config"]["against"] == "no-such-revision"


def test_without_git_there_is_nothing_to_compare_with(monkeypatch: pytest.MonkeyPatch) -> None:
    earlier = pytest.importorskip("benchmarks.earlier")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(earlier.NotThere, match="git"), earlier.earlier_library("HEAD"):
        pass


@pytest.mark.slow
def test_all_calls_of_an_earlier_library(capsys: pytest.CaptureFixture[str]) -> None:
    """This library stands for the earlier one, too, so that nothing has to be built."""
    earlier = pytest.importorskip("benchmarks.earlier")
    config = earlier.Config(quick=True)
    report = earlier.Report(config)
    with report.part("earlier", earlier.TITLE):
        earlier.compare(earlier.Library(), earlier.Library(), config, report)
    (rows,) = report.parts["earlier"]["tables"].values()
    assert len(rows) == sum(len(one.calls) for one in earlier.sets(config)) >= 17
    assert all(row["now / earlier"] > 0.0 for row in rows)
    assert "now / earlier" in capsys.readouterr().out
