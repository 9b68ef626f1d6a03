"""Sections that interrupts (Ctrl-C) and forks must not cut in half.

Such a section is the sending of a graph to a runtime session.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from tfjit.framework.graphs.graph import Graph


def uninterrupted(work: Callable[[], None]) -> None:
    """Do the work and raise its errors, without interrupts.

    An interrupt that comes meanwhile is raised at the end. Python raises interrupts in the main
    thread only, so there another thread does the work, and this one waits.
    """
    if threading.current_thread() is not threading.main_thread():
        work()
        return
    failure: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:  # handed to the waiting caller
            failure.append(error)

    thread = threading.Thread(target=run, name="tfjit-extend", daemon=True)
    interrupt: BaseException | None = None
    thread.start()
    while thread.is_alive():
        try:
            thread.join()
        except BaseException as error:
            interrupt = error
    try:
        if failure:
            raise failure.pop()
        if interrupt is not None:
            raise interrupt
    finally:
        interrupt = None  # its traceback holds this frame


def watch_for_forks(extend_lock: object, graph: object) -> None:
    """Make forks wait until no thread sends or changes the graph."""
    from tfjit.runtime.host import fork_safety

    fork_safety.hold(extend_lock, fork_safety.EXTENSION)
    if isinstance(graph, Graph):
        fork_safety.hold(graph._lock, fork_safety.GRAPH)
