"""A search that is killed again and again; ``fuzz/kills.py`` kills all other writers."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time

import numpy as np
import pytest

from ranksvm.learners import read_model

SEED = int(os.environ.get("RANKSVM_SEED", "0"))

pytestmark = pytest.mark.slow


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_a_search_that_is_killed_again_and_again_goes_on(folder, tmp_path):
    """The table and the model in the end are those of a search that nobody disturbed."""
    print(f"seed {SEED}")
    draw = random.Random(SEED)

    def search(name: str) -> list[str]:
        grids = ["--C-grid", "0.1,1,10", "--gamma-grid", "0.01:10:40", "--folds", "4"]
        files = ["--resume", str(tmp_path / f"{name}.db"), "-o", str(tmp_path / name)]
        command = ["tune", str(folder / "train.txt"), "--kernel", "rbf", *grids, *files, "--json"]
        return [sys.executable, "-m", "ranksvm", *command]

    began = time.monotonic()
    whole = subprocess.run(search("whole"), capture_output=True, check=True)
    seconds = time.monotonic() - began
    kills = 0
    while kills < 12:
        process = subprocess.Popen(search("killed"), stdout=subprocess.PIPE)
        try:
            process.communicate(timeout=draw.uniform(0.3, 1.0) * seconds)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.communicate()
            kills += 1
        else:
            if kills > 0:
                break
            seconds *= 0.5  # the machine was busy when it was measured
            for path in tmp_path.glob("killed*"):
                path.unlink()
    again = subprocess.run(search("killed"), capture_output=True, check=True)
    assert kills > 0
    first, second = json.loads(whole.stdout), json.loads(again.stdout)
    assert first["table"] == second["table"]
    assert second["resumed"] > 0
    names = ["killed", "killed.db", "whole", "whole.db"]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
    for name in ("killed.db", "whole.db"):
        base = sqlite3.connect(tmp_path / name)
        assert base.execute("SELECT count(*) FROM cells").fetchone() == (40 * 4,)
        base.close()
    for name in ("killed", "whole"):
        model = read_model(tmp_path / name)
        assert model.facts["selection"]["mean_scores"] == [
            [row["mean"] for row in first["table"] if row["gamma"] == gamma]
            for gamma in model.facts["selection"]["gammas"]
        ]
    one, other = (read_model(tmp_path / name).arrays() for name in ("killed", "whole"))
    assert one.keys() == other.keys()
    assert all(np.array_equal(one[part], other[part]) for part in one)
