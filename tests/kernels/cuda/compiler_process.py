"""Ask a process that has imported the GPU compiler, which takes a second.

The simulator may be in use in the process of the tests. One process serves all tests of a run, as a
compiler process serves a session.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

# Tests of a kernel's PTX and of its resources compile the same texts.
_SERVER = """
import functools, gc, json, os, sys, traceback
from dataclasses import astuple
from tfjit.kernels.cuda.device.compiler import linked, ptx_of

ptx_of = functools.lru_cache(maxsize=100)(ptx_of)
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # prints must not mix with the answers
for line in sys.stdin:
    wanted, kernels = json.loads(line)
    found = []
    for kernel in kernels:
        try:
            ptx = ptx_of(*kernel)
            found.append(ptx if wanted == "ptx" else astuple(linked(ptx, kernel[-1])[0]))
        except Exception:
            found.append({"error": traceback.format_exc()})
    answers.write(json.dumps(found) + "\\n")
    answers.flush()
    if not gc.get_freeze_count():  # the compiler's objects stay: collections would visit them in vain
        gc.collect()
        gc.freeze()
        gc.set_threshold(20_000, 10, 10)
"""


class _CompilerProcess:
    """Hold the process."""

    def __init__(self) -> None:
        self._errors = tempfile.TemporaryFile(mode="w+")  # noqa: SIM115 - as long as the process
        # the compiler is not there in numba-cuda's own simulator
        environment = {k: v for k, v in os.environ.items() if k != "NUMBA_ENABLE_CUDASIM"}
        self._process = subprocess.Popen(
            [sys.executable, "-c", _SERVER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env=environment,
        )
        atexit.register(self._end)

    def _end(self) -> None:
        self._process.kill()
        self._process.wait()

    def ask(self, request: Any) -> Any:
        """Return the answer to a request; both are JSON.

        Raises AssertionError with the last words of the process.
        """
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:  # the answer is missing, too
            pass
        line = self._process.stdout.readline()
        if not line:
            self._errors.seek(0)
            raise AssertionError(f"the compiler ended: {self._errors.read()[-3000:]}")
        return json.loads(line)


@functools.cache
def _process() -> _CompilerProcess:
    return _CompilerProcess()


def compiled(wanted: str, kernels: Sequence[tuple[str, int, str]]) -> list[Any]:
    """Return the PTX of kernels, or their resources.

    wanted: "ptx" or "resources". kernels: (text, number of arguments, architecture). Raises
    AssertionError with the traceback of the compiler and the text.
    """
    found: list[Any] = _process().ask([wanted, kernels])
    for (text, _, architecture), answer in zip(kernels, found, strict=True):
        failed = isinstance(answer, dict)
        assert not failed, f"{architecture}\n{text}\n{answer['error'][-3000:]}"
    return found
