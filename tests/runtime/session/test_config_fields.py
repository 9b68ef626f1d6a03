"""Every field of ConfigProto and RunOptions: in the table, and those that act shown to act, beside
TensorFlow where it acts too.
"""

from __future__ import annotations

import gc
import logging
import re
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit
from tests.runtime.covering import covers
from tests.runtime.session.configs import CPU, World, X, config, tf1
from tfjit import cli
from tfjit.passes.ir.dataflow_graph import DataflowGraph
from tfjit.passes.manager.pass_context import PassContext
from tfjit.passes.manager.pass_registry import PASSES, passes_of_group
from tfjit.runtime.host import io_pool
from tfjit.runtime.host.inter_op_pool import Slots
from tfjit.runtime.kernel_api.op_kernel import OpContext
from tfjit.runtime.session import rewriter_config
from tfjit.runtime.session.config_fields import FIELDS, describe, message_fields
from tfjit.runtime.session.direct_session import DirectSession, DirectSessionFactory


def test_the_table_has_every_field_and_no_other() -> None:
    found: dict[str, set[str]] = {}
    for message, field in message_fields():
        found.setdefault(message, set()).add(field.name)
    assert {message: set(fields) for message, fields in FIELDS.items()} == found
    assert all(effect.text for fields in FIELDS.values() for effect in fields.values())
    # TensorFlow's messages have no other fields either
    theirs = {
        f"{m.full_name}.{f.name}"
        for m in walk(tf1.ConfigProto.DESCRIPTOR, tf1.RunOptions.DESCRIPTOR)
        for f in m.fields
    }
    ours = {f"tensorflow.{message}.{name}" for message, names in found.items() for name in names}
    extensions = {
        "session_handle",
        "tensor_fuse",
        "global_io_parallelism_threads",
        "run_graph_mode",
    }
    assert ours - theirs == {f"tensorflow.ConfigProto.{name}" for name in extensions}
    assert theirs <= ours
    numbers = tfjit.ConfigProto.DESCRIPTOR.fields_by_name
    assert sorted(numbers[name].number for name in extensions) == [200, 201, 202, 203]
    # others' extensions, which are parsed and ignored
    assert not any(field.number in range(204, 210) for field in numbers.values())


def walk(*messages: Any) -> list[Any]:
    waiting, seen = list(messages), []
    while waiting:
        message = waiting.pop()
        if message not in seen and message.name != "AttrValue":
            seen.append(message)
            waiting += [
                field.message_type for field in message.fields if field.message_type is not None
            ]
    return seen


def test_every_field_that_acts_has_a_test(root: Path) -> None:
    shown: set[str] = set()
    for path in (root / "tests" / "runtime").rglob("test_*.py"):
        for call in re.findall(
            r"^@covers\((.*?)\)$", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
        ):
            shown.update(re.findall(r'"([\w.]+)"', call))
    acting = {
        f"{message}.{name}"
        for message, fields in FIELDS.items()
        for name, effect in fields.items()
        if effect.acts
    }
    assert acting - shown == set()
    assert shown - acting == set()


