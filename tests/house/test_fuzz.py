"""The parts of ``make fuzz``, for a moment each; longer among the slow tests."""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random

import pytest

ROOT = Path(__file__).resolve().parents[2]
if not (ROOT / "fuzz").is_dir():
    pytest.skip("fuzz comes with the sources", allow_module_level=True)
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from fuzz.__main__ import PARTS, main  # noqa: E402
from fuzz.cases import damaged, repeat  # noqa: E402

SEED = 20_000


@pytest.mark.parametrize("part", [part for part in PARTS if part != "native"])
def test_every_part_for_a_moment(part):
    assert PARTS[part](0.3, SEED) >= 1


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
def test_every_part_for_some_seconds(part):
    assert PARTS[part](10.0, SEED + 1000) > 20


def test_the_seed_of_a_failure_brings_it_back(capsys):
    """Case k of a run has the seed of the run plus k."""
    wrong = Random(12).random()

    def case(draw: Random) -> None:
        assert draw.random() != wrong

    with pytest.raises(AssertionError):
        repeat("part", case, 60.0, 5)
    again = "case 7 failed. Again: python -m fuzz part --seconds 0 --seed 12"
    assert again in capsys.readouterr().err
    with pytest.raises(AssertionError):
        repeat("part", case, 0.0, 12)
    assert repeat("part", case, 0.0, 13) == 1


def test_damage_is_the_same_for_the_same_seed():
    good = bytes(range(60))
    found = [damaged(Random(seed), good, b"xyz") for seed in range(100)]
    assert found == [damaged(Random(seed), good, b"xyz") for seed in range(100)]
    assert len(set(found)) > 90


def test_the_command(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["fuzz", "pairs", "trec", "--seconds", "0", "--seed", "3"])
    main()
    seed, *parts = capsys.readouterr().out.splitlines()
    assert seed == "fuzz: seed 3"
    assert [line.rpartition(",")[0] for line in parts] == [
        "fuzz: pairs: 1 cases",
        "fuzz: trec: 1 cases",
    ]
    monkeypatch.setattr(sys, "argv", ["fuzz", "nothing"])
    with pytest.raises(SystemExit):
        main()
    assert "there is no part nothing" in capsys.readouterr().err
