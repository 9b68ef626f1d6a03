"""Session managers and Scaffolds beside TensorFlow's."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import tensorflow

import tfjit
from tests.client.monitored.programs import model, on_both
from tfjit.runtime.session.open_sessions import open_sessions

tf1 = tensorflow.compat.v1


@pytest.mark.parametrize("case", ["nothing", "local", "ready", "both", "feeds", "function"])
def test_prepared_sessions(case: str) -> None:
    def program(m: Any, noted: list[Any]) -> Any:
        v = m.get_variable("v", initializer=m.placeholder(m.float32, (), name="value"))
        everything = m.global_variables_initializer()
        missing = m.report_uninitialized_variables()
        arguments: dict[str, Any] = {
            "nothing": {},
            "local": {"local_init_op": m.no_op(), "ready_for_local_init_op": missing},
            "ready": {"ready_op": missing},
        }.get(case, {"ready_op": missing})
        manager = m.train.SessionManager(**arguments)
        feeds = {"value:0": 3.0}
        prepared = {
            "feeds": {"init_op": everything, "init_feed_dict": feeds},
            "function": {"init_fn": lambda session: session.run(everything, feeds)},
            "both": {"init_op": m.no_op(name="mine"), "init_fn": None},
        }.get(case, {"init_op": m.no_op(name="mine")} if case != "nothing" else {})
        session = manager.prepare_session("", **prepared)
        return float(session.run(v))

    on_both(program)


def test_a_manager_needs_a_local_initializer_to_be_ready_for() -> None:
    (error,) = on_both(
        lambda m, noted: m.train.SessionManager(ready_for_local_init_op=m.constant(1, name="c"))
    )
    assert error[0] == "ValueError"


def test_restored_sessions(tmp_path: Path) -> None:
    def program(m: Any, noted: list[Any]) -> None:
        v = m.get_variable("v", initializer=1.0)
        local = m.Variable(5.0, collections=[m.GraphKeys.LOCAL_VARIABLES])
        saver = m.train.Saver([v])
        folder = str(tmp_path / m.__name__.split(".")[0])
        Path(folder).mkdir()
        with m.Session() as session:
            session.run(v.assign(7.0, read_value=False) if hasattr(v, "handle") else v.assign(7.0))
            path = saver.save(session, f"{folder}/x", 3)
        ready = m.report_uninitialized_variables()
        manager = m.train.SessionManager(
            m.local_variables_initializer(), ready, recovery_wait_secs=0.1
        )
        for arguments in (
            {"checkpoint_dir": folder},
            {"checkpoint_filename_with_path": path},
            {"checkpoint_dir": f"{folder}/none", "wait_for_checkpoint": True, "max_wait_secs": 0.2},
            {},
        ):
            session, restored = manager.recover_session("", saver=saver, **arguments)
            noted.append((restored, float(session.run(local))))
            if restored:
                noted.append(float(session.run(v)))
        assert m.train.SessionManager(ready_op=ready).recover_session("", saver, folder)[1] is False
        session = manager.prepare_session("", saver=saver, checkpoint_dir=folder)
        noted.append(float(session.run(v)))
        manager.recover_session("", saver, folder, path)

    on_both(program)


def test_a_waiting_session_ends_with_its_time() -> None:
    def program(m: Any, noted: list[Any]) -> None:
        m.get_variable("v", initializer=1.0)
        manager = m.train.SessionManager(
            ready_op=m.report_uninitialized_variables(), recovery_wait_secs=0.05
        )
        manager.wait_for_session("", max_wait_secs=0.2)

    (error,) = on_both(program)
    assert error == ("DeadlineExceededError", "Session was not ready after waiting 0 secs.")


def test_parts_of_a_scaffold() -> None:
    def program(m: Any, noted: list[Any]) -> Any:
        model(m)
        m.Variable(1.0, collections=[m.GraphKeys.LOCAL_VARIABLES], name="local")
        m.add_to_collection(m.GraphKeys.READY_OP, m.constant([], m.string, name="mine"))
        first = m.train.Scaffold(
            init_feed_dict={"a": 1}, init_fn=lambda s, session: noted.append(s)
        )
        scaffold = m.train.Scaffold(summary_op=m.constant("", name="s"), copy_from_scaffold=first)
        assert scaffold.init_op is None and scaffold.finalize() is scaffold
        scaffold.init_fn(None)
        assert noted.pop() is (scaffold if m is tfjit else first) or m is tf1
        names = [*("init_op", "ready_op", "ready_for_local_init_op", "local_init_op", "summary_op")]
        noted += [getattr(scaffold, name).name for name in names]
        noted += [scaffold.init_feed_dict, scaffold.local_init_feed_dict]
        noted.append(m.get_default_graph().finalized)
        other = m.train.Scaffold().finalize()  # the parts that the graph lists
        noted.append(
            [getattr(other, n) is getattr(scaffold, n) for n in names if n != "summary_op"]
        )
        assert other.saver is scaffold.saver
        return None

    on_both(program)


@pytest.mark.parametrize("key", ["INIT_OP", "SAVERS"])
def test_several_parts_of_a_kind(key: str) -> None:
    for m in (tf1, tfjit):
        with m.Graph().as_default():
            model(m)
            for _ in range(2):
                part = m.train.Saver() if key == "SAVERS" else m.no_op()
                m.add_to_collection(getattr(m.GraphKeys, key), part)
            with pytest.raises(RuntimeError, match="More than one item in") as caught:
                m.train.Scaffold().finalize()
            assert "Please indicate which one to use" in str(caught.value)
            with pytest.raises(TypeError, match="copy_from_scaffold is not a Scaffold instance"):
                m.train.Scaffold(copy_from_scaffold=3)


def test_a_session_creator_is_abstract() -> None:
    for m in (tf1, tfjit):
        with pytest.raises(TypeError, match="abstract"):
            m.train.SessionCreator()


def test_interrupted_waiting_leaves_no_session() -> None:
    """A ready_op that fails is no model that is not ready yet."""
    with tfjit.Graph().as_default():
        x = tfjit.placeholder(tfjit.float32, ())
        manager = tfjit.train.SessionManager(ready_op=x, recovery_wait_secs=0.01)
        before = open_sessions()
        started = time.monotonic()
        with pytest.raises(tfjit.errors.InvalidArgumentError, match="You must feed"):
            manager.wait_for_session("", max_wait_secs=60)
        assert time.monotonic() - started < 30 and open_sessions() == before
