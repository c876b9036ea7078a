"""``python -m benchmarks.papers``: compute the papers' tables and figures, write a report."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType

from benchmarks.common import pinned
from benchmarks.papers import (
    approximation,
    columns,
    factorized,
    kernel,
    lambdarank,
    newton,
    quality,
    tree,
)
from benchmarks.papers.jobs import Runner
from benchmarks.papers.pages import write_pictures, write_report, write_summary
from benchmarks.papers.report import Report
from benchmarks.report import describe_machine

# In the order of the report.  Each module has NAME, TITLE, SOURCE and run(runner, report).
SECTIONS: dict[str, ModuleType] = {
    module.NAME: module
    for module in (
        columns,
        tree,
        newton,
        kernel,
        approximation,
        factorized,
        lambdarank,
        quality,
    )
}


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _parse(argv)
    if arguments.data is not None:
        data = arguments.data.expanduser()
        if not data.is_dir():
            print(f"--data {data}: there is no such folder", file=sys.stderr)
            return 2
        os.environ["RANKSVM_DATA"] = str(data)
    quick: bool = arguments.quick
    out: Path = arguments.out or Path("papers", *(["quick"] if quick else []))
    cache = out / "cache"
    if arguments.fresh:
        shutil.rmtree(cache, ignore_errors=True)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        print(f"--out {out}: {error.strerror}", file=sys.stderr)
        return 2
    runner = Runner(cache, quick=quick, threads=arguments.threads)
    report = Report()
    names = arguments.names or list(SECTIONS)
    # A report of some sections does not replace the whole one.
    suffix = f"-{'-'.join(names)}" if arguments.names else ""
    start = time.perf_counter()
    try:
        for name in names:
            section = SECTIONS[name]
            report.section(name, section.TITLE, section.SOURCE)
            with pinned(1):
                section.run(runner, report)
            about = _about(runner, report, names, time.perf_counter() - start)
            # After every section, so that an interrupted run leaves a report of what it has.
            written = [
                write_report(out / f"report{suffix}.html", report, about, quick=quick),
                write_summary(out / f"summary{suffix}.md", report, about, quick=quick),
            ]
    except KeyboardInterrupt:
        print(
            f"\nstopped; the results so far are kept in {cache}: the same command continues.",
            file=sys.stderr,
        )
        return 130
    written += write_pictures(out, report)
    if arguments.docs is not None:
        arguments.docs.mkdir(parents=True, exist_ok=True)
        written.append(write_summary(arguments.docs / "papers.md", report, about, quick=quick))
        written += write_pictures(arguments.docs, report)
    print()
    for key, value in about.items():
        print(f"{key}: {value}")
    print(f"\nwritten: {', '.join(map(str, written))}")
    return 0


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.papers",
        description="Compute the tables and figures of the source papers again.",
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME",
        help=f"sections to run, by default all: {', '.join(SECTIONS)}",
    )  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to see that it works")
    parser.add_argument("--fresh", action="store_true", help="delete the results of earlier runs")
    parser.add_argument("--threads", type=int, default=2, metavar="N", help="default 2")
    parser.add_argument(
        "--data", type=Path, metavar="DIR", help="folder of the real data sets (or $RANKSVM_DATA)"
    )
    parser.add_argument(
        "--out", type=Path, metavar="DIR",
        help="folder for report.html, summary.md, pictures and kept results "
        "(default papers, or papers/quick)",
    )  # fmt: skip
    parser.add_argument(
        "--docs", type=Path, metavar="DIR",
        help="also write the summary as papers.md, with its pictures, there; whole runs only",
    )  # fmt: skip
    arguments = parser.parse_args(argv)
    if arguments.threads < 1:
        parser.error(f"--threads must be at least 1; got {arguments.threads}")
    for name in arguments.names:
        if name not in SECTIONS:
            parser.error(f"there is no section {name!r}; choose from {', '.join(SECTIONS)}")
    if arguments.fresh and arguments.names:
        parser.error("--fresh deletes the results of all sections: do not name any with it")
    if arguments.docs is not None and (arguments.names or arguments.quick):
        parser.error("--docs needs a whole run: name no section, and leave out --quick")
    return arguments


def _about(runner: Runner, report: Report, wanted: Sequence[str], seconds: float) -> dict[str, str]:
    machine = describe_machine()
    done = [section.name for section in report.sections]
    missing = [name for name in wanted if name not in done]
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "sections": ", ".join(done) + (f"; not yet: {', '.join(missing)}" if missing else ""),
        "processor": f"{machine['cpu']}, {machine['cores']} cores",
        "threads": str(runner.threads),
        "versions": ", ".join(f"{name} {number}" for name, number in machine["versions"].items()),
        "jobs": f"{runner.computed} computed in this run, {runner.reused} from an earlier run",
        "time": f"{runner.seconds / 60:.1f} minutes for all jobs, {seconds / 60:.1f} in this run",
    }


if __name__ == "__main__":
    sys.exit(main())
