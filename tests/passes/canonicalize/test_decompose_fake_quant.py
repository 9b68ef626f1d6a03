"""Simulated quantization and its gradients by elementwise operations, beside TensorFlow's kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tfjit
from tests.simulated_gpu import simulated_gpu
from tfjit.passes.canonicalize.decompose_fake_quant import decompose_fake_quant
from tfjit.passes.ir.declined import Declined
from tfjit.passes.ir.run_spec import RunSpec
from tfjit.passes.manager.pass_context import PassContext, PassOptions
from tfjit.passes.text.text_format import parse_graph

v1 = tf.compat.v1
ROWS = np.random.default_rng(0).uniform(-3, 3, (5, 7, 4)).astype(np.float32)
LOW = np.array([-1, 0, -0.3, 0], np.float32)
HIGH = np.array([1.7, 2.4, 0.9, 0], np.float32)
ENDS = {"wide": (-1.1, 2.3), "from 0": (0.0, 6.0), "unset": (0.0, 0.0), "above": (0.5, 2.0)}


def by_attrs(x: Any, bits: int, narrow: bool) -> Any:
    options = {"num_bits": bits, "narrow_range": narrow}
    return tf.raw_ops.FakeQuantWithMinMaxArgs(inputs=x, min=-1.25, max=2.0, **options)


def by_scalars(known: bool, low: float, high: float) -> Callable[..., Any]:
    def build(x: Any, bits: int, narrow: bool) -> Any:
        ends = [np.float32(low), np.float32(high)]
        if not known:
            ends = [v1.placeholder_with_default(end, []) for end in ends]
        options = {"num_bits": bits, "narrow_range": narrow}
        return tf.raw_ops.FakeQuantWithMinMaxVars(inputs=x, min=ends[0], max=ends[1], **options)

    return build


def by_channels(x: Any, bits: int, narrow: bool) -> Any:
    ends = [v1.placeholder_with_default(end, [4]) for end in (LOW, HIGH)]
    return tf.raw_ops.FakeQuantWithMinMaxVarsPerChannel(
        inputs=x, min=ends[0], max=ends[1], num_bits=bits, narrow_range=narrow
    )


FORMS: dict[str, Callable[..., Any]] = {
    "attrs": by_attrs,
    "channels": by_channels,
    "known": by_scalars(True, *ENDS["wide"]),
    **{f"variable {name}": by_scalars(False, *ends) for name, ends in ENDS.items()},
}


def build(names: list[str], device: str = "") -> tuple[Any, Any, dict[str, Any]]:
    """Return graph, placeholder and fetches of forms with their gradients."""
    graph, fetches = v1.Graph(), {}
    with graph.as_default(), tf.device(device):
        x = v1.placeholder(tf.float32, ROWS.shape)
        for name in names:
            for bits, narrow in ((8, False), (3, True)):
                y = FORMS[name](x, bits, narrow)
                ends = [end for end in y.op.inputs[1:] if end.op.type != "Const"]
                found = v1.gradients(y * x, [x, *ends])
                fetches[f"{name}, {bits} bits"] = [y, *found]
    return graph, x, fetches


def agree(got: dict[str, Any], wanted: dict[str, Any]) -> None:
    for name, values in wanted.items():
        for index, (a, b) in enumerate(zip(got[name], values, strict=True)):
            assert a.dtype == b.dtype and a.shape == b.shape
            where = f"{name}, {index}"
            if index == 0:
                np.testing.assert_array_equal(a, b, where)
            else:
                np.testing.assert_allclose(a, b, 1e-5, 1e-4, err_msg=where)


def test_values_and_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values are TensorFlow's bit for bit: each operation rounds as the kernel does."""
    graph, x, fetches = build(list(FORMS))
    with v1.Session(graph=graph) as session:
        wanted = session.run(fetches, {x: ROWS})
    for mode in ("off", "eager"):
        monkeypatch.setenv("TFJIT_JIT", mode)
        with tfjit.Session(graph=graph) as session:
            agree(session.run(fetches, {x: ROWS}), wanted)
            plan = session.explain(fetches, {x: ROWS.shape})
            assert not any("FakeQuant" in node.op for node in plan.nodes)


def test_they_are_part_of_a_program_of_a_gpu() -> None:
    graph, x, fetches = build(["known", "channels"], "/GPU:0")
    soft = v1.ConfigProto(allow_soft_placement=True)
    with v1.Session(graph=graph, config=soft) as session:
        wanted = session.run(fetches, {x: ROWS})
    with simulated_gpu(), tfjit.Session(graph=graph) as session:
        for _ in range(2):
            agree(session.run(fetches, {x: ROWS}), wanted)
            assert session.wait_until_compiled(300)
        nodes = session.explain(fetches, {x: ROWS.shape}).nodes
        (program,) = (node.group for node in nodes if node.op == "_Offload")
        assert "by the host" not in program


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("q = FakeQuantWithMinMaxVars(x, v, low)", "ranks of min and max"),
        ("q = FakeQuantWithMinMaxVarsPerChannel(x, v, w)", "channels of x, min and max"),
        ("q = FakeQuantWithMinMaxArgs(x, num_bits=1)", "num_bits"),
        ("q = FakeQuantWithMinMaxArgs(x, min=2.0, max=1.0)", "min is not smaller"),
        ("q = FakeQuantWithMinMaxArgs(x, ^low)", "waits for other nodes"),
    ],
)
def test_what_is_left(text: str, reason: str) -> None:
    graph = parse_graph(
        f"""
        x   = Placeholder() -> float32<2,3>
        low = Placeholder() -> float32<>
        v   = Placeholder() -> float32<3>
        w   = Placeholder() -> float32<2>
        {text}
        """
    )
    context = PassContext(RunSpec((), ("q:0",), ()), PassOptions())
    with pytest.raises(Declined, match=reason):
        decompose_fake_quant(graph, context, graph.node("q"))
