"""Run some parts, or all: ``python -m fuzz [PART ...] --seconds 10 --seed 7``."""

from __future__ import annotations

import argparse
import secrets
from collections.abc import Callable

from fuzz import checkpoints, kills, models

# What a part does in so many seconds, drawn by a seed; it returns the number of cases.
PARTS: dict[str, Callable[[float, int], int]] = {
    "models": models.run,
    "checkpoints": checkpoints.run,
    "kills": kills.run,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--seconds", type=float, default=10.0, help="for each part")
    parser.add_argument("--seed", type=int, help="of all that is drawn; a new one by default")
    given = parser.parse_args()
    unknown = [part for part in given.parts if part not in PARTS]
    if unknown:
        parser.error(f"no part {unknown[0]!r}; there are {', '.join(PARTS)}")
    seed = secrets.randbits(32) if given.seed is None else given.seed
    for part in given.parts or PARTS:
        print(f"{part}: seed {seed}, {given.seconds:g} s", flush=True)
        print(f"{part}: {PARTS[part](given.seconds, seed)} cases", flush=True)


if __name__ == "__main__":
    main()
