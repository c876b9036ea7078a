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
    tree,
)
from benchmarks.papers.cells import Lab, fix_sources
from benchmarks.papers.document import Document, Figure
from benchmarks.papers.drawing import draw
from benchmarks.papers.html import to_html
from benchmarks.papers.markdown import to_markdown
from benchmarks.papers.progress import bars
from benchmarks.report import describe_machine
from ranksvm._files import atomic_write

__all__ = ["SECTIONS", "main"]

# In the order of the report.  Each module has NAME, TITLE, SOURCE and run(lab, document).
SECTIONS: dict[str, ModuleType] = {
    module.NAME: module
    for module in (columns, tree, newton, kernel, approximation, factorized, lambdarank)
}

QUICK = (
    "**A quick run**: tiny sizes, few parameters, one fold. It shows that everything works; no "
    "number and no verdict means anything."
)


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _parse(argv)
    if arguments.data is not None:
        data = arguments.data.expanduser()
        if not data.is_dir():
            print(f"--data {data}: there is no such folder", file=sys.stderr)
            return 2
        os.environ["RANKSVM_DATA"] = str(data)
    out: Path = arguments.out or Path("papers", *(["quick"] if arguments.quick else []))
    cells = out / "cells"
    if arguments.fresh:
        shutil.rmtree(cells, ignore_errors=True)
    try:
        cells.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        print(f"--out {out}: {error.strerror}", file=sys.stderr)
        return 2
    fix_sources()
    lab = Lab(cells, quick=arguments.quick, threads=arguments.threads, progress=bars)
    document = Document()
    names = arguments.names or list(SECTIONS)
    # A report of some sections does not take the place of the whole one.
    suffix = f"-{'-'.join(names)}" if arguments.names else ""
    start = time.perf_counter()
    done: list[str] = []
    try:
        for name in names:
            section = SECTIONS[name]
            document.section(name, section.TITLE, section.SOURCE)
            if lab.quick:
                document.say(QUICK)
            with pinned(1):
                section.run(lab, document)
            done.append(name)
            about = _about(lab, time.perf_counter() - start, done, names)
            written = _write(document, about, out, suffix)  # what there is, in case of a break
    except KeyboardInterrupt:
        pieces = lab.computed + lab.found
        print(
            f"\nstopped; {pieces} finished pieces are kept in {cells}. The same command goes on.",
            file=sys.stderr,
        )
        return 130
    written += _write_pictures(document, out)
    if arguments.docs is not None:
        written += _write_docs(document, about, arguments.docs)
    print()
    for key, value in about.items():
        print(f"{key}: {value}")
    print(f"\nwritten: {', '.join(map(str, written))}")
    return 0


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.papers",
        description="The tables and figures of the source papers, computed anew.",
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME",
        help=f"sections to run, all if none is named: {', '.join(SECTIONS)}",
    )  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="tiny sizes: see that all works")
    parser.add_argument(
        "--fresh", action="store_true", help="forget what earlier runs have computed"
    )
    parser.add_argument("--threads", type=int, default=2, metavar="N", help="default 2")
    parser.add_argument(
        "--data", type=Path, metavar="DIR", help="folder of the real sets (or $RANKSVM_DATA)"
    )
    parser.add_argument(
        "--out", type=Path, metavar="DIR",
        help="folder for report.html, summary.md, the pictures and finished pieces "
        "(papers, or papers/quick)",
    )  # fmt: skip
    parser.add_argument(
        "--docs", type=Path, metavar="DIR",
        help="write papers.md and its pictures there as well; whole runs only",
    )  # fmt: skip
    arguments = parser.parse_args(argv)
    if arguments.threads < 1:
        parser.error(f"--threads must be at least 1; got {arguments.threads}")
    for name in arguments.names:
        if name not in SECTIONS:
            parser.error(f"there is no section {name!r}; there are {', '.join(SECTIONS)}")
    if arguments.fresh and arguments.names:
        parser.error("--fresh forgets the work of all sections: name none with it")
    if arguments.docs is not None and (arguments.names or arguments.quick):
        parser.error("--docs wants a whole run: name no section, and leave out --quick")
    return arguments


def _about(lab: Lab, seconds: float, done: Sequence[str], wanted: Sequence[str]) -> dict[str, str]:
    machine = describe_machine()
    versions = machine["versions"]
    missing = [name for name in wanted if name not in done]
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "sections": ", ".join(done)
        + (f"; not yet: {', '.join(missing)}" if missing else "")
        + (" (quick: tiny sizes)" if lab.quick else ""),
        "processor": f"{machine['cpu']}, {machine['cores']} cores",
        "threads": str(lab.threads),
        "versions": ", ".join(f"{name} {version}" for name, version in versions.items()),
        "pieces of work": f"{lab.computed} computed in this run, {lab.found} kept from before",
        "time": f"{lab.seconds / 60:.1f} minutes for all pieces, {seconds / 60:.1f} in this run",
    }


def _write(document: Document, about: dict[str, str], out: Path, suffix: str) -> list[Path]:
    out.mkdir(parents=True, exist_ok=True)
    written = [out / f"report{suffix}.html", out / f"summary{suffix}.md"]
    _replace(written[0], to_html(document, about).encode())
    _replace(written[1], to_markdown(document, about).encode())
    return written


def _write_docs(document: Document, about: dict[str, str], folder: Path) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    page = folder / "papers.md"
    _replace(page, to_markdown(document, about).encode())
    return [page, *_write_pictures(document, folder)]


def _replace(path: Path, content: bytes) -> None:
    with atomic_write(path) as file:
        file.write(content)


def _write_pictures(document: Document, folder: Path) -> list[Path]:
    written = []
    for section in document.sections:
        for part in section.parts:
            if isinstance(part, Figure) and part.picture is not None:
                path = folder / f"{part.picture}.png"
                try:
                    _replace(path, draw(part, kind="png"))
                except ImportError as error:
                    print(f"no pictures: {error}", file=sys.stderr)
                    return written
                written.append(path)
    return written


if __name__ == "__main__":
    sys.exit(main())
