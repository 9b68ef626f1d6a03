"""Control a compiler process from the process that started it."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import queue
import site
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable

from tfjit.framework import settings
from tfjit.kernels.jit import target


def _worker_path() -> str:
    """Return the PYTHONPATH of a worker.

    It holds the inherited path and the other places of tfjit and Numba. tfjit's own place goes
    first: a source tree that this process was started in hides an installed tfjit.
    """
    inherited = [
        os.path.abspath(path) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path
    ]
    usual = {*inherited, *site.getsitepackages(), site.getusersitepackages()}
    for name in ("tfjit", "numba", "llvmlite", "numpy", "numba_cuda", "cuda"):
        spec = importlib.util.find_spec(name)
        for place in (spec.submodule_search_locations or ()) if spec else ():
            folder = os.path.dirname(place)
            # "" means the folder it was started in
            if (folder in sys.path or "" in sys.path) and folder not in usual:
                usual.add(folder)
                inherited.insert(0 if name == "tfjit" else len(inherited), folder)
    return os.pathsep.join(inherited)


def child_environment() -> dict[str, str]:
    """Return the environment variables of a process that compiles kernels."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")
    }
    environment["TFJIT_CPU"] = target.level()  # the variable may have changed since then
    environment["TFJIT_BUILD_ARCHIVE"] = "0"  # a compiler starts no builder
    environment["PYTHONPATH"] = _worker_path()
    # No imports from the current directory. Python 3.10 does not know the variable, so the
    # process starts in the root directory.
    environment["PYTHONSAFEPATH"] = "1"
    return environment


class Worker:
    """One compiler process with a writing and a reading thread."""

    def __init__(
        self,
        answered: Callable[[Worker, dict[str, object]], None],
        ended: Callable[[Worker, int], None],
    ) -> None:
        """Start the process and its threads.

        answered, ended: called on the reading thread; ended gets the exit status.
        """
        self.in_flight: deque[str] = deque()
        self.ready = False  # set once it has imported Numba
        self.fatal = ""  # the reason why it cannot compile anything
        verbose = settings.logs("cache")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tfjit.kernels.jit.compiler"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if verbose else subprocess.DEVNULL,
            env=child_environment(),
            cwd=os.path.abspath(os.sep),
            bufsize=0,  # no buffer objects: their locks would upset interpreter shutdown
            close_fds=True,
            start_new_session=True,  # Ctrl-C in the terminal must not reach the worker.
        )
        self._answered, self._ended = answered, ended
        self._requests: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        # A pipe holds 64 KB, and the process does not read while it imports Numba: writing must not
        # block the caller.
        self._writer = threading.Thread(
            target=self._write, name="tfjit-compiler-requests", daemon=True
        )
        self._writer.start()
        threading.Thread(target=self._read, name="tfjit-compiler-answers", daemon=True).start()

    def send(self, request: dict[str, object]) -> None:
        """Hand over a request.

        If the process has ended, `ended` reports it.
        """
        self._requests.put(json.dumps(request).encode() + b"\n")

    def _write(self) -> None:
        stdin = self.process.stdin
        assert stdin is not None
        with contextlib.suppress(OSError):  # the process has ended
            while (data := self._requests.get()) is not None:
                rest = memoryview(data)
                while rest:
                    rest = rest[os.write(stdin.fileno(), rest) :]
            stdin.close()

    def _read(self) -> None:
        stdout = self.process.stdout
        assert stdout is not None
        pending = b""
        while True:
            try:
                received = os.read(stdout.fileno(), 1 << 20)
            except OSError:
                received = b""
            if not received:
                break
            *lines, pending = (pending + received).split(b"\n")
            for line in lines:
                answer = json.loads(line)
                if "ready" in answer:
                    self.ready = True
                elif "fatal" in answer:
                    self.fatal = answer["fatal"]
                else:
                    self._answered(self, answer)
        returncode = self.process.wait()
        stdout.close()
        self._requests.put(None)
        self._ended(self, returncode)

    def close(self) -> None:
        """Let the process end after its current kernel; called at exit."""
        self._requests.put(None)
        self._writer.join(0.2)
        if not self.in_flight:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(0.2)
        if self.process.returncode is None:
            # It outlives us on purpose: its result serves the next process.
            self.process.returncode = 0
