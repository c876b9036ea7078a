"""The benchmarks run; what they measure is not looked at here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.skipif(not (ROOT / "benchmarks").is_dir(), reason="benchmarks come with the sources")
def test_quick_run_writes_goals(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the benchmarks' requirements are not installed")
    command = [sys.executable, "-m", "benchmarks", "--quick", "--only", "oracle", "products"]
    done = subprocess.run(
        [*command, "--out", str(tmp_path)], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr

    found = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    goals = {goal["key"]: goal for goal in found["goals"]}
    assert len(goals) == 15
    measured = {key for key, goal in goals.items() if goal["measured"] is not None}
    assert measured == {"oracle_1", "oracle_n", "hessp_1", "hessp_n", "letor_tree", "csr_products"}
    assert all(goals[key]["measured"] > 0 for key in measured)
    assert {goal["verdict"] for goal in goals.values()} == {"not judged", "not run"}
    assert set(found["parts"]) == {"oracle", "products"}
    assert (tmp_path / "oracle_time.png").stat().st_size > 0
