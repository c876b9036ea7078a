"""How many cores ``n_jobs=None`` uses."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from ranksvm import _cores
from ranksvm._cores import available_cores, cgroup_quota
from ranksvm._threads import resolve_n_jobs


@pytest.fixture
def no_limits(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(_cores, "_quota", lambda: None)
    monkeypatch.setattr(_cores, "_allowed_cores", lambda: 8)


@pytest.mark.parametrize(
    ("text", "cores"),
    [("3", 3), ("2,4", 2), (" 5 ", 5), ("100", 8), ("", 8), ("0", 8), ("-1", 8), ("many", 8)],
)
def test_omp_num_threads(no_limits, monkeypatch, text: str, cores: int) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", text)
    assert available_cores() == cores


@pytest.mark.parametrize(
    ("quota", "cores"), [(0.5, 1), (1.0, 1), (1.5, 2), (4.0, 4), (64.0, 8), (None, 8)]
)
def test_quota(no_limits, monkeypatch, quota: float | None, cores: int) -> None:
    monkeypatch.setattr(_cores, "_quota", lambda: quota)
    assert available_cores() == cores


def test_n_jobs(no_limits) -> None:
    assert [resolve_n_jobs(n) for n in (None, -1, -2, -8, -20, 1, 3, 50)] == [
        8,
        8,
        7,
        1,
        1,
        1,
        3,
        50,
    ]


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="the system has no CPU affinity")
def test_affinity() -> None:
    code = (
        "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))});"
        "from ranksvm._threads import resolve_n_jobs; print(resolve_n_jobs(None))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "1"


def make_groups(root, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.mark.parametrize(
    ("own", "files", "quota"),
    [
        ("0::/\n", {"cpu.max": "max 100000\n"}, None),
        ("0::/\n", {"cpu.max": "150000 100000\n"}, 1.5),
        ("0::/a/b\n", {"a/b/cpu.max": "400000 100000\n", "a/cpu.max": "200000 100000\n"}, 2.0),
        ("0::/a/b\n", {"a/b/cpu.max": "max 100000\n", "cpu.max": "50000 100000\n"}, 0.5),
        # The path on the host, in a container that sees its own group as the root.
        ("0::/docker/4711\n", {"cpu.max": "300000 100000\n"}, 3.0),
        (
            "3:cpuset:/\n2:cpu,cpuacct:/x\n0::/\n",
            {
                "cpu,cpuacct/x/cpu.cfs_quota_us": "250000\n",
                "cpu,cpuacct/x/cpu.cfs_period_us": "100000\n",
            },
            2.5,
        ),
        (
            "1:cpu:/\n",
            {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"},
            None,
        ),
        (  # the controllers in another order than in the name of the folder
            "3:cpuacct,cpu:/d\n",
            {"cpu/d/cpu.cfs_quota_us": "300000\n", "cpu/d/cpu.cfs_period_us": "100000\n"},
            3.0,
        ),
        ("0::/\n", {"cpu.max": "nonsense\n"}, None),
        ("nonsense", {}, None),
        ("", {}, None),
    ],
)
def test_control_groups(tmp_path, own: str, files: dict[str, str], quota: float | None) -> None:
    make_groups(tmp_path / "cgroup", files)
    (tmp_path / "own").write_text(own)
    assert cgroup_quota(tmp_path / "cgroup", tmp_path / "own") == quota


def test_a_system_without_control_groups(tmp_path) -> None:
    assert cgroup_quota(tmp_path, tmp_path / "none") is None


def test_joblib_limits_the_threads_of_its_workers() -> None:
    """With processes, ``inner_max_num_threads`` reaches the workers as OMP_NUM_THREADS."""
    joblib = pytest.importorskip("joblib")
    with joblib.parallel_config("loky", n_jobs=1, inner_max_num_threads=1):
        counts = joblib.Parallel(n_jobs=2)(joblib.delayed(resolve_n_jobs)(None) for _ in range(2))
    assert counts == [1, 1]