def test_the_table_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["config"]) == 0
    text = capsys.readouterr().out
    assert text == describe()
    assert "  +   9 use_per_session_threads: " in text
    assert "  - 201 tensor_fuse: " in text
    assert cli.main(["config", "runoptions.time"]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [
        "",
        "RunOptions",
        "  +   2 timeout_in_ms: " + FIELDS["RunOptions"]["timeout_in_ms"].text,
    ]


@pytest.fixture(scope="module")
def world() -> World:
    return World()


def passes(session: Any, fetch: Any = "y:0") -> list[str]:
    """The passes that ran for a fetch."""
    return [entry.name for entry in session.explain(fetch).report.passes]


# devices and placement


def on_gpu() -> tuple[Any, Any]:
    graph = tf1.Graph()
    with graph.as_default(), tf.device("/gpu:0"):
        z = tf.add(tf.constant(1.0), 2.0, name="z")
    return graph, z


@covers("ConfigProto.allow_soft_placement")
@pytest.mark.parametrize(
    "chosen", [None, tf1.ConfigProto(), tf1.ConfigProto(allow_soft_placement=True)]
)
def test_soft_placement(chosen: Any) -> None:
    graph, z = on_gpu()
    for make, errors in ((tfjit.Session, tfjit.errors), (tf1.Session, tf.errors)):
        with make(graph=graph, config=chosen) as session:
            if chosen is None or chosen.allow_soft_placement:
                assert session.run(z) == 3
            else:
                with pytest.raises(
                    errors.InvalidArgumentError,
                    match="Cannot assign a device for operation z.*CUDA is not enabled",
                ):
                    session.run(z)


@covers("ConfigProto.log_device_placement")
def test_placement_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    lines = []
    for make in (tfjit.Session, tf1.Session):
        world = World()
        with make(graph=world.graph, config=tf1.ConfigProto(log_device_placement=True)) as session:
            world.check(session)
        lines.append(
            sorted(line for line in capfd.readouterr().out.splitlines() if "): /job" in line)
        )
    assert lines[0] == lines[1]
    assert f"y: (AddV2): {CPU}0" in lines[0]


@covers("ConfigProto.device_filters", "ConfigProto.device_count")
def test_filters_never_hide_local_devices(world: World) -> None:
    for make, errors in ((tfjit.Session, tfjit.errors), (tf1.Session, tf.errors)):
        chosen = tf1.ConfigProto(
            device_filters=["/job:ps/task:3"], device_count={"CPU": 2, "FOO": 4}
        )
        with make(graph=world.graph, config=chosen) as session:
            assert [d.name for d in session.list_devices()] == [f"{CPU}0", f"{CPU}1"]
            world.check(session)
        with pytest.raises(errors.InvalidArgumentError, match="Invalid device filter: rubbish!!"):
            make(graph=world.graph, config=tf1.ConfigProto(device_filters=["rubbish!!"]))
        with pytest.raises(
            errors.NotFoundError, match="No CPU devices are available in this process"
        ):
            make(graph=world.graph, config=tf1.ConfigProto(device_count={"CPU": 0}))


@covers("GraphOptions.place_pruned_graph")
def test_only_what_runs_is_placed(
    world: World, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # as TensorFlow: one node that cannot be placed fails every run
    monkeypatch.setenv("TFJIT_STRICT_PLACEMENT", "1")
    graph = tf1.Graph()
    with graph.as_default():
        v = tf1.Variable(2.0, name="v", use_resource=False)
        y = tf.add(v, 1.0, name="y")
        with tf.device("/gpu:7"):
            tf.add(v, 5.0, name="nowhere")
    for make, errors in ((tfjit.Session, tfjit.errors), (tf1.Session, tf.errors)):
        chosen = tf1.ConfigProto(log_device_placement=True)
        with (
            make(graph=graph, config=chosen) as session,
            pytest.raises(errors.InvalidArgumentError, match="nowhere"),
        ):
            session.run(v.initializer)
        capfd.readouterr()
        chosen.graph_options.place_pruned_graph = True
        with make(graph=graph, config=chosen) as session:
            session.run(v.initializer)
            assert session.run(y) == 3
            assert "nowhere" not in capfd.readouterr().out
            with pytest.raises(errors.InvalidArgumentError, match="nowhere"):
                session.run("nowhere:0")
            assert session.run(v) == 2
    session = tfjit.InteractiveSession(graph=graph)
    assert session._config.graph_options.place_pruned_graph
    session.run(v.initializer)
    assert session.run(y) == 3
    session.close()


@covers("GraphOptions.infer_shapes")
@pytest.mark.parametrize("own", [False, True])
def test_shapes_are_sent(own: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if own:
        graph: Any = tfjit.Graph()
        with graph.as_default():
            x = tfjit.placeholder(tfjit.float32, [None, 3], name="x")
            y = tfjit.tanh(x, name="y")
    else:
        graph = tf1.Graph()
        with graph.as_default():
            x = tf1.placeholder(tf.float32, [None, 3], name="x")
            y = tf.tanh(x, name="y")
    sent: list[Any] = []
    extend = DirectSession.extend
    monkeypatch.setattr(
        DirectSession,
        "extend",
        lambda session, message: (sent.append(message), extend(session, message)),
    )
    for infer in (False, True):
        sent.clear()
        with tfjit.Session(
            graph=graph, config=config(f"graph_options {{ infer_shapes: {str(infer).lower()} }}")
        ) as session:
            np.testing.assert_allclose(session.run(y, {x: X}), np.tanh(X), rtol=1e-6)
            nodes = {node.name: node for message in sent for node in message.node}
            if infer:
                (shape,) = nodes["y"].attr["_output_shapes"].list.shape
                assert [d.size for d in shape.dim] == [-1, 3]
            assert infer or own or "_output_shapes" not in nodes["y"].attr


# threads


@covers(
    "ConfigProto.intra_op_parallelism_threads", "ConfigProto.Experimental.disable_thread_spinning"
)
def test_threads_of_a_kernel(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TFJIT_THREADS", raising=False)
    for asked in (1, 3):
        with tfjit.Session(
            graph=world.graph, config=config(intra_op_parallelism_threads=asked)
        ) as session:
            assert session._backend.threads == asked
            world.check(session)
    spins = []
    for text in ("", "experimental { disable_thread_spinning: true }"):
        with tfjit.Session(
            graph=world.graph, config=config(text, intra_op_parallelism_threads=2)
        ) as session:
            pool = session._backend.step_environment(f"{CPU}0").pool()
            spins.append(pool.spin_us if pool is not None else None)
            for _ in range(5):
                world.check(session)
    assert spins[0] and spins[1] == 0


@covers(
    "ConfigProto.session_inter_op_thread_pool",
    "ThreadPoolOptionProto.num_threads",
    "ThreadPoolOptionProto.global_name",
    "RunOptions.inter_op_thread_pool",
)
def test_a_big_pool_beside_one_thread_for_low_priority() -> None:
    """Runs of the small pool never take more than its thread, those of the big one never wait for
    them.
    """
    busy, most, lock, hold = [0], [0], threading.Lock(), threading.Event()

    def create(node_def: Any) -> Any:
        if node_def.op != "Sin":
            return None

        def slow(ctx: OpContext, inputs: Sequence[Any]) -> Sequence[Any]:
            with lock:
                busy[0] += 1
                most[0] = max(most[0], busy[0])
            hold.wait(20)
            with lock:
                busy[0] -= 1
            return [np.sin(inputs[0])]

        return slow

    graph = tf1.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [3], name="x")
        slow = tf.sin(x) + tf.sin(x + 1.0)
        quick = tf.tanh(x)
        waits = tf1.FIFOQueue(1, [tf.float32], shapes=[[]], name="queue")
        take, put = waits.dequeue(), waits.enqueue(4.0)
    chosen = config(
        "session_inter_op_thread_pool { num_threads: 4 } session_inter_op_thread_pool { "
        "num_threads: 1 global_name: 'low' }"
    )
    low = tfjit.RunOptions(inter_op_thread_pool=1)
    with tfjit.Session(
        graph=graph, config=chosen, options=tfjit.SessionOptions(custom_kernel_creator=create)
    ) as session:
        results: list[Any] = []
        feed = {x: [0.0, 1.0, 2.0]}
        threads = [
            threading.Thread(target=lambda: results.append(session.run(slow, feed, low)))
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        while not busy[0]:
            time.sleep(0.001)
        for _ in range(20):  # while the small pool is full
            np.testing.assert_allclose(session.run(quick, feed), np.tanh([0, 1, 2]), rtol=1e-6)
        assert most[0] == 1
        hold.set()
        for thread in threads:
            thread.join(20)
        assert (len(results), most[0]) == (4, 1)
        np.testing.assert_allclose(results[0], np.sin([0, 1, 2]) + np.sin([1, 2, 3]), rtol=1e-6)
        # a run that only waits gives its thread to the one that it waits for
        waiter = threading.Thread(target=lambda: results.append(session.run(take, options=low)))
        waiter.start()
        time.sleep(0.05)
        session.run(put, options=low)
        waiter.join(20)
        assert results[-1] == 4


def test_slots_come_by_priority_and_survive_interrupts() -> None:
    slots, order = Slots(1), []

    def work(priority: int) -> None:
        slots.take(priority)
        order.append(priority)
        slots.give()

    slots.take()
    threads = []
    for priority in (0, 5, 1, 5):
        thread = threading.Thread(target=work, args=(priority,))
        threads.append(thread)
        thread.start()
        while len(slots._waiting) < len(threads):
            time.sleep(0.001)
    assert not slots.take_free()
    slots.give()
    for thread in threads:
        thread.join(10)
    assert order == [5, 5, 1, 0]
    assert slots.take_free()


@covers(
    "RunOptions.Experimental.use_run_handler_pool",
    "RunOptions.Experimental.RunHandlerPoolOptions.priority",
)
def test_the_pool_of_run_handlers(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    from tfjit.runtime.host import inter_op_pool as pool

    taken: list[int] = []
    slots = pool.run_handler_pool().slots
    assert slots is not None
    take = slots.take
    monkeypatch.setattr(slots, "take", lambda priority=0: (taken.append(priority), take(priority)))
    options = tfjit.RunOptions()
    options.experimental.use_run_handler_pool = True
    options.experimental.run_handler_pool_options.priority = 7
    with tfjit.Session(graph=world.graph) as session:
        for _ in range(3):
            world.check(session, options=options)
        world.check(session)
    assert taken == [7, 7, 7]


@covers(
    "ConfigProto.use_per_session_threads",
    "ConfigProto.inter_op_parallelism_threads",
    "ConfigProto.Experimental.executor_type",
)
def test_where_nodes_run(world: World) -> None:
    def pool(text: str) -> Any:
        with tfjit.Session(graph=world.graph, config=config(text)) as session:
            world.check(session)
            return session._backend.pool(0)

    own = pool("use_per_session_threads: true inter_op_parallelism_threads: 3")
    assert (own.num_threads, own is pool("")) == (3, False)
    assert pool("") is pool("experimental { executor_type: 'DEFAULT' }")
    assert pool("inter_op_parallelism_threads: -1").num_threads == 0
    assert pool("experimental { executor_type: 'SINGLE_THREADED_EXECUTOR' }").num_threads == 0
    text = (
        "No executor factory registered for the given executor type: FOO "
        r"Registered factories are {DEFAULT, , SINGLE_THREADED_EXECUTOR}\."
    )
    unknown = tf1.ConfigProto(experimental=tf1.ConfigProto.Experimental(executor_type="FOO"))
    for make, errors in ((tfjit.Session, tfjit.errors), (tf1.Session, tf.errors)):
        with (
            make(graph=world.graph, config=unknown) as session,
            pytest.raises(errors.NotFoundError, match=text),
        ):
            session.run(world.y, {world.x: X})


@covers("ConfigProto.global_io_parallelism_threads")
def test_file_work_has_threads_of_its_own(tmp_path: Path) -> None:
    graph = tf1.Graph()
    with graph.as_default():
        parts = [tf.constant(np.full((3, i + 1), i, "f4")) for i in range(5)]
        prefixes = [str(tmp_path / f"part{i}" / "ck") for i in range(5)]
        save = [
            tf.raw_ops.SaveV2(prefix=p, tensor_names=[f"t{i}"], shape_and_slices=[""], tensors=[v])
            for i, (p, v) in enumerate(zip(prefixes, parts))
        ]
        merge = tf.raw_ops.MergeV2Checkpoints(
            checkpoint_prefixes=prefixes,
            destination_prefix=str(tmp_path / "all"),
            delete_old_dirs=True,
        )
        back = tf.raw_ops.RestoreV2(
            prefix=str(tmp_path / "all"),
            tensor_names=[f"t{i}" for i in range(5)],
            shape_and_slices=[""] * 5,
            dtypes=[tf.float32] * 5,
        )
    with tfjit.Session(graph=graph, config=config(global_io_parallelism_threads=3)) as session:
        assert session._backend.state.io is io_pool.io_pool(3)
        assert io_pool.io_pool(3).num_threads == 3
        assert io_pool.io_pool(0).num_threads == io_pool.DEFAULT_THREADS
        session.run(save)
        session.run(merge)
        for i, value in enumerate(session.run(back)):
            np.testing.assert_array_equal(value, np.full((3, i + 1), i, "f4"))
    with tf1.Session(graph=graph) as theirs:
        assert len(theirs.run(back)) == 5
    assert any(t.name.startswith("tfjit-io") for t in threading.enumerate())


def test_work_on_files_is_shared_and_fails_in_order() -> None:
    pool = io_pool.IoPool(3, "test-io")
    assert pool.map(lambda i: i * i, range(50)) == [i * i for i in range(50)]
    assert pool.map(lambda i: i, []) == []
    # jobs of a full pool may share out work
    done = threading.Semaphore(0)
    answers: list[list[int]] = []
    for _ in range(6):
        pool.schedule(lambda: (answers.append(pool.map(lambda i: i + 1, range(5))), done.release()))
    for _ in range(6):
        assert done.acquire(timeout=20)
    assert answers == [[1, 2, 3, 4, 5]] * 6

    def fails(i: int) -> int:
        if i >= 2:
            raise ValueError(str(i))
        return i

    with pytest.raises(ValueError, match="2"):
        pool.map(fails, range(6))
    pool.close()


@covers("ConfigProto.operation_timeout_in_ms", "RunOptions.timeout_in_ms")
def test_time_limits_below_zero_are_none(world: World) -> None:
    """Limits that run out are in test_run_options.py."""
    for make in (tfjit.Session, tf1.Session):
        with make(graph=world.graph, config=tf1.ConfigProto(operation_timeout_in_ms=-5)) as session:
            world.check(session)
            world.check(session, options=tf1.RunOptions(timeout_in_ms=-5))
        with make(
            graph=world.graph, config=tf1.ConfigProto(operation_timeout_in_ms=60_000)
        ) as session:
            world.check(session)


# names


@covers(
    "ConfigProto.Experimental.session_metadata", "SessionMetadata.name", "SessionMetadata.version"
)
def test_session_metadata(world: World) -> None:
    def chosen(name: str, version: int) -> Any:
        made = tf1.ConfigProto()
        made.experimental.session_metadata.name, made.experimental.session_metadata.version = (
            name,
            version,
        )
        return made

    for make, errors in ((tfjit.Session, tfjit.errors), (tf1.Session, tf.errors)):
        with pytest.raises(
            errors.InvalidArgumentError, match="Session version shouldn't be negative: "
        ):
            make(graph=world.graph, config=chosen("m", -1))
        first, second = (
            make(graph=world.graph, config=chosen("m", 1)),
            make(graph=world.graph, config=chosen("m", 2)),
        )
        metadata = tf1.RunMetadata()
        world.check(second, options=tf1.RunOptions(), run_metadata=metadata)
        assert (metadata.session_metadata.name, metadata.session_metadata.version) == ("m", 2)
        with pytest.raises(
            errors.InvalidArgumentError,
            match="A session with the same name and version has already been created: ",
        ):
            make(graph=world.graph, config=chosen("m", 1))
        first.close()
        again = make(graph=world.graph, config=chosen("m", 1))
        world.check(again)
        again.close()
        second.close()


@covers("ConfigProto.session_handle")
def test_a_session_has_the_name_that_its_client_gives_it(world: World) -> None:
    chosen = config(
        session_handle="worker 3",
        use_per_session_threads=True,
        inter_op_parallelism_threads=2,
        device_count={"CPU": 2},
    )
    with tfjit.Session(graph=world.graph, config=chosen) as session:
        assert DirectSessionFactory.find("worker 3") is session._backend
        assert session._backend.pool()._name == "tfjit-inter-op-worker 3"
        with pytest.raises(
            tfjit.errors.AlreadyExistsError,
            match="A session with the handle 'worker 3' is open already",
        ):
            tfjit.Session(graph=world.graph, config=chosen)
        world.check(session)
    with pytest.raises(tfjit.errors.NotFoundError, match="No session has the handle 'worker 3'"):
        DirectSessionFactory.find("worker 3")
    tfjit.Session(graph=world.graph, config=chosen).close()
    forgotten = tfjit.Session(graph=world.graph, config=chosen)
    del forgotten
    gc.collect()
    tfjit.Session(graph=world.graph, config=chosen).close()


# what is done to the graph

LOOPS = set(passes_of_group("loop"))
TWICE = [
    "simplify",
    "fold_constants",
    "eliminate_common_subexpressions",
    "drop_control_edges",
    "fuse",
    *LOOPS,
]


@covers(
    "RewriterConfig.constant_folding",
    "RewriterConfig.arithmetic_optimization",
    "RewriterConfig.dependency_optimization",
    "RewriterConfig.common_subgraph_elimination",
    "RewriterConfig.remapping",
    "RewriterConfig.loop_optimization",
    "RewriterConfig.disable_meta_optimizer",
    "RewriterConfig.optimizers",
    "RewriterConfig.meta_optimizer_iterations",
    "RewriterConfig.min_graph_nodes",
    "RewriterConfig.meta_optimizer_timeout_ms",
    "OptimizerOptions.opt_level",
    "OptimizerOptions.do_common_subexpression_elimination",
    "OptimizerOptions.do_constant_folding",
)
@pytest.mark.parametrize(
    ("text", "gone"),
    [
        ("", set()),
        ("rewrite_options { constant_folding: OFF }", {"fold_constants"}),
        ("rewrite_options { arithmetic_optimization: OFF }", {"simplify"}),
        ("rewrite_options { dependency_optimization: OFF }", {"drop_control_edges"}),
        (
            "rewrite_options { common_subgraph_elimination: OFF }",
            {"eliminate_common_subexpressions"},
        ),
        ("rewrite_options { remapping: OFF }", {"fuse"}),
        ("rewrite_options { loop_optimization: OFF }", LOOPS),
        (
            "rewrite_options { disable_meta_optimizer: true }",
            {"simplify", "drop_control_edges", "fuse"},
        ),
        (
            "rewrite_options { optimizers: ['constfold', 'layout', 'remap'] }",
            {"simplify", "drop_control_edges", "eliminate_common_subexpressions", *LOOPS},
        ),
        ("rewrite_options { optimizers: ['arithmetic'] arithmetic_optimization: OFF }", set(TWICE)),
        ("rewrite_options { min_graph_nodes: 100 }", set(TWICE)),
        ("rewrite_options { min_graph_nodes: -1 }", set()),
        ("rewrite_options { meta_optimizer_timeout_ms: 60000 }", set()),
        ("optimizer_options { opt_level: L0 }", set(TWICE)),
        (
            "optimizer_options { opt_level: L0 do_constant_folding: true }",
            set(TWICE) - {"fold_constants"},
        ),
        (
            "optimizer_options { opt_level: L0 do_common_subexpression_elimination: true }",
            set(TWICE) - {"eliminate_common_subexpressions"},
        ),
    ],
)
def test_passes_left_out(world: World, text: str, gone: set[str]) -> None:
    with tfjit.Session(graph=world.graph, config=config(f"graph_options {{ {text} }}")) as session:
        world.check(session)
        assert set(TWICE) - set(passes(session)) == gone


def test_every_optional_pass_belongs_to_one_optimizer() -> None:
    """A pass that is added is turned off with its group, or is listed as one that no group has."""
    for info in PASSES.values():
        assert (
            info.required
            or info.group in rewriter_config.OPTIMIZERS
            or info.name == "replicate_constants"
        ), info.name
    assert {"accumulators", "loop_sums"} <= set(passes_of_group("loop"))


def test_passes_that_run_once_or_out_of_time(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def counted(text: str) -> dict[str, int]:
        with tfjit.Session(
            graph=world.graph, config=config(f"graph_options {{ rewrite_options {{ {text} }} }}")
        ) as session:
            world.check(session)
            ran = passes(session)
            return {name: ran.count(name) for name in TWICE}

    twice = {"simplify": 2, "fold_constants": 2, "trim_bodies": 2}
    assert (
        counted("meta_optimizer_iterations: TWO")
        == counted("")
        == {**dict.fromkeys(TWICE, 1), **twice}
    )
    assert counted("meta_optimizer_iterations: ONE") == dict.fromkeys(TWICE, 1)
    from tfjit.passes.manager import pass_manager

    began = time.perf_counter()
    ticks = iter(range(10**6))
    monkeypatch.setattr(
        pass_manager,
        "time",
        type("Clock", (), {"perf_counter": staticmethod(lambda: began + next(ticks))}),
    )
    assert counted("meta_optimizer_timeout_ms: 1") == dict.fromkeys(TWICE, 0)


@covers(
    "OptimizerOptions.max_folded_constant_in_bytes",
    "OptimizerOptions.global_jit_level",
    "ConfigProto.run_graph_mode",
)
def test_folding_limit_and_when_to_compile(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("TFJIT_JIT", raising=False)
    graph = tf1.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [3], name="x")
        y = tf.add(x, tf.exp(tf.constant([1.0, 2.0, 3.0])), name="y")
    for limit, there in ((8, True), (0, False)):
        text = (
            f"graph_options {{ optimizer_options {{ max_folded_constant_in_bytes: {limit} }} "
            f"rewrite_options {{ remapping: OFF }} }}"
        )
        metadata = tfjit.RunMetadata()
        with tfjit.Session(graph=graph, config=config(text)) as session:
            session.run(y, {x: [0, 0, 0]}, tfjit.RunOptions(output_partition_graphs=True), metadata)
        assert ("Exp" in {node.op for node in metadata.partition_graphs[0].node}) == there

    def jit(text: str, **fields: Any) -> str:
        with tfjit.Session(graph=world.graph, config=config(text, **fields)) as session:
            world.check(session)
            mode: str = session._backend.jit
            compiled = (
                session._backend.plan(["x:0"], ["y:0"], []).variant(((2, 3),)).compile_done.is_set()
            )
            assert compiled or mode == "lazy"
            return mode

    level = "graph_options {{ optimizer_options {{ global_jit_level: {} }} }}"
    assert [jit(level.format(name)) for name in ("DEFAULT", "OFF", "ON_1", "ON_2")] == [
        "lazy",
        "off",
        "eager",
        "eager",
    ]
    assert jit("", run_graph_mode=True) == "eager"
    assert jit(level.format("OFF"), run_graph_mode=True) == "off"
    monkeypatch.setenv("TFJIT_JIT", "lazy")
    assert jit("", run_graph_mode=True) == "lazy"
    monkeypatch.delenv("TFJIT_JIT")
    with caplog.at_level(logging.WARNING, "tfjit.plan"):
        jit("device_count { key: 'CPU' value: 1 }", run_graph_mode=True)
        assert "run_graph_mode" not in caplog.text
        with graph.as_default():
            unknown = tf1.where(tf.greater(x, 0.0), name="unknown")
        with tfjit.Session(graph=graph, config=config(run_graph_mode=True)) as session:
            session.run(unknown, {x: [0, 1, 2]})
    assert "run_graph_mode: the dataflow executor runs plan x:0->unknown:0/: " in caplog.text


@covers("RewriterConfig.debug_stripper", "VerifierConfig.structure_verifier")
def test_debug_operations_go(capfd: pytest.CaptureFixture[str]) -> None:
    graph = tf1.Graph()
    with graph.as_default():
        x = tf1.placeholder(tf.float32, [2], name="x")
        check = tf.raw_ops.Assert(condition=tf.reduce_all(x > 0), data=[x], name="check")
        printed = tf1.Print(x, [x], message="seen ", name="print")
        with tf1.control_dependencies([check]):
            y = tf.identity(tf1.check_numerics(printed, "bad numbers") * 2.0, name="y")
    bad = [-1.0, np.inf]
    text = (
        "graph_options {{ rewrite_options {{ {} inter_optimizer_verifier_config {{ "
        "structure_verifier: ON }} }} }}"
    )
    for stripped in ("debug_stripper: ON", "optimizers: 'debug_stripper'"):
        with tfjit.Session(graph=graph, config=config(text.format(stripped))) as session:
            np.testing.assert_array_equal(session.run(y, {x: bad}), [-2, np.inf])
            assert session._backend.pass_options().verify is True
    assert "seen" not in capfd.readouterr().err
    for kept in ("", "debug_stripper: OFF", "debug_stripper: ON disable_meta_optimizer: true"):
        with (
            tfjit.Session(graph=graph, config=config(text.format(kept))) as session,
            pytest.raises(tfjit.errors.InvalidArgumentError, match="assertion failed|bad numbers"),
        ):
            session.run(y, {x: bad})
    off = (
        "graph_options { rewrite_options { post_optimization_verifier_config { "
        "structure_verifier: OFF } } }"
    )
    with tfjit.Session(graph=graph, config=config(off)) as session:
        session.run(y, {x: [1, 2]})
        assert session._backend.pass_options().verify is False


def test_an_unknown_optimizer_is_an_error_that_lists_the_known_ones(world: World) -> None:
    for text, field in (
        ("optimizers: 'constfolding'", "optimizers"),
        ("custom_optimizers { name: 'constfolding' }", "custom_optimizers"),
    ):
        with pytest.raises(tfjit.errors.InvalidArgumentError) as caught:
            tfjit.Session(
                graph=world.graph,
                config=config(f"graph_options {{ rewrite_options {{ {text} }} }}"),
            )
        assert (
            f"rewrite_options.{field} names 'constfolding', which is no optimizer. Known ones: "
            in caught.value.message
        )
        assert all(
            name in caught.value.message
            for name in ("constfold", "remap", "dependency", "auto_mixed_precision")
        )
    for name in rewriter_config.OPTIMIZERS:
        with tfjit.Session(
            graph=world.graph,
            config=config(f"graph_options {{ rewrite_options {{ optimizers: '{name}' }} }}"),
        ) as session:
            world.check(session)


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Any], None]:
    monkeypatch.setattr(rewriter_config, "_CUSTOM", {})
    return tfjit.register_graph_optimizer


@covers(
    "RewriterConfig.custom_optimizers",
    "RewriterConfig.fail_on_optimizer_errors",
    "RewriterConfig.CustomGraphOptimizer.name",
    "RewriterConfig.CustomGraphOptimizer.parameter_map",
)
def test_custom_optimizers(
    world: World, registered: Callable[[str, Any], None], caplog: pytest.LogCaptureFixture
) -> None:
    def tanh_to(parameters: Any) -> Any:
        op = parameters["op"].decode()

        def replace(graph: DataflowGraph, ctx: PassContext) -> None:
            for node in list(graph.op_nodes()):
                if node.op == "Tanh":
                    graph.change_op(
                        node.name, op, graph.inputs(node.name), {"T": node.output_dtypes[0]}
                    )
                elif node.op == "_Fused":
                    raise AssertionError("graph passes come before fusion")

        return replace

    def breaks(parameters: Any) -> Any:
        def pass_(graph: DataflowGraph, ctx: PassContext) -> None:
            graph.change_op("h", "Sin", graph.inputs("h"), {"T": graph.node("h").output_dtypes[0]})
            raise RuntimeError("half done")

        return pass_

    registered("tanh_to", tanh_to)
    registered("breaks", breaks)
    for name in ("tanh_to", "constfold"):
        with pytest.raises(
            tfjit.errors.AlreadyExistsError, match=f"an optimizer '{name}' is registered already"
        ):
            registered(name, breaks)
    text = "graph_options {{ rewrite_options {{ {} }} }}"
    to_sin = "custom_optimizers { name: 'tanh_to' parameter_map { key: 'op' value { s: 'Sin' } } }"
    with tfjit.Session(graph=world.graph, config=config(text.format(to_sin))) as session:
        np.testing.assert_allclose(session.run(world.y, {world.x: X}), np.sin(X) + 1, rtol=1e-5)
        assert "tanh_to" in passes(session)
    breaking = config(text.format("custom_optimizers { name: 'breaks' }"))
    with (
        caplog.at_level(logging.WARNING, "tfjit.passes"),
        tfjit.Session(graph=world.graph, config=breaking) as session,
    ):
        world.check(session)
    assert (
        "custom optimizer breaks failed and is left out" in caplog.text
        and "half done" in caplog.text
    )
    failing = "fail_on_optimizer_errors: true optimizers: ['constfold', 'breaks']"
    with (
        tfjit.Session(graph=world.graph, config=config(text.format(failing))) as session,
        pytest.raises(
            tfjit.errors.InternalError, match="pass 'breaks' failed: RuntimeError: half done"
        ),
    ):
        session.run(world.y, {world.x: X})


# what a run reports


@covers(
    "ConfigProto.Experimental.disable_output_partition_graphs",
    "RunOptions.output_partition_graphs",
    "DebugOptions.debug_tensor_watch_opts",
)
def test_run_options_that_are_refused(world: World) -> None:
    chosen = tf1.ConfigProto(
        experimental=tf1.ConfigProto.Experimental(disable_output_partition_graphs=True)
    )
    options = tf1.RunOptions(output_partition_graphs=True)
    text = (
        r"RunOptions.output_partition_graphs\(\) is not supported when "
        r"disable_output_partition_graphs is true\."
    )
    for make, errors in ((tfjit.Session, tfjit.errors), (tf1.Session, tf.errors)):
        with make(graph=world.graph, config=chosen) as session:
            with pytest.raises(errors.InvalidArgumentError, match=text):
                session.run(world.y, {world.x: X}, options=options, run_metadata=tf1.RunMetadata())
            world.check(session)
        metadata = tf1.RunMetadata()
        with make(graph=world.graph) as session:
            world.check(session, options=options, run_metadata=metadata)
        assert len(metadata.partition_graphs) == 1
    watch = tfjit.RunOptions()
    watch.debug_options.debug_tensor_watch_opts.add(
        node_name="h", debug_ops=["DebugIdentity"], debug_urls=["file:///tmp/x"]
    )
    with tfjit.Session(graph=world.graph) as session:
        with pytest.raises(
            tfjit.errors.UnimplementedError,
            match=r"RunOptions.debug_options: tfjit has no debugger to watch 'h' with",
        ):
            session.run(world.y, {world.x: X}, watch)
        world.check(session)


@covers("RunOptions.report_tensor_allocations_upon_oom")
def test_a_step_out_of_memory_says_what_it_held() -> None:
    graph = tf1.Graph()
    with graph.as_default():
        n = tf1.placeholder(tf.int64, [2], name="n")
        a = tf1.placeholder(tf.float32, [None], name="a")
        big = tf.tanh(a, name="big")
        with tf1.control_dependencies([big]):
            whole = tf.fill(tf.identity(n), 1.0, name="whole")
    feed = {n: [1 << 20, 1 << 28], a: np.ones(5000, "f4")}
    # one thread, so that `big` runs first: no effect of it needs the control edge, which is dropped
    one_thread = tfjit.ConfigProto(inter_op_parallelism_threads=1, use_per_session_threads=True)
    with tfjit.Session(graph=graph, config=one_thread) as session:
        for options in (None, tf1.RunOptions(report_tensor_allocations_upon_oom=True)):
            with pytest.raises(
                tfjit.errors.ResourceExhaustedError, match="OOM when allocating"
            ) as caught:
                session.run([big, whole], feed, options)
            held = "20000 B from big = Tanh(_arg_a_0_0), output 0: float32[5000]"
            assert (held in caught.value.message) == (options is not None)
