"""Placement and partitioning beside TensorFlow's own: the same nodes on the same devices, the same
sends, receives and keys.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from tests.passes.reference_run import run_partitions
from tfjit.framework.errors import InvalidArgumentError
from tfjit.kernels.registry import find_reference
from tfjit.passes.ir.dataflow_graph import DataflowGraph
from tfjit.passes.ir.run_spec import RunSpec
from tfjit.passes.manager.pass_context import DeviceInfo, PassOptions
from tfjit.passes.manager.pass_registry import OPTIMIZATIONS
from tfjit.passes.manager.pipeline_spec import Pipeline
from tfjit.passes.partitioning.partition import Partition
from tfjit.passes.partitioning.place import place_graph
from tfjit.passes.pipeline import build

tf1 = tf.compat.v1

TASK = "/job:localhost/replica:0/task:0"
IGNORED_ATTRS = {"_XlaHasReferenceVars", "_has_manual_control_dependencies"}


@pytest.fixture(autouse=True, scope="module")
def version_1_forms() -> Iterator[None]:
    """Graphs with reference variables and Switch/Merge; what other tests expect of TensorFlow is
    put back.
    """
    resources, control_flow = tf1.resource_variables_enabled(), tf1.control_flow_v2_enabled()
    tf1.disable_resource_variables()
    tf1.disable_control_flow_v2()
    yield
    if resources:
        tf1.enable_resource_variables()
    if control_flow:
        tf1.enable_control_flow_v2()


def _config(devices: int, soft: bool) -> Any:
    """A config without the rewrites that come before partitioning."""
    config = tf1.ConfigProto(device_count={"CPU": devices}, allow_soft_placement=soft)
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    config.graph_options.optimizer_options.opt_level = -1
    return config


def _options(devices: int, soft: bool) -> PassOptions:
    return PassOptions(
        devices=tuple(DeviceInfo(f"{TASK}/device:CPU:{i}", "CPU") for i in range(devices)),
        soft_placement=soft,
        pipeline=Pipeline.default().without(*OPTIMIZATIONS),
        verify=True,
        over_partitions=False,
        partition_counter=itertools.count(),
    )


def _canonical(node: Any) -> tuple[Any, ...]:
    attrs = tuple(
        sorted(
            (key, value.SerializeToString(deterministic=True))
            for key, value in node.attr.items()
            if key not in IGNORED_ATTRS and key != "value"
        )
    )
    data = [text for text in node.input if not text.startswith("^")]
    control = sorted({text for text in node.input if text.startswith("^")})
    return node.name, node.op, tuple(data), tuple(control), node.device, attrs


class Beside:
    """One graph in a TensorFlow session and in our passes."""

    def __init__(
        self,
        make: Callable[[], Any],
        *,
        devices: int = 2,
        soft: bool = False,
        feeds: Sequence[Any] = (),
    ) -> None:
        self.graph = tf.Graph()
        with self.graph.as_default():
            made = make()
        self.feeds: dict[Any, Any] = {}
        fetches = made
        if isinstance(made, tuple):
            fetches, self.feeds = made
        self.fetches = fetches if isinstance(fetches, list) else [fetches]
        self.config, self.options = _config(devices, soft), _options(devices, soft)
        tensors = [fetch for fetch in self.fetches if not isinstance(fetch, tf.Operation)]
        targets = [fetch for fetch in self.fetches if isinstance(fetch, tf.Operation)]
        # the Python session sorts neither, but the C++ one does
        self.spec = RunSpec(
            tuple(sorted(t.name for t in self.feeds)),
            tuple(sorted({t.name for t in tensors})),
            tuple(sorted(o.name for o in targets)),
        )

    def tensorflow(self) -> tuple[list[Any], list[Any]]:
        """(values, partition graphs)."""
        metadata = tf1.RunMetadata()
        with self.graph.as_default(), tf1.Session(config=self.config) as session:
            session.run([op for op in self.graph.get_operations() if op.name.endswith("/Assign")])
            values = session.run(
                self.fetches,
                self.feeds,
                options=tf1.RunOptions(output_partition_graphs=True),
                run_metadata=metadata,
            )
        return values, list(metadata.partition_graphs)

    def ours(self) -> list[Partition]:
        whole = DataflowGraph.from_graph_def(self.graph.as_graph_def())
        place_graph(whole, self.options)
        return build(whole, self.spec, self.options)[0]

    def compare(self) -> None:
        """Assert that partitions agree node by node, and values where reference kernels can run
        them.
        """
        values, theirs = self.tensorflow()
        partitions = self.ours()
        expected = {_canonical(node) for graph in theirs for node in graph.node}
        got = {_canonical(node) for part in partitions for node in part.to_graph_def().node}
        assert got == expected
        graphs = [part.graph for part in partitions]
        ops = {node.op for graph in graphs for node in graph.op_nodes()} - {
            "_Arg",
            "_Retval",
            "_Send",
            "_Recv",
            "_HostSend",
            "_HostRecv",
            "NoOp",
            "Const",
        }
        if any(find_reference(op) is None for op in ops) or any(
            node.is_stateful for g in graphs for node in g.op_nodes() if node.op in ops
        ):
            return
        by_name = {
            t.name: value
            for t, value in zip(self.fetches, values)
            if not isinstance(t, tf.Operation)
        }
        fed = {t.name: np.asarray(value, t.dtype.as_numpy_dtype) for t, value in self.feeds.items()}
        ran = run_partitions(partitions, [fed[name] for name in self.spec.feeds])
        for index, name in enumerate(self.spec.fetches):
            if ran[index].dtype == object:
                np.testing.assert_array_equal(ran[index], by_name[name])
            else:
                np.testing.assert_allclose(ran[index], by_name[name], rtol=1e-6)


def _device(i: int) -> Any:
    return tf1.device(f"/cpu:{i}")


def diamond() -> Any:
    with _device(0):
        a = tf1.placeholder(tf.float32, [None], name="a")
        b = tf1.square(a, name="b")
        c0 = tf1.no_op(name="c0")
    with _device(1):
        c = tf1.add(b, b, name="c")
        d = tf1.multiply(b, c, name="d")
        with tf1.control_dependencies([c0, b.op]):
            e = tf1.negative(d, name="e")
        e2 = tf1.abs(a, name="e2")
    with _device(0):
        f = tf1.add(e, b, name="f")
        with tf1.control_dependencies([e2.op]):
            h = tf1.tanh(f, name="h")
    return [h, d], {a: [1.0, 2.0]}


def shared_constants() -> Any:
    small, large = tf1.constant([1.0] * 16, name="small"), tf1.constant([1.0] * 17, name="large")
    found = []
    for i in (1, 2):
        with _device(i):
            found += [tf1.negative(small, name=f"s{i}"), tf1.negative(large, name=f"l{i}")]
    return found


def waiting_constant() -> Any:
    p = tf1.placeholder_with_default(1.0, [], name="p")
    with tf1.control_dependencies([p.op]):
        c = tf1.constant([1.0, 2.0], name="c")
    with _device(1):
        a = tf1.negative(c, name="a")
    with _device(2):
        return [a, tf1.negative(c, name="b"), tf1.abs(c, name="d")]


def constant_follows_its_consumers() -> Any:
    c = tf1.constant([1.0, 2.0], name="c")
    with _device(1):
        return [tf1.negative(c, name="a"), tf1.abs(c, name="b")]


def identities() -> Any:
    x = tf1.placeholder_with_default([1.0, 2.0], [2], name="x")
    found = []
    for index, (source, readers) in enumerate(
        [(1, (1,)), (1, (2,)), (1, (1, 1)), (1, ()), (None, (1,)), (None, (None,)), (1, (None,))]
    ):
        with tf1.device(None if source is None else f"/cpu:{source}"):
            a = tf1.exp(x, name=f"a{index}")
        i = tf1.identity(a, name=f"i{index}")
        for reader in readers:
            with tf1.device(None if reader is None else f"/cpu:{reader}"):
                found.append(tf1.negative(i, name=f"n{index}"))
        if not readers:
            found.append(i)
    with _device(1):
        last = tf1.negative(tf1.identity(tf1.identity(found[0])), name="chain")
    return [*found, last]


def metadata_follows_its_input() -> Any:
    with _device(1):
        a = tf1.placeholder(tf.float32, [None, 3], name="a")
    return [tf1.shape(a, name="s"), tf1.size(a, name="z"), tf1.negative(a, name="n")], {
        a: np.ones((2, 3), np.float32)
    }


def host_memory_inputs() -> Any:
    with _device(1):
        a = tf1.placeholder(tf.float32, [None, 3], name="a")
        shape = tf1.shape(a, name="shape")
    with _device(0):
        b = tf1.reshape(tf1.ones([6]), shape, name="b")
        text = tf1.placeholder_with_default([b"x", b"y"], [2], name="text")
    with _device(1):
        return [b, tf1.identity(text, name="t2")], {a: np.ones((2, 3), np.float32)}


def reference_variable() -> Any:
    with _device(1):
        v = tf1.get_variable("v", [2], use_resource=False)
    with _device(0):
        assign = tf1.assign(v, [1.0, 2.0], name="assign")
    return assign


def variable_that_leads() -> Any:
    with _device(1):
        v = tf1.get_variable("v", [2], use_resource=False)
    return tf1.assign(v, [1.0, 2.0], name="assign")


def resource_variable() -> Any:
    with _device(1):
        v = tf1.get_variable("v", [2], use_resource=True)
    with _device(0), tf1.control_dependencies([v.assign([1.0, 2.0], read_value=False)]):
        return v.read_value()


def initializer_of_a_resource() -> Any:
    with _device(1):
        v = tf1.get_variable("v", [2], use_resource=True, initializer=tf1.zeros_initializer())
    return v.initializer


def reference_across_devices() -> Any:
    with _device(1):
        v = tf1.get_variable("v", [2], use_resource=False)
        assign = tf1.assign(v, [1.0, 2.0], name="assign")
    with _device(0):
        x = tf1.placeholder_with_default([1.0, 2.0], [2], name="x")
        with tf1.control_dependencies([assign]):
            return tf1.add_n([v._ref(), x, x], name="y")


def colocated() -> Any:
    with _device(1):
        a = tf1.placeholder_with_default([1.0], [1], name="a")
    with tf1.colocate_with(a):
        b = tf1.negative(a, name="b")
    return tf1.abs(b, name="c")


def target_only() -> Any:
    with _device(1):
        a = tf1.placeholder_with_default([1.0], [1], name="a")
    with _device(0), tf1.control_dependencies([a.op]):
        return tf1.no_op(name="n")


def fed_in_the_middle() -> Any:
    x = tf1.placeholder(tf.float32, [4], name="x")
    with _device(1):
        s = tf1.split(x, 2, name="s")
    with _device(0):
        y = tf1.add(s[0], s[1], name="y")
        z = tf1.multiply(s[1], s[1], name="z")
    return [y, z], {x: np.arange(4.0), s[1]: [5.0, 6.0]}


def fed_placeholder_that_is_waited_for() -> Any:
    x = tf1.placeholder(tf.float32, [2], name="x")
    with _device(1), tf1.control_dependencies([x.op]):
        y = tf1.square(x, name="y")
        with _device(2):
            c = tf1.negative(tf1.constant([1.0] * 17, name="c"), name="d")
    return [y, c], {x: [3.0, 4.0]}


def everything_fed() -> Any:
    x = tf1.placeholder(tf.float32, [2], name="x")
    with _device(1):
        y = tf1.square(x, name="y")
        z = tf1.negative(y, name="z")
    return [z], {y: [3.0, 4.0]}


def loop_with_a_body_elsewhere() -> Any:
    x = tf1.placeholder(tf.float32, [], name="x")

    def body(i: Any, a: Any) -> Any:
        with _device(1):
            b = tf1.multiply(a, 2.0, name="b")
        return i + 1, b + 1.0

    with _device(0):
        return tf1.while_loop(lambda i, a: i < 5, body, [tf1.constant(0), x], name="w")[1], {x: 1.0}


def loop_within_a_loop() -> Any:
    x = tf1.placeholder(tf.float32, [], name="x")

    def inner(j: Any, b: Any) -> Any:
        with _device(1):
            c = tf1.multiply(b, 2.0, name="c")
        return j + 1, c + 1.0

    def body(i: Any, a: Any) -> Any:
        return i + 1, tf1.while_loop(lambda j, b: j < 2, inner, [tf1.constant(0), a], name="inner")[
            1
        ]

    with _device(0):
        return tf1.while_loop(lambda i, a: i < 3, body, [tf1.constant(0), x], name="outer")[1], {
            x: 1.0
        }


def loop_over_three_devices() -> Any:
    x = tf1.placeholder(tf.float32, [2], name="x")

    def body(i: Any, a: Any, b: Any) -> Any:
        with _device(1):
            c = tf1.multiply(a, b, name="c")
            d = tf1.add(c, a, name="d")
        with _device(2), tf1.control_dependencies([c]):
            e = tf1.subtract(d, c, name="e")
            f = tf1.negative(a, name="f")
        return i + 1, e, f + d

    return tf1.while_loop(lambda i, a, b: i < 3, body, [tf1.constant(0), x, x], name="w")[1], {
        x: [1.0, 2.0]
    }


def branches() -> Any:
    x = tf1.placeholder(tf.float32, [2], name="x")
    p = tf1.placeholder(tf.bool, [], name="p")

    def yes() -> Any:
        with _device(1):
            return tf1.square(x, name="yes")

    def no() -> Any:
        with _device(2):
            return tf1.negative(x, name="no")

    return tf1.cond(p, yes, no, name="c"), {x: [1.0, 2.0], p: True}


@pytest.mark.parametrize(
    "make",
    [
        loop_with_a_body_elsewhere,
        loop_within_a_loop,
        loop_over_three_devices,
        branches,
        diamond,
        shared_constants,
        waiting_constant,
        constant_follows_its_consumers,
        identities,
        metadata_follows_its_input,
        host_memory_inputs,
        reference_variable,
        variable_that_leads,
        resource_variable,
        initializer_of_a_resource,
        reference_across_devices,
        colocated,
        target_only,
        fed_in_the_middle,
        fed_placeholder_that_is_waited_for,
        everything_fed,
    ],
    ids=lambda make: make.__name__,
)
@pytest.mark.parametrize("soft", [False, True], ids=["hard", "soft"])
def test_partitions_are_tensorflows(make: Callable[[], Any], soft: bool) -> None:
    Beside(make, devices=3, soft=soft).compare()


def _random_graph(seed: int) -> Callable[[], Any]:
    def make() -> Any:
        rng = np.random.default_rng(seed)
        feeds: dict[Any, Any] = {}
        tensors: list[Any] = []

        def spot() -> Any:
            choice = rng.integers(0, 4)
            return tf1.device(f"/cpu:{choice}" if choice < 3 else None)

        for i in range(2):
            with spot():
                x = tf1.placeholder(tf.float32, [4], name=f"x{i}")
            feeds[x] = rng.standard_normal(4).astype(np.float32)
            tensors.append(x)
        # A node with more than eight out-edges keeps them in a hash set in TensorFlow, which then
        # moves them in no fixed order when the node is fed: what may be fed is used sparingly.
        left = dict.fromkeys(tensors, 4)

        def pick() -> Any:
            while True:
                chosen = tensors[rng.integers(0, len(tensors))]
                left.setdefault(chosen, 6)
                if left[chosen]:
                    left[chosen] -= 1
                    return chosen

        for i in range(25):
            # (an op made under a control dependency on x has up to four constants that wait for x
            # as well)
            waits = [pick().op for _ in range(rng.integers(0, 3))] if rng.random() < 0.3 else []
            waits = [op for op in waits if op.type != "Placeholder"]
            with spot(), tf1.control_dependencies(waits):
                kind = rng.integers(0, 7)
                if kind == 0:
                    tensors.append(
                        tf1.constant(rng.standard_normal(4).astype(np.float32), name=f"n{i}")
                    )
                elif kind == 1:
                    tensors.append(tf1.negative(pick(), name=f"n{i}"))
                elif kind == 2:
                    tensors.append(
                        tf1.add_n([pick() for _ in range(rng.integers(1, 4))], name=f"n{i}")
                    )
                elif kind == 3:
                    tensors += [
                        tf1.concat(part, 0)
                        for part in [tf1.split(pick(), 2, name=f"n{i}")]
                        for part in (part, part[::-1])
                    ]
                elif kind == 4:
                    tensors.append(
                        tf1.reshape(pick(), tf1.shape(pick(), name=f"s{i}"), name=f"n{i}")
                    )
                elif kind == 5:
                    with tf1.colocate_with(pick()):
                        tensors.append(tf1.square(pick(), name=f"n{i}"))
                else:
                    tensors.append(tf1.multiply(pick(), pick(), name=f"n{i}"))
        fetches = [tensors[i] for i in sorted({int(j) for j in rng.integers(2, len(tensors), 3)})]
        if rng.random() < 0.5:
            middle = tensors[rng.integers(2, len(tensors))]
            if (
                all(middle is not fetch for fetch in fetches)
                and len(middle.consumers()) + len(middle.op._control_outputs) < 9
            ):
                feeds[middle] = rng.standard_normal(4).astype(np.float32)
        return fetches, feeds

    return make


def _random_loops(seed: int) -> Callable[[], Any]:
    def make() -> Any:
        rng = np.random.default_rng(seed)
        x = tf1.placeholder(tf.float32, [2], name="x")

        def some(tensors: list[Any], count: int) -> list[Any]:
            tensors = list(tensors)
            for _ in range(count):
                left, right = (tensors[rng.integers(0, len(tensors))] for _ in range(2))
                with (
                    _device(int(rng.integers(0, 3))),
                    tf1.control_dependencies([left.op] if rng.random() < 0.2 else []),
                ):
                    tensors.append(
                        tf1.multiply(left, right) if rng.random() < 0.5 else tf1.negative(left)
                    )
            return tensors

        def body(depth: int) -> Callable[..., Any]:
            def inside(i: Any, a: Any, b: Any) -> Any:
                made = some([a, b], int(rng.integers(1, 5)))
                if depth < 2 and rng.random() < 0.6:
                    with (
                        _device(int(rng.integers(0, 3)))
                        if rng.random() < 0.5
                        else tf1.name_scope("here")
                    ):
                        made += tf1.while_loop(
                            lambda i, a, b: i < 2,
                            body(depth + 1),
                            [tf1.constant(0), made[-1], b],
                            name="inner",
                        )[1:]
                return i + 1, made[-1], made[rng.integers(0, len(made))]

            return inside

        start = some([x], 2)
        ends = tf1.while_loop(
            lambda i, a, b: i < 3, body(0), [tf1.constant(0), start[-1], x], name="outer"
        )
        return some(list(ends[1:]), 2)[-1], {x: [1.0, -0.5]}

    return make


@pytest.mark.parametrize("seed", range(25))
def test_random_loops_are_partitioned_as_tensorflow_does(seed: int) -> None:
    Beside(_random_loops(seed), devices=3).compare()


@pytest.mark.parametrize("seed", range(40))
def test_random_graphs_are_partitioned_as_tensorflow_does(seed: int) -> None:
    Beside(_random_graph(seed), devices=3).compare()


# ---- what cannot be placed


def gpu() -> Any:
    with tf1.device("/gpu:7"):
        return tf1.placeholder_with_default(1.0, [], name="p") + 2


def missing_cpu() -> Any:
    with _device(5):
        return tf1.placeholder_with_default(1.0, [], name="p") + 2


def other_job() -> Any:
    with tf1.device("/job:worker/task:1"):
        return tf1.placeholder_with_default(1.0, [], name="p") + 2


def conflicting_colocation() -> Any:
    with _device(1):
        a = tf1.placeholder_with_default(1.0, [], name="a")
    with _device(0):
        b = tf1.negative(a, name="b")
    b.op._set_attr("_class", tf1.AttrValue(list=tf1.AttrValue.ListValue(s=[b"loc:@a"])))
    return b


def malformed() -> Any:
    with _device(0):
        a = tf1.placeholder_with_default(1.0, [], name="a")
    a.op._set_device_from_string("/job:x/bad:0")
    return a + 1


@pytest.mark.parametrize(
    "make", [gpu, missing_cpu, other_job, conflicting_colocation], ids=lambda make: make.__name__
)
def test_placement_errors_are_tensorflows(make: Callable[[], Any]) -> None:
    beside = Beside(make)
    with pytest.raises(tf.errors.InvalidArgumentError) as theirs:
        beside.tensorflow()
    with pytest.raises(InvalidArgumentError) as ours:
        beside.ours()
    # TensorFlow's client puts Python stacks around the session's own message
    message = (
        str(theirs.value).rpartition("Node: ")[2].partition("\n")[2].partition("\n\nOriginal")[0]
    )
    message = message[message.index("Cannot") :] if "Cannot" in message else message
    # what to do stands behind TensorFlow's words
    said = re.sub(r" (This version of tfjit|Other jobs need) [^.]*\.", "", str(ours.value))
    assert re.sub(r"\[\[\{\{node (.*?)\}\}\]\]", r"[[\1]]", said) == re.sub(
        r"\[\[\{\{node (.*?)\}\}\]\]", r"[[\1]]", message.rstrip()
    )


def test_malformed_device() -> None:
    beside = Beside(malformed)
    with pytest.raises(
        tf.errors.InvalidArgumentError,
        match="Malformed device specification '/job:x/bad:0' in node: {name:'a' id:3 op",
    ):
        beside.tensorflow()
    whole = DataflowGraph.from_graph_def(_without_device(beside.graph.as_graph_def(), "a"))
    whole.node("a").device = "/job:x/bad:0"
    with pytest.raises(
        InvalidArgumentError,
        match="Malformed device specification '/job:x/bad:0' in node: {name:'a' id:3 op",
    ):
        build(whole, beside.spec, beside.options)


def _without_device(graph_def: Any, name: str) -> Any:
    """The import would refuse the device before the placer sees it."""
    for node in graph_def.node:
        if node.name == name:
            node.device = ""
    return graph_def


@pytest.mark.parametrize(
    "make", [gpu, missing_cpu, conflicting_colocation], ids=lambda make: make.__name__
)
def test_soft_placement_moves_what_does_not_fit(make: Callable[[], Any]) -> None:
    Beside(make, soft=True).compare()


def test_soft_placement_does_not_change_the_job() -> None:
    beside = Beside(other_job, soft=True)
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="explicitly assigned to /job:worker/task:1"
    ):
        beside.tensorflow()
    with pytest.raises(InvalidArgumentError, match="explicitly assigned to /job:worker/task:1"):
        beside.ours()
