"""Call a function in a forked child of the test's process."""

from __future__ import annotations

import json
import os
import select
import signal
import traceback
from collections.abc import Callable
from typing import Any


def in_child(function: Callable[[], Any], timeout: float = 60) -> Any:
    """Return a function's result, as JSON has it, from a forked child.

    Raises AssertionError with the child's traceback, TimeoutError after `timeout` seconds.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            answer = json.dumps({"result": function()})
        except BaseException:
            answer = json.dumps({"error": traceback.format_exc()})
        os.write(writing, answer.encode())
        os._exit(0)
    os.close(writing)
    try:
        if not select.select([reading], [], [], timeout)[0]:
            os.kill(child, signal.SIGKILL)
            raise TimeoutError(f"the child has not answered within {timeout} s")
        with os.fdopen(reading, closefd=False) as file:
            answer = json.loads(file.read())
    finally:
        os.close(reading)
        os.waitpid(child, 0)
    assert "error" not in answer, answer["error"]
    return answer["result"]
