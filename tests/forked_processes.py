"""Fork processes whose imports are done.

Each is forked from a process that has imported modules and done nothing else. `import tfjit` and
the graph's modules cost a second of processor time, `import tensorflow` four. A test of imports, or
of the state of a process at its very start, starts Python itself.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

# the imports of graphs and runs
LIBRARY = (
    "tfjit.client.session.session",
    "tfjit.runtime.session.direct_session_factory",
    "tfjit.passes.pipeline",
)

# The child leaves the loop, and its program runs at this module's level, so the program ends as one
# that Python started.
_SERVER = """
import gc, importlib, json, os, sys, warnings
for name in sys.argv[1:]:
    importlib.import_module(name)
gc.collect()
gc.freeze()  # else each child copies the pages of all modules when it collects garbage, and at its end
warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)  # the thread of OpenBLAS
print("{}", flush=True)
for line in sys.stdin:
    request = json.loads(line)
    child = os.fork()
    if not child:
        break
    print(json.dumps({"pid": child}), flush=True)
    print(json.dumps({"status": os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}), flush=True)
else:
    os._exit(0)
for number, path, flags in ((0, os.devnull, os.O_RDONLY), (1, request["out"], os.O_WRONLY), (2, request["err"], os.O_WRONLY)):
    os.dup2(os.open(path, flags), number)
os.chdir(request["cwd"])
os.environ.clear()
os.environ.update(request["env"])
sys.argv = request["argv"]
del gc, importlib, json, warnings, name, line, child, number, path, flags, request
if sys.argv[0] == "-c":
    del sys.argv[0]
    code, sys.argv[0], sys.path[0] = sys.argv[0], "-c", ""
    exec(compile(code, "<string>", "exec"), globals())
elif sys.argv[0] == "-m":
    import runpy
    del sys.argv[0]
    sys.path[0] = os.getcwd()
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
else:
    __file__ = sys.argv[0]
    sys.path[0] = os.path.dirname(os.path.abspath(__file__))
    exec(compile(open(__file__).read(), __file__, "exec"), globals())
"""


class ForkedProcesses:
    """Run programs, one after the other, in forks of one process.

    The process has imported `modules`.
    """

    def __init__(self, *modules: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _SERVER, *modules],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
        )
        self._answers = self._process.stdout
        self._pending = b""
        self._answer(120)

    def run(
        self,
        *argv: str | Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        timeout: float = 120,
    ) -> subprocess.CompletedProcess[str]:
        """Run a program as `python ARGV`.

        ARGV is "-c" and a text, "-m" and a module, or a script, and its arguments.

        env: of the process, or additions to this process's environment. Raises TimeoutExpired, as
        subprocess does.
        """
        with tempfile.TemporaryDirectory() as folder:
            out, err = Path(folder, "out"), Path(folder, "err")
            out.touch()
            err.touch()
            words = [str(word) for word in argv]
            request = {
                "argv": words,
                "env": {**os.environ, **(env or {})},
                "cwd": str(cwd or Path.cwd()),
                "out": str(out),
                "err": str(err),
            }
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            child = self._answer(60)["pid"]
            try:
                status = self._answer(timeout)["status"]
            except TimeoutError:
                os.kill(child, signal.SIGKILL)
                self._answer(60)
                raise subprocess.TimeoutExpired(
                    words, timeout, out.read_bytes(), err.read_bytes()
                ) from None
            return subprocess.CompletedProcess(words, status, out.read_text(), err.read_text())

    def close(self) -> None:
        """End the process that programs are forked from."""
        self._process.communicate(timeout=60)

    def _answer(self, timeout: float) -> dict[str, Any]:
        assert self._answers is not None
        while b"\n" not in self._pending:
            if not select.select([self._answers], [], [], timeout)[0]:
                raise TimeoutError
            received = os.read(self._answers.fileno(), 4096)
            assert received, self._process.communicate()[1].decode()
            self._pending += received
        line, self._pending = self._pending.split(b"\n", 1)
        answer: dict[str, Any] = json.loads(line)
        return answer


class StartedProcesses:
    """Run programs where a platform has no fork.

    Each process does its imports.
    """

    def run(
        self,
        *argv: str | Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        timeout: float = 120,
    ) -> subprocess.CompletedProcess[str]:
        """Run a program as `ForkedProcesses` does."""
        command: Sequence[str | Path] = [sys.executable, *argv]
        return subprocess.run(
            command,
            env={**os.environ, **(env or {})},
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )


Processes = ForkedProcesses | StartedProcesses


@contextlib.contextmanager
def processes(*modules: str) -> Iterator[Processes]:
    """Yield a place that runs programs, which find `modules` imported."""
    if not hasattr(os, "fork"):
        yield StartedProcesses()
        return
    made = ForkedProcesses(*modules)
    try:
        yield made
    finally:
        made.close()
