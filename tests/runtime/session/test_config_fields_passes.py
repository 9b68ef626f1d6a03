"""Test the config fields of passes and compilation."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit
from tests.runtime.covering import covers
from tests.runtime.session.configs import World, X, config, passes, tf1
from tfjit.passes.ir.dataflow_graph import DataflowGraph
from tfjit.passes.manager import user_passes
from tfjit.passes.manager.pass_context import PassContext
from tfjit.passes.manager.pass_registry import PASSES, passes_of_group
from tfjit.runtime.session import rewriter_config

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
            or info.name in ("replicate_constants", "offload")
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

    twice = {"simplify": 2, "fold_constants": 2, "trim_bodies": 2, "drop_control_edges": 2}
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
            mode: str = session._runtime_session.jit
            compiled = (
                session._runtime_session.plan(["x:0"], ["y:0"], [])
                .variant(((2, 3),))
                .compile_done.is_set()
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
            assert session._runtime_session.pass_options().verify is True
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
        assert session._runtime_session.pass_options().verify is False


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
    monkeypatch.setattr(user_passes, "_REGISTERED", {})
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
            tfjit.errors.AlreadyExistsError, match=f"'{name}' is registered already"
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
    assert "pass 'breaks' failed and is left out" in caplog.text and "half done" in caplog.text
    failing = "fail_on_optimizer_errors: true optimizers: ['constfold', 'breaks']"
    with (
        tfjit.Session(graph=world.graph, config=config(text.format(failing))) as session,
        pytest.raises(
            tfjit.errors.InternalError,
            match=r"pass 'breaks' failed \(.*\): RuntimeError: half done",
        ),
    ):
        session.run(world.y, {world.x: X})
