"""The runner and the whole order of passes: reports, dumps, switches, failures that name the pass,
long chains, real graphs.
"""

from __future__ import annotations

import logging
import re
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfjit
from tests.passes.reference_run import run_partitions
from tfjit.framework.errors import InternalError, InvalidArgumentError
from tfjit.framework.types import dtypes
from tfjit.passes.ir.dataflow_graph import DataflowGraph
from tfjit.passes.ir.graph_def import COMPOSED, CUSTOM
from tfjit.passes.ir.run_spec import RunSpec
from tfjit.passes.manager import pass_registry
from tfjit.passes.manager.pass_context import ClientRendezvous, DeviceInfo, PassContext, PassOptions
from tfjit.passes.manager.pass_registry import OPTIMIZATIONS, PASSES, SHAPES
from tfjit.passes.manager.pipeline_spec import Pipeline, step_of
from tfjit.passes.manager.steps import Fixpoint
from tfjit.passes.partitioning.place import place_graph
from tfjit.passes.pipeline import build, run_passes
from tfjit.passes.text.text_format import parse_graph
from tfjit.runtime.session import rewriter_config

TEXT = """
    x   = Placeholder(shape=<?,3>)
    one = Const(dtype=float32, value=float32<>[1.0])
    two = Const(dtype=float32, value=float32<>[2.0])
    k   = AddV2(one, two)
    i   = Identity(x)
    a   = Mul(i, one)
    b   = Square(a)
    c   = Square(i)
    d   = AddV2(b, c)
    y   = Mul(d, k)
    s   = Shape(y)
    z   = Exp(a)
"""
GRAPH = [step for step in Pipeline.default().section("graph") if not isinstance(step, Fixpoint)]
UNFUSED = PassOptions(verify=True, over_partitions=False)


def _spec(*fetches: str) -> RunSpec:
    return RunSpec(("x:0",), fetches, (), {"x:0": (dtypes.float32, (5, 3))})


def test_every_pass_in_order_on_one_graph() -> None:
    whole = parse_graph(TEXT)
    partitions, report = build(whole, _spec("y:0", "s:0"), UNFUSED)
    (part,) = partitions
    assert part.device == UNFUSED.client_device
    left = {node.name: node.op for node in part.graph.op_nodes()}
    assert left == {
        "k": "Const",
        "b": "Square",
        "d": "AddV2",
        "y": "Mul",
        "s": "Const",
        "_arg_x_0_0": "_Arg",
        "_retval_y_0_0": "_Retval",
        "_retval_s_0_1": "_Retval",
    }
    x = np.arange(15, dtype=np.float32).reshape(5, 3)
    values = run_partitions(partitions, [x])
    np.testing.assert_array_equal(values[0], (x * x + x * x) * np.float32(3))
    np.testing.assert_array_equal(values[1], [5, 3])
    assert [entry.name for entry in report.passes if not entry.depth] == [
        "extract",
        *(step.name for step in GRAPH),
        "partition",
    ]
    assert report.passes[0].ops_before == 12 and report.passes[-1].ops_after == 8
    assert all(entry.elapsed_us >= 0 for entry in report.passes) and report.elapsed_us > 0
    text = report.format()
    assert (
        "simplify" in text
        and "i: Identity: dropped for '_arg_x_0_0'" in text
        and "c: is 'b'" in text
    )


def test_the_sessions_graph_is_not_changed() -> None:
    whole = parse_graph(TEXT)
    before = whole.to_graph_def().SerializeToString(deterministic=True)
    build(whole, _spec("y:0"), UNFUSED)
    build(whole, _spec("z:0"), UNFUSED)
    assert whole.to_graph_def().SerializeToString(deterministic=True) == before
    assert not any(node.assigned_device for node in whole.op_nodes())


def test_one_input_graph_gives_one_output_byte_for_byte() -> None:
    texts = set()
    for _ in range(3):
        (part,), _ = build(parse_graph(TEXT), _spec("y:0", "s:0"), UNFUSED)
        texts.add(part.graph.to_graph_def().SerializeToString(deterministic=True))
    assert len(texts) == 1


