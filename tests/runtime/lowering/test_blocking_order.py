"""Blocking nodes as instructions: only where nothing else can run meanwhile."""

from __future__ import annotations

import pytest

from tfjit.passes.text.text_format import parse_graph
from tfjit.runtime.lowering.blocking_order import blocks_in_order

TEXT = """
    a = FIFOQueueV2(component_types=[float32], shapes=[<3>])
    b = FIFOQueueV2(component_types=[float32], shapes=[<3>])
    c = Const(dtype=float32, value=float32<3>[1, 2, 3])
    v = VarHandleOp(dtype=float32, shape=<3>)
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = QueueDequeueV2(a, component_types=[float32])", True),
        (
            "x = QueueDequeueV2(a, component_types=[float32])\n y = Mul(x, c)\n"
            "z = QueueEnqueueV2(b, y, Tcomponents=[float32])",
            True,
        ),
        ("y = Mul(c, c)\n z = QueueEnqueueV2(b, y, Tcomponents=[float32])", True),
        ("y = Mul(c, c)", False),  # nothing waits
        (  # one may unblock the other
            "x = QueueDequeueV2(a, component_types=[float32])\n"
            "z = QueueEnqueueV2(a, c, Tcomponents=[float32])",
            False,
        ),
        (  # the error or effect of another node does not wait
            "x = QueueDequeueV2(a, component_types=[float32])\n y = Mul(c, c)",
            False,
        ),
        (
            "x = QueueDequeueV2(a, component_types=[float32])\n w = AssignVariableOp(v, c)",
            False,
        ),
        (  # an effect between two blocking nodes
            "x = QueueDequeueV2(a, component_types=[float32])\n w = AssignVariableOp(v, x)\n"
            "z = QueueEnqueueV2(b, x, Tcomponents=[float32])",
            False,
        ),
        (
            "x = QueueDequeueV2(a, component_types=[float32])\n w = AssignVariableOp(v, x)\n"
            "z = QueueEnqueueV2(b, x, ^w, Tcomponents=[float32])",
            True,
        ),
    ],
)
def test_order(text: str, expected: bool) -> None:
    assert blocks_in_order(parse_graph(TEXT + text)) is expected


def test_number_of_blocking_nodes() -> None:
    lines = ["x0 = QueueDequeueV2(a, component_types=[float32])"]
    lines += [
        f"x{k} = QueueDequeueV2(a, ^x{k - 1}, component_types=[float32])" for k in range(1, 5)
    ]
    assert blocks_in_order(parse_graph(TEXT + "\n".join(lines[:4])))
    assert not blocks_in_order(parse_graph(TEXT + "\n".join(lines)))
