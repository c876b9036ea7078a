"""A quick ``ranksvm`` for tests that call it often.

A server imports the command once, and forks for every call.  In place of ``ranksvm``, a small
program hands its arguments, folder, environment and standard streams to the server, and ends with
the exit code of the call.  What a fresh process does is tested elsewhere (tests/cli).
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent
CALL = """#!{python} -IS
import json, os, socket, sys
server = socket.socket(socket.AF_UNIX)
server.connect({address!r})
call = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
socket.send_fds(server, [len(call).to_bytes(8, "big")], [0, 1, 2])
server.sendall(call)
sys.exit(int(server.recv(8)))
"""
COMMANDS = ("train", "tune", "predict", "evaluate", "compare", "convert", "explain", "info")


@contextmanager
def quick_command(folder: Path, prepare: str = "") -> Iterator[Path]:
    """Yield a folder for the path, in which ``ranksvm`` is quick.

    Parameters
    ----------
    folder : Path
        An empty folder.
    prepare : str
        Python code that the server runs first.
    """
    sockets = tempfile.mkdtemp()  # addresses are short
    address = f"{sockets}/server"
    program = folder / "ranksvm"
    program.write_text(CALL.format(python=sys.executable, address=address), encoding="utf-8")
    program.chmod(0o755)
    code = f"{prepare}\nfrom command_server import serve\nserve({address!r})"
    server = subprocess.Popen([sys.executable, "-c", code], cwd=HERE)
    try:
        while not os.path.exists(address):
            assert server.poll() is None, "the server has ended"
            time.sleep(0.01)
        yield folder
    finally:
        server.kill()
        server.wait()
        shutil.rmtree(sockets)


def serve(address: str) -> None:
    """Wait for calls, for ever."""
    import importlib

    from ranksvm.cli.app import app

    assert app
    for name in COMMANDS:
        importlib.import_module(f"ranksvm.cli.{name}")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the children
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"{address}.new")
    listener.listen()
    os.rename(f"{address}.new", address)
    while True:
        caller, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            _answer(caller)
        caller.close()


def _answer(caller: socket.socket) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    size, streams, _, _ = socket.recv_fds(caller, 8, 3)
    text = b""
    while len(text) < int.from_bytes(size, "big"):
        text += caller.recv(1 << 20)
    child = os.fork()
    if child == 0:
        caller.close()
        _run(*json.loads(text), streams)
    for stream in streams:  # a pipe ends when nobody has it open
        os.close(stream)
    _, status = os.waitpid(child, 0)
    caller.sendall(str(os.waitstatus_to_exitcode(status) & 255).encode())
    os._exit(0)


def _run(
    arguments: list[str], folder: str, environment: dict[str, str], streams: list[int]
) -> None:
    from ranksvm.cli import main

    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", buffering=1, closefd=False)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    code = 0
    try:
        main(arguments)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException as error:
        print(repr(error), file=sys.stderr)
        code = 1
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)
