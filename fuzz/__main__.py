"""``python -m fuzz``: all parts, or those that are named."""

from __future__ import annotations

import argparse
import secrets
import time
from collections.abc import Callable

from fuzz import (
    certificates,
    checkpoints,
    kills,
    models,
    native,
    pairs,
    side_files,
    streams,
    tables,
    text,
    trec,
)

# One line a part: run(seconds, seed) -> number of cases.
PARTS: dict[str, Callable[[float, int], int]] = {
    "certificates": certificates.run,
    "letor": text.run,
    "streams": streams.run,
    "pairs": pairs.run,
    "sides": side_files.run,
    "trec": trec.run,
    "csv": tables.run,
    "models": models.run,
    "checkpoints": checkpoints.run,
    "kills": kills.run,
    "native": native.run,
}


def main() -> None:
    """Run parts one after the other, and tell how much was tried."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; all")
    parser.add_argument("--seconds", type=float, default=120.0, help="for all parts together")
    parser.add_argument("--seed", type=int, help="of the first case; a new one by default")
    options = parser.parse_args()
    unknown = set(options.parts) - set(PARTS)
    if unknown:
        parser.error(f"there is no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    names = options.parts or list(PARTS)
    seed = secrets.randbelow(10**9) if options.seed is None else options.seed
    print(f"fuzz: seed {seed}", flush=True)
    for name in names:
        began = time.monotonic()
        n_cases = PARTS[name](options.seconds / len(names), seed)
        print(f"fuzz: {name}: {n_cases:,} cases, {time.monotonic() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