def test_options_leave_passes_out(monkeypatch: pytest.MonkeyPatch) -> None:
    (part,), _ = build(
        parse_graph(TEXT),
        _spec("y:0"),
        PassOptions(pipeline=Pipeline.default().without(*OPTIMIZATIONS), over_partitions=False),
    )
    assert {"i", "a", "k", "one", "two", "c"} <= set(part.graph)
    monkeypatch.setenv("TFJIT_DISABLE", "simplify,prune")
    (part,), report = build(parse_graph(TEXT), _spec("y:0"), UNFUSED)
    assert {"i", "a"} <= set(part.graph) and "one" in part.graph
    assert "z" not in part.graph, "prune is not optional"
    assert "simplify" not in [entry.name for entry in report.passes]


def test_users_own_passes() -> None:
    seen = []

    def look(graph: DataflowGraph, ctx: PassContext) -> None:
        seen.append((ctx.current, graph.num_op_nodes))
        ctx.log("x", "seen")

    _, report = build(
        parse_graph(TEXT),
        _spec("y:0"),
        PassOptions(pipeline=_with(look).after("fuse", look)),
    )
    assert [name for name, _ in seen] == ["look", "look"]
    last = [entry for entry in report.passes if entry.name == "look"][-1]
    assert last.where != "" and last.messages == (("x", "seen"),)


def _with(pass_: Any) -> Pipeline:
    return Pipeline.default().before("inline_functions", pass_)


def test_a_failing_pass_is_named() -> None:
    def broken(graph: DataflowGraph, ctx: PassContext) -> None:
        raise ZeroDivisionError("oops")

    def leaves_a_hole(graph: DataflowGraph, ctx: PassContext) -> None:
        graph.remove_op("b")

    def internal(graph: DataflowGraph, ctx: PassContext) -> None:
        graph.remove_op("_SOURCE")

    def users_fault(graph: DataflowGraph, ctx: PassContext) -> None:
        raise InvalidArgumentError(None, None, "what the user did")

    for pass_, message in (
        (broken, "pass 'broken' failed (test_pipeline.py:N): ZeroDivisionError: oops"),
        (
            leaves_a_hole,
            "after pass 'leaves_a_hole': Node 'd' (AddV2): it takes 2 inputs, but nothing feeds "
            "input [0]",
        ),
        (internal, "pass 'internal': _SOURCE cannot be removed"),
    ):
        with pytest.raises(InternalError) as caught:
            build(
                parse_graph(TEXT),
                _spec("y:0"),
                PassOptions(pipeline=_with(pass_), verify=True),
            )
        assert re.sub(r":\d+\)", ":N)", caught.value.message) == message
    with pytest.raises(InvalidArgumentError, match="^pass 'users_fault': what the user did$"):
        build(parse_graph(TEXT), _spec("y:0"), PassOptions(pipeline=_with(users_fault)))


def test_verify_by_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    def leaves_a_hole(graph: DataflowGraph, ctx: PassContext) -> None:
        graph.remove_op("b")

    monkeypatch.setattr(pass_registry, "_function", lambda home, name: leaves_a_hole)
    monkeypatch.setenv("TFJIT_VERIFY", "0")
    run_passes(parse_graph(TEXT), ("simplify",), PassContext(_spec("y:0")))
    monkeypatch.setenv("TFJIT_VERIFY", "1")
    with pytest.raises(InternalError, match="after pass 'simplify'"):
        run_passes(parse_graph(TEXT), ("simplify",), PassContext(_spec("y:0")))


def test_dumps_can_be_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFJIT_DUMP", str(tmp_path))
    build(parse_graph(TEXT), _spec("y:0"), UNFUSED)
    (folder,) = tmp_path.iterdir()
    files = sorted(path.name for path in folder.iterdir())
    assert files[:3] == ["00_input.txt", "01_lower_feeds.txt", "02_prune.txt"] and files[
        -1
    ].endswith("_partition_CPU_0.txt")
    for path in folder.iterdir():
        if path.name != "00_input.txt":  # its fed placeholder stands without what it shields
            parse_graph(path.read_text()).verify()


