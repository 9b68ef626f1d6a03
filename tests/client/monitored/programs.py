"""Training programs that run on tfjit and on TensorFlow, and what is seen of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow

import tfjit

tf1 = tensorflow.compat.v1


def model(m: Any, resource: bool = True) -> tuple[Any, Any, Any]:
    """Return loss, training operation and placeholder of a small model in the default graph."""
    step = m.train.get_or_create_global_step()
    x = m.placeholder(m.float32, (2,), name="x")
    w = m.get_variable(
        "w", initializer=np.array([1, 2], np.float32), use_resource=resource, dtype=None
    )
    loss = m.reduce_sum(m.square(w - x), name="loss")
    train = m.train.GradientDescentOptimizer(0.1).minimize(loss, global_step=step)
    return loss, train, x


def recording(m: Any, calls: list[Any], name: str = "", **answers: Any) -> Any:
    """Return a hook that notes its calls; answers: before_run's result, or exceptions."""

    class Recording(m.train.SessionRunHook):  # type: ignore[misc, name-defined]
        def begin(self) -> None:
            calls.append((name, "begin", m.get_default_graph().finalized))

        def after_create_session(self, session: Any, coord: Any) -> None:
            calls.append((name, "after_create_session", m.get_default_graph().finalized))

        def before_run(self, run_context: Any) -> Any:
            args = run_context.original_args
            calls.append((name, "before_run", args.feed_dict is None, run_context.stop_requested))
            return answers.get("before_run")

        def after_run(self, run_context: Any, run_values: Any) -> None:
            result = run_values.results
            seen = None if result is None else np.asarray(result).tolist()
            calls.append((name, "after_run", seen))
            if "stop_after" in answers and len(calls) > answers["stop_after"]:
                run_context.request_stop()

        def end(self, session: Any) -> None:
            calls.append((name, "end", session is not None))

    return Recording()


def files(folder: Path) -> list[str]:
    """Return the names of the files, event files by their beginning."""
    return sorted(
        path.name if "tfevents" not in path.name else "events"
        for path in folder.iterdir()
        if path.is_file()
    )


def on_both(program: Callable[[Any, list[Any]], object]) -> list[Any]:
    """Run a program with a list to note in; return what tfjit noted, which TensorFlow did too."""
    seen = []
    for m in (tf1, tfjit):
        noted: list[Any] = []
        with m.Graph().as_default():
            try:
                noted.append(program(m, noted))
            except Exception as error:
                noted.append((type(error).__name__, str(getattr(error, "message", error))))
        seen.append(noted)
    assert seen[1] == seen[0]
    return seen[1]
