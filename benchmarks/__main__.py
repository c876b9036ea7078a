"""``python -m benchmarks``: run the benchmarks, print tables, write JSON and figures."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType

from benchmarks import (
    approximations,
    auto_search,
    choices,
    commands,
    dask_rounds,
    earlier,
    factor_descents,
    factors,
    fits,
    growth,
    interrupt,
    kernel_peers,
    kernels,
    letor,
    libraries,
    memory,
    metrics,
    oracle,
    out_of_core,
    pair_weights,
    path,
    peers,
    preferences,
    products,
    query_features,
    real,
    scaling,
    scalings,
    small_fits,
    survival,
    tables,
    variants,
)
from benchmarks.common import AGAINST, Config, pinned
from benchmarks.plots import draw
from benchmarks.report import Report, describe_machine

# In the order in which they run.  Each module has a TITLE and run(config, report).
PARTS: dict[str, ModuleType] = {
    "oracle": oracle,
    "products": products,
    "fits": fits,
    "pair_weights": pair_weights,
    "growth": growth,
    "scaling": scaling,
    "scalings": scalings,
    "peers": peers,
    "variants": variants,
    "memory": memory,
    "interrupt": interrupt,
    "letor": letor,
    "tables": tables,
    "metrics": metrics,
    "query_features": query_features,
    "path": path,
    "kernel": kernels,
    "approximation": approximations,
    "kernel_peers": kernel_peers,
    "survival": survival,
    "preferences": preferences,
    "factors": factors,
    "factor_descents": factor_descents,
    "libraries": libraries,
    "commands": commands,
    "small_fits": small_fits,
    "earlier": earlier,
    "out_of_core": out_of_core,
    "dask": dask_rounds,
    "auto": auto_search,
    "choices": choices,
    "real": real,
}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="ranksvm benchmarks")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: see that all works")
    parser.add_argument(
        "--only", nargs="+", choices=list(PARTS), metavar="NAME", default=list(PARTS),
        help=f"run these only: {', '.join(PARTS)}",
    )  # fmt: skip
    parser.add_argument(
        "--threads", type=_positive, default=2, metavar="N",
        help="threads of the threaded measurements (default 2, of which the goals speak)",
    )  # fmt: skip
    parser.add_argument(
        "--against", default=AGAINST, metavar="REV",
        help=f"the revision that the part `earlier` compares with (default {AGAINST})",
    )  # fmt: skip
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).resolve().parent / "results", metavar="DIR",
        help="folder for results.json and the figures",
    )  # fmt: skip
    arguments = parser.parse_args(argv)
    arguments.out.mkdir(parents=True, exist_ok=True)

    config = Config(arguments.quick, arguments.threads, arguments.against)
    report = Report(config)
    _print_machine(config)
    start = time.perf_counter()
    for name, part in PARTS.items():
        if name in arguments.only:
            run: Callable[[Config, Report], None] = part.run
            # One thread wherever a measurement does not ask for more.
            with report.part(name, part.TITLE), pinned(1):
                run(config, report)
            report.write(arguments.out / "results.json")  # what there is, in case of a break
    report.print_goals()
    figures = draw(report.parts, arguments.out)
    written = ["results.json", *(path.name for path in figures)]
    print(f"\n{time.perf_counter() - start:.0f} s; written: {', '.join(written)}")
    return 0


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"at least 1, got {value}")
    return value


def _print_machine(config: Config) -> None:
    machine = describe_machine()
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    print(f"{machine['cpu']}, {machine['cores']} cores, load {machine['load']:.1f}")
    print(f"{versions}\nthreaded measurements: {config.threads} threads")


if __name__ == "__main__":
    sys.exit(main())
