"""A binary that was built on one x86-64 machine runs on every other.

Only ``simd_avx2.cpp`` and ``simd_avx512.cpp`` are compiled for more than the architecture's
baseline, and they are entered after a look at the processor. Two ways lead around that look, and
both are closed here: a flag that raises the baseline of all files, and an inline function or
template (``std::vector``, say) that one of these two emits as a *weak* symbol. The linker keeps one
copy of a weak symbol for the whole program; if it keeps that one, code for every machine runs AVX.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "python"
SIMD_FILES = re.compile(r"simd_avx(2|512)\.cpp$")
BEYOND_BASELINE = re.compile(
    r"-march=|-mcpu=|-mavx|-mfma|-mbmi|-msse[34]|-mpopcnt|-ffast-math|-Ofast"
)


@pytest.fixture(scope="module")
def commands() -> list[dict[str, str]]:
    path = BUILD / "compile_commands.json"
    if not path.is_file():
        pytest.skip("no build tree; `make test` leaves one")
    return json.loads(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def simd_objects(commands) -> list[Path]:
    objects = [BUILD / entry["output"] for entry in commands if SIMD_FILES.search(entry["file"])]
    if not objects:
        pytest.skip("this architecture has no instruction sets to choose from")
    return objects


def test_only_the_simd_files_are_compiled_beyond_the_baseline(commands):
    assert commands
    raised = {
        entry["file"]: BEYOND_BASELINE.findall(entry["command"])
        for entry in commands
        if not SIMD_FILES.search(entry["file"]) and BEYOND_BASELINE.search(entry["command"])
    }
    assert not raised


def test_no_file_gives_up_ieee_arithmetic(commands):
    ours = [entry for entry in commands if str(ROOT / "cpp") in entry["file"]]
    assert ours
    for entry in ours:
        assert "-ffast-math" not in entry["command"], entry["file"]
        assert "-ffp-contract=off" in entry["command"], entry["file"]


def test_the_simd_files_share_no_function_with_the_rest(simd_objects):
    nm = shutil.which("nm")
    if nm is None:
        pytest.skip("needs nm (binutils)")
    shared = []
    for path in simd_objects:
        symbols = subprocess.run(
            [nm, "--defined-only", "--demangle", path], check=True, capture_output=True, text=True
        ).stdout
        assert symbols, path
        shared += [
            f"{path.name}: {name}"
            for _, kind, name in (line.split(maxsplit=2) for line in symbols.splitlines())
            if kind == "W"
        ]
    assert not shared, (
        "weak symbols in simd files; put the function into an anonymous namespace, or write the "
        "loop without the template:\n" + "\n".join(shared)
    )
