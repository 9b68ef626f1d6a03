"""Collections wait while graphs and plans are made, and come back however the making ends."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Iterator

import pytest

import tfjit
from tfjit.framework.gc_pause import collection_paused


@pytest.fixture(autouse=True)
def _collector_on() -> Iterator[None]:
    gc.enable()
    yield
    gc.enable()


def test_nested_blocks_pause_until_the_last_one_ends() -> None:
    with collection_paused():
        assert not gc.isenabled()
        with collection_paused():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    with collection_paused():
        pass
    assert not gc.isenabled()


def test_blocks_of_other_threads_count() -> None:
    inside, leave = threading.Event(), threading.Event()

    def other() -> None:
        with collection_paused():
            inside.set()
            leave.wait(60)

    thread = threading.Thread(target=other)
    thread.start()
    inside.wait(60)
    with collection_paused():
        leave.set()
        thread.join(60)
        assert not gc.isenabled()
    assert gc.isenabled()


def test_an_error_ends_the_pause() -> None:
    with pytest.raises(ZeroDivisionError), collection_paused():
        raise ZeroDivisionError
    assert gc.isenabled()
    graph = tfjit.Graph()
    with pytest.raises(ValueError), graph.as_default():
        tfjit.import_graph_def(b"\x0a\x02\x0a\x00", name="")
    assert gc.isenabled()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_a_forked_child_collects_whatever_other_threads_were_at() -> None:
    inside, leave = threading.Event(), threading.Event()

    def other() -> None:
        with collection_paused():
            inside.set()
            leave.wait(60)

    thread = threading.Thread(target=other)
    thread.start()
    inside.wait(60)
    child = os.fork()
    if child == 0:
        with collection_paused():
            paused = not gc.isenabled()
        os._exit(0 if paused and gc.isenabled() else 1)
    leave.set()
    thread.join(60)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert gc.isenabled()
