"""The native reader and writer of text on their own, under sanitizers.

    libFuzzer    address and undefined behaviour, on one thread; needs clang++
    races        the thread sanitizer, on four threads; clang++ or g++

`make races` runs all native tests under the thread sanitizer.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from fuzz.text import GOOD

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "fuzz"
CORE = ROOT / "cpp" / "src"
SOURCES = [*sorted(CORE.glob("text_*.cpp")), CORE / "threads.cpp"]
COMMON = ("-std=c++20", "-O1", "-g", "-fno-omit-frame-pointer", "-ffp-contract=off")
# Texts to begin with, beside a good one: short tokens, indices that do not ascend, long numbers.
SEEDS = {
    "short": b"0 1:1 2:1 3:1 4:1 5:2\n1 1:1\n0\n",
    "unsorted": b"1 qid:a 3:1 1:2 2:-0\n0 qid:a 9:1 9:2 1:0\n",
    "long": b"1 1:0.1234567890123456789012345678901e-17 2:123456789012345678901234567890\n",
}
WORDS = ("qid:", "1:", "\\x0a", "NULL", "nan", "inf", "cost:", "sid:", "# ", "1e-5", "2147483648:")


def run(seconds: float, seed: int) -> int:
    """Run both for half of the time each; return how many texts were read."""
    return fuzzer(seconds / 2, seed) + races(seconds / 2, seed)


def built(name: str, compiler: str, sources: list[Path], *flags: str) -> Path:
    """Compile a program if something is newer than it."""
    BUILD.mkdir(parents=True, exist_ok=True)
    program = BUILD / name
    parts = [*sources, *SOURCES, *(ROOT / "cpp").rglob("*.hpp"), Path(__file__)]
    if not program.exists() or any(p.stat().st_mtime > program.stat().st_mtime for p in parts):
        print(f"fuzz: native: compiling {name} with {compiler}", flush=True)
        paths = [f"-I{ROOT / 'cpp' / 'include'}", f"-I{ROOT / 'cpp' / 'src'}"]
        command = [compiler, *COMMON, *flags, *paths, *sources, *SOURCES, "-o", program]
        subprocess.run(command, check=True)
    return program


def fuzzer(seconds: float, seed: int) -> int:
    """Let libFuzzer look for text that breaks something."""
    if shutil.which("clang++") is None:
        print("fuzz: native: no clang++, so libFuzzer is left out (Debian: apt install clang)")
        return 0
    target = [ROOT / "cpp" / "fuzz" / "text.cpp"]
    sanitizers = "-fsanitize=fuzzer,address,undefined"
    program = built("text", "clang++", target, sanitizers, "-fno-sanitize-recover=all")
    corpus = BUILD / "corpus"
    corpus.mkdir(exist_ok=True)
    for number in range(32):  # with all kinds of options
        head = bytes([number, number * 7 % 256, number * 8 % 256, number * 37 % 256])
        for name, text in {"good": GOOD, **SEEDS}.items():
            (corpus / f"{name}-{number}").write_bytes(head + text)
    words = BUILD / "words"
    words.write_text("".join(f'"{word}"\n' for word in WORDS), encoding="ascii")
    found = subprocess.run(
        [
            program,
            f"-max_total_time={max(1, round(seconds))}",
            f"-seed={seed % (2**32 - 1) + 1}",
            f"-dict={words}",
            f"-artifact_prefix={BUILD}/",
            "-max_len=600",
            "-print_final_stats=1",
            corpus,
        ],
        capture_output=True,
        text=True,
        errors="replace",
    )
    if found.returncode:
        sys.stderr.write(found.stderr[-8000:])
        raise AssertionError(f"libFuzzer, seed {seed}: {program} FILE runs the file named above")
    counted = re.search(r"number_of_executed_units: (\d+)", found.stderr)
    return int(counted[1]) if counted else 0


def races(seconds: float, seed: int) -> int:
    """Read random text with several threads under the thread sanitizer."""
    compiler = next((name for name in ("clang++", "g++") if shutil.which(name)), None)
    if compiler is None:
        print("fuzz: native: neither clang++ nor g++, so the thread sanitizer is left out")
        return 0
    sources = [ROOT / "cpp" / "fuzz" / name for name in ("text.cpp", "driver.cpp")]
    flags = ("-fsanitize=thread", "-pthread")
    program = built("races", compiler, sources, *flags)
    found = subprocess.run(
        [program, str(seconds), str(seed)],
        cwd=BUILD,
        env={**os.environ, "TSAN_OPTIONS": "halt_on_error=1"},
        capture_output=True,
        text=True,
        errors="replace",
    )
    if found.returncode:
        sys.stderr.write(found.stderr[-8000:])
        last = (BUILD / "last-seed").read_text().strip()
        raise AssertionError(f"thread sanitizer: {program} 0 {last} runs the case again")
    return int(found.stdout)