def test_log_topic(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv("TFJIT_LOG", "cache,passes")
    with caplog.at_level(logging.WARNING, logger="tfjit.passes"):
        build(parse_graph(TEXT), _spec("y:0"), UNFUSED)
    assert any("simplify: i Identity: dropped" in record.getMessage() for record in caplog.records)


def test_two_devices_give_the_same_values() -> None:
    text = TEXT.replace("b   = Square(a)", "b   = Square(a) @/device:CPU:1").replace(
        "y   = Mul(d, k)", "y   = Mul(d, k) @/device:CPU:1"
    )
    devices = tuple(
        DeviceInfo(f"/job:localhost/replica:0/task:0/device:CPU:{i}", "CPU") for i in (0, 1)
    )
    whole = parse_graph(text)
    options = PassOptions(devices=devices, verify=True, over_partitions=False)
    place_graph(whole, options)
    partitions, _ = build(whole, _spec("y:0", "z:0"), options)
    assert [part.device for part in partitions] == [device.name for device in devices]
    counts = Counter(node.op for part in partitions for node in part.graph.op_nodes())
    assert counts["_Send"] == counts["_Recv"] == 5, (
        "x and k there, a square back, the sum there, y back"
    )
    ids = [node.id for part in partitions for node in part.graph.op_nodes()]
    assert len(ids) == len(set(ids))
    x = np.linspace(-1, 1, 15, dtype=np.float32).reshape(5, 3)
    values = run_partitions(partitions, [x])
    np.testing.assert_allclose(values[0], 6 * x * x, rtol=1e-6)
    np.testing.assert_allclose(values[1], np.exp(x), rtol=1e-6)


def test_partition_by_task_and_distributed_names() -> None:
    devices = tuple(
        DeviceInfo(f"/job:worker/replica:0/task:{t}/device:CPU:{i}", "CPU", 100 + t)
        for t in (0, 1)
        for i in (0, 1)
    )
    whole = parse_graph("""
        x = Placeholder(shape=<2>) @/job:worker/task:0/device:CPU:0
        a = Neg(x) @/job:worker/task:0/device:CPU:1
        b = Exp(a) @/job:worker/task:1/device:CPU:0
        y = Abs(b) @/job:worker/task:1/device:CPU:1
    """)
    options = PassOptions(
        devices=devices,
        location=lambda node: node.assigned_device.partition("/device")[0],
        distributed_names=True,
        verify=True,
        over_partitions=False,
    )
    partitions, _ = build(whole, RunSpec(("x:0",), ("b:0",)), options)
    assert [part.device for part in partitions] == [
        "/job:worker/replica:0/task:0",
        "/job:worker/replica:0/task:1",
    ]
    sends = {
        node.name: node
        for part in partitions
        for node in part.graph.op_nodes()
        if node.op in ("_Send", "_Recv")
    }
    assert set(sends) == {"a_S0", "a_S1", "b_S2", "b_S3"}
    assert (
        sends["a_S0"].attrs["send_device"] == devices[1].name.encode()
        and sends["a_S0"].attrs["recv_device"] == devices[2].name.encode()
    )
    assert sends["b_S3"].attrs["send_device_incarnation"] == 101


LOOP = """
    x = Placeholder(shape=<>)
    e = Enter(x, frame_name=b'loop')
    m = Merge(e, n)
    l = Less(m, m)
    {condition}
    s = Switch(m, c)
    t = Neg(s:1) @/device:CPU:1
    u = Exp(t)
    n = NextIteration(u)
    o = Exit(s)
"""


def test_a_loop_across_devices_has_a_control_loop_on_each() -> None:
    devices = tuple(
        DeviceInfo(f"/job:localhost/replica:0/task:0/device:CPU:{i}", "CPU") for i in (0, 1)
    )
    options = PassOptions(devices=devices, verify=True, over_partitions=False)
    partitions, _ = build(
        parse_graph(LOOP.format(condition="c = LoopCond(l)")), RunSpec(("x:0",), ("o:0",)), options
    )
    for part in partitions:
        receives = [
            node.name for node in part.graph.op_nodes() if node.op in ("_Recv", "_HostRecv")
        ]
        merges = [
            node.name
            for node in part.graph.op_nodes()
            if node.op == "Merge" and node.name.startswith("_cloop")
        ]
        assert receives and len(merges) == 1
        assert all(part.graph.control_inputs(receive) == merges for receive in receives), (
            "each receives once an iteration"
        )
    with pytest.raises(
        InvalidArgumentError, match="A cross-device loop must have a pivot predicate: loop"
    ):
        build(
            parse_graph(LOOP.format(condition="c = Identity(l)")),
            RunSpec(("x:0",), ("o:0",)),
            options,
        )


def test_unplaceable_nodes_fail_only_runs_that_need_them() -> None:
    text = TEXT + "\n    bad = Neg(z) @/device:GPU:3\n    worse = Neg(bad)"
    whole = parse_graph(text)
    place_graph(whole, UNFUSED)
    assert list(whole.unplaced) == ["bad"]
    build(whole, _spec("z:0"), UNFUSED)
    for _ in range(2):
        with pytest.raises(
            InvalidArgumentError,
            match="operation bad: {{node bad}} was explicitly assigned to /device:GPU:3",
        ):
            build(whole, _spec("worse:0"), UNFUSED)
    build(whole, _spec("y:0"), UNFUSED)
    with pytest.raises(InvalidArgumentError, match="operation bad"):
        place_graph(parse_graph(text), PassOptions(strict_placement=True))


def test_placement_is_kept_when_the_graph_grows() -> None:
    devices = tuple(
        DeviceInfo(f"/job:localhost/replica:0/task:0/device:CPU:{i}", "CPU") for i in (0, 1)
    )
    options = PassOptions(devices=devices)
    whole = parse_graph("v = VariableV2(dtype=float32, shape=<2>)")
    place_graph(whole, options)
    assert whole.node("v").assigned_device == devices[0].name
    whole.add_node_op("c", "Const", (), {"dtype": dtypes.float32, "value": np.zeros(2, np.float32)})
    whole.add_node_op("assign", "Assign", [("v", 0), ("c", 0)], device="/device:CPU:1")
    place_graph(whole, options)
    assert whole.node("v").assigned_device == devices[0].name, "a variable keeps its device"
    assert "assign" in whole.unplaced or whole.node("assign").assigned_device == devices[0].name


# ---- size


class _Work:
    """Counts Python function calls: a bound on work that does not depend on how busy the machine
    is.
    """

    def __init__(self) -> None:
        self.calls = 0

    def __enter__(self) -> _Work:
        sys.setprofile(self._count)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _count(self, frame: object, event: str, argument: object) -> None:
        if event == "call":
            self.calls += 1


def _chain(length: int) -> DataflowGraph:
    graph = DataflowGraph()
    graph.add_node_op("x", "Placeholder", (), {"dtype": dtypes.float32})
    last = "x"
    for i in range(length):
        last = graph.add_node_op(
            f"n{i}", ("Neg", "Square", "Tanh", "Identity")[i % 4], [(last, 0)]
        ).name
    graph.tie_ends()
    return graph


def _fan(width: int) -> DataflowGraph:
    graph = DataflowGraph()
    graph.add_node_op("x", "Placeholder", (), {"dtype": dtypes.float32})
    for i in range(width):
        graph.add_node_op(f"m{i}", "Neg" if i % 2 else "Exp", [("x", 0)])
    graph.add_node_op(f"n{width - 1}", "AddN", [(f"m{i}", 0) for i in range(width)])
    graph.tie_ends()
    return graph


def _constants(count: int) -> DataflowGraph:
    graph = DataflowGraph()
    graph.add_node_op("x", "Placeholder", (), {"dtype": dtypes.float32})
    last = "x"
    for i in range(count):
        graph.add_node_op(
            f"c{i}",
            "Const",
            (),
            {"dtype": dtypes.float32, "value": np.float32(i) * np.ones((), np.float32)},
        )
        graph.add_node_op(f"s{i}", "Square", [(f"c{i}", 0)])
        last = graph.add_node_op(f"n{i}", "Mul", [(last, 0), (f"s{i}", 0)]).name
    graph.tie_ends()
    return graph


@pytest.mark.parametrize("make", [_chain, _fan, _constants])
def test_work_is_linear_in_the_size_of_the_graph(make: Callable[[int], DataflowGraph]) -> None:
    calls = []
    for size in (500, 2000):
        whole = make(size)
        with _Work() as work:
            build(
                whole,
                RunSpec(("x:0",), (f"n{size - 1}:0",), (), {"x:0": (dtypes.float32, (4,))}),
                PassOptions(over_partitions=False),
            )
        calls.append(work.calls)
    assert calls[1] < 4.4 * calls[0] and calls[1] < 2000 * 600


def test_a_long_chain_passes_without_recursion() -> None:
    def optimized(length: int) -> DataflowGraph:
        spec = RunSpec(("x:0",), (f"n{length - 1}:0",), (), {"x:0": (dtypes.float32, (4,))})
        (part,), _ = build(_chain(length), spec, PassOptions(over_partitions=False))
        part.graph.verify()
        part.graph.to_graph_def()
        return part.graph

    optimized(8)  # imports what is imported on first use, which takes a deep stack
    frame, depth = sys._getframe(), 0
    while frame is not None:
        frame, depth = frame.f_back, depth + 1  # type: ignore[assignment]
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(depth + 60)
    length = 10_000
    try:
        graph = optimized(length)
    finally:
        sys.setrecursionlimit(limit)
    assert graph.num_op_nodes == length * 3 // 4 + 2
    assert graph.node(f"n{length - 2}").output_shapes == ((4,),)


# ---- real graphs


def _unfused_values(
    graph_file: Path, feeds: dict[str, np.ndarray], fetches: list[str], **options: object
) -> tuple[list[np.ndarray], DataflowGraph]:
    whole = DataflowGraph.from_graph_def(graph_file.read_bytes())
    whole.verify()
    types = {name: (dtypes.as_dtype(value.dtype), value.shape) for name, value in feeds.items()}
    spec = RunSpec(tuple(feeds), tuple(fetches), (), types)
    partitions, _ = build(whole, spec, PassOptions(verify=True, over_partitions=False, **options))  # type: ignore[arg-type]
    values = run_partitions(partitions, list(feeds.values()))
    return [values[index] for index in range(len(fetches))], partitions[0].graph


def test_digits_cnn(demo_dir: Path) -> None:
    data = np.load(demo_dir / "digits.npz")
    images = (
        data["x_test"]
        if "x_test" in data
        else next(data[key] for key in data.files if data[key].ndim == 4)
    )
    images = images[:7].astype(np.float32)
    (logits,), graph = _unfused_values(
        demo_dir / "digits_cnn.pb", {"images:0": images}, ["logits:0"]
    )
    (plain,), _ = _unfused_values(
        demo_dir / "digits_cnn.pb",
        {"images:0": images},
        ["logits:0"],
        pipeline=Pipeline.default().without(*OPTIMIZATIONS),
    )
    np.testing.assert_array_equal(logits, plain)
    assert not any(node.op == "Identity" for node in graph.op_nodes())
    assert all(
        shape is not None and None not in shape
        for node in graph.op_nodes()
        for shape in node.output_shapes
    )


def test_mobilenet_v2(data_dir: Path) -> None:
    data = np.load(data_dir / "mobilenet_v2.npz")
    images = next(data[key] for key in data.files if data[key].ndim == 4)[:1].astype(np.float32)
    outputs = next(data[key] for key in data.files if data[key].ndim == 2)[:1]
    (probs,), graph = _unfused_values(
        data_dir / "mobilenet_v2.pb", {"images:0": images}, ["Identity:0"]
    )
    np.testing.assert_allclose(probs, outputs, rtol=1e-4, atol=1e-6)
    ops = Counter(node.op for node in graph.op_nodes())
    assert ops["Conv2D"] == 35 and ops["DepthwiseConv2dNative"] == 17 and ops["Mul"] == 52
    assert not {"FusedBatchNormV3", "ReadVariableOp", "Identity", "Shape", "Cast"} & set(ops)
    assert all(
        shape is not None and None not in shape
        for node in graph.op_nodes()
        for shape in node.output_shapes
    )


def test_the_order_has_no_repeats_without_reason() -> None:
    for step in (*GRAPH, *Pipeline.default().section("partition")):
        assert step.why or step.name in ("fold_constants", "simplify"), (
            f"{step.name} stands without a reason"
        )


def test_run_passes_on_one_graph() -> None:
    graph = parse_graph(TEXT)
    report = run_passes(graph, GRAPH, PassContext(_spec("y:0"), UNFUSED))
    assert [entry.name for entry in report.passes if not entry.depth] == [
        step.name for step in GRAPH
    ]
    graph.verify()


def test_client_form_through_the_whole_order() -> None:
    device = UNFUSED.client_device
    options = PassOptions(verify=True, over_partitions=False, client=ClientRendezvous(device, 5))
    (part,), _ = build(parse_graph(TEXT), _spec("y:0", "b:0"), options)
    ops = Counter(node.op for node in part.graph.op_nodes())
    assert ops["_Recv"] == 1 and ops["_Send"] == 2 and "_Arg" not in ops and "_Retval" not in ops
    names = {
        node.attrs["tensor_name"] for node in part.graph.op_nodes() if node.op in ("_Recv", "_Send")
    }
    assert names == {b"x:0", b"y:0", b"b:0"}
    assert part.graph.node("_recv_x_0").output_shapes == ((5, 3),) and part.graph.node(
        "y"
    ).output_shapes == ((5, 3),)


def test_every_pass_is_in_a_pipeline_and_every_step_is_registered() -> None:
    assert set(Pipeline.default().names) == set(PASSES)
    for info in PASSES.values():
        assert info.function().__name__ == info.name
        assert info.required or info.group in rewriter_config.OPTIMIZERS or info.at_l0, (
            f"{info.name} has no group"
        )


def test_a_fixpoint_ends_once_nothing_changes() -> None:
    runs: list[int] = []

    def shrink(graph: DataflowGraph, ctx: PassContext) -> None:
        runs.append(graph.num_op_nodes)
        if len(runs) < 3:
            graph.remove_op("z" if len(runs) == 1 else "s")

    graph = parse_graph(TEXT)
    run_passes(graph, (Fixpoint((step_of(shrink),), 9),), PassContext(_spec("y:0"), UNFUSED))
    assert len(runs) == 3 and runs[0] > runs[1] > runs[2]


def test_an_analysis_is_computed_again_only_when_it_has_to_be() -> None:
    graph = parse_graph(TEXT)
    ctx = PassContext(_spec("y:0"), UNFUSED)
    run_passes(graph, ("lower_feeds", "infer_shapes"), ctx)
    complete = all(
        shape is not None and None not in shape
        for node in graph.op_nodes()
        for shape in node.output_shapes
    )
    assert ctx.is_valid(SHAPES, graph)
    run_passes(graph, ("prune",), ctx)
    assert ctx.is_valid(SHAPES, graph) == complete, (
        "shapes that are not all known are inferred again once the graph has changed"
    )
    ctx.invalidate(SHAPES)
    assert not ctx.is_valid(SHAPES, graph)


def test_a_master_leaves_ops_that_tensorflow_lacks_to_its_workers() -> None:
    with tfjit.Graph().as_default() as graph:
        table = tfjit.get_variable("table", initializer=np.ones((9, 2), np.float32))
        ids = tfjit.placeholder(tfjit.int32, [4])
        rows = tfjit.nn.embedding_lookup(table, ids)
        step = tfjit.train.AdamOptimizer().minimize(tfjit.reduce_sum(rows * rows))
        xs = tfjit.constant(np.ones((5, 3), np.float32))
        summed = tfjit.scan(lambda total, x: total + x, xs, name="summed")
    lacking = {"_PaddedUnique", "_GetRow", "_SetRow"}
    spec = RunSpec(fetches=(summed.name,), targets=(step.name,))
    for section, expected in (("graph", lacking), ("cluster", set())):
        options = PassOptions(section=section, over_partitions=False)  # type: ignore[arg-type]
        (part,), _ = build(DataflowGraph.from_graph(graph), spec, options)
        ops = set(part.graph.op_types)
        for function in part.graph.functions.made():
            ops |= set(function.graph.op_types)
        assert ops & (lacking | {*COMPOSED, CUSTOM}) == expected
        assert bool(list(part.graph.functions.made())) == bool(expected)
