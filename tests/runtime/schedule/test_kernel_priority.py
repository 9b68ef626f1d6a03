"""Missing kernels come in the order of the time that they save; work is predicted from shapes."""

from __future__ import annotations

import pytest

from tests.runtime.lowered_programs import lowered_from
from tfjit.kernels.registry import Launch, NativeCall
from tfjit.kernels.source import KernelSource
from tfjit.passes.analysis.shape_inference import infer_shapes
from tfjit.passes.manager.pass_context import PassContext
from tfjit.passes.text.text_format import parse_graph
from tfjit.runtime.lowering.lowered import Lowered
from tfjit.runtime.schedule import kernel_priority

_TEXT = """
    x = _Arg(index=0) -> float32<1000,1000>
    y = _Arg(index=1) -> float32<3>
    small = Tanh(y)
    large = Tanh(x)
    r0 = _Retval(small, index=0)
    r1 = _Retval(large, index=1)
"""


@pytest.fixture
def lowered() -> Lowered:
    """Two instructions of different work, each with a call of one kernel."""
    made = lowered_from(_TEXT, 2)
    for instruction in made.instructions:
        instruction.call = call(instruction.node.name)
    return made


def call(name: str) -> NativeCall:
    """A call of the kernel of that name."""
    return NativeCall((Launch(KernelSource(name), ()),))


def test_the_kernel_that_saves_most_comes_first(lowered: Lowered) -> None:
    order = kernel_priority.most_valuable_first(lowered, lambda source: False)
    assert [kernel.source.text for kernel in order] == ["large", "small"]
    order = kernel_priority.most_valuable_first(lowered, lambda source: source.text == "large")
    assert [kernel.source.text for kernel in order] == ["small"]


def test_the_share_of_loaded_kernels(lowered: Lowered) -> None:
    shares = [
        kernel_priority.loaded_share(
            lowered.instructions, lambda source, one=one: source.text == one
        )
        for one in ("small", "large")
    ]
    assert 0 < shares[0] < 0.1
    assert sum(shares) == pytest.approx(1.0)
    assert kernel_priority.loaded_share([], lambda source: True) == 0.0


def test_members_serve_where_the_own_kernel_is_missing(lowered: Lowered) -> None:
    (small, _) = lowered.instructions
    assert kernel_priority.loaded_call(small, lambda source: False) is None
    small.unfused = call("members")
    assert kernel_priority.loaded_call(small, lambda s: s.text == "members") is small.unfused
    assert kernel_priority.loaded_call(small, lambda source: True) is small.call


def test_the_heaviest_nodes_of_a_graph_have_known_shapes() -> None:
    graph = parse_graph("""
x = _Arg(index=0) -> float32<1000,1000>
y = _Arg(index=1) -> float32<?,5>
large = Tanh(x)
open = Exp(y)
r0 = _Retval(large, index=0)
r1 = _Retval(open, index=1)
""")
    infer_shapes(graph, PassContext())
    ops = [alike.spec.op for alike in kernel_priority.heaviest_nodes(graph, 8)]
    assert ops[0] == "Tanh"
    assert "Exp" not in ops
    few, many = (kernel_priority.graph_reference_ns(graph, size) for size in (1, 10**6))
    assert many > 2 * few > 2 * kernel_priority.NODE_NS
