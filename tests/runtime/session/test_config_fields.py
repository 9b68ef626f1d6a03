"""Every field of ConfigProto and RunOptions: in the table, and those that act shown to act, beside
TensorFlow where it acts too.
"""

from __future__ import annotations

import gc
import itertools
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit
from tests.runtime.covering import covers
from tests.runtime.session.configs import World, X, config, tf1
from tfjit import cli
from tfjit.runtime.session.config_fields import FIELDS, describe, message_fields
from tfjit.runtime.session.direct_session_factory import DirectSessionFactory


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
    paths = [(root / "tests" / layer).rglob("test_*.py") for layer in ("runtime", "distributed")]
    for path in itertools.chain.from_iterable(paths):
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
        assert DirectSessionFactory.find("worker 3") is session._runtime_session
        assert session._runtime_session.pool()._name == "tfjit-inter-op-worker 3"
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
