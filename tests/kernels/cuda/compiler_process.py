"""Ask a process that has imported a GPU compiler, which takes a second.

Its simulator may be in use in the process of the tests. One process of each kind serves all tests
of a run, as a compiler process serves a session.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import subprocess
import sys
import tempfile
from typing import Any

_SERVER = """
import gc, json, os, sys, traceback
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # prints must not mix with the answers
for line in sys.stdin:
    try:
        answer = {"result": answer_to(json.loads(line))}
    except Exception:
        answer = {"error": traceback.format_exc()}
    answers.write(json.dumps(answer) + "\\n")
    answers.flush()
    if not gc.get_freeze_count():  # the compiler's objects stay: collections would visit them in vain
        gc.collect()
        gc.freeze()
        gc.set_threshold(20_000, 10, 10)
"""


class CompilerProcess:
    """Hold a process that answers requests by a function of its own."""

    def __init__(self, program: str) -> None:
        """Start the process. program: its text, which defines `answer_to(request)`."""
        self._errors = tempfile.TemporaryFile(mode="w+")  # noqa: SIM115 - as long as the process
        # the compiler is not there in numba-cuda's own simulator
        environment = {k: v for k, v in os.environ.items() if k != "NUMBA_ENABLE_CUDASIM"}
        self._process = subprocess.Popen(
            [sys.executable, "-c", program + _SERVER],
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

        Raises AssertionError with the traceback of the process, or with its last words.
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
        answer = json.loads(line)
        assert "error" not in answer, answer["error"][-3000:]
        return answer["result"]


@functools.cache
def compiler_process(program: str) -> CompilerProcess:
    """Return the process of a program, which is started once."""
    return CompilerProcess(program)
