"""Shapes that follow from the variables behind handles."""

from __future__ import annotations

import pytest

from tfjit.framework.types.shape import Shape
from tfjit.passes.analysis.shape_inference import infer_shapes
from tfjit.passes.manager.pass_context import PassContext
from tfjit.passes.text.text_format import parse_graph


@pytest.mark.parametrize(
    ("op", "indices", "attrs", "shape"),
    [
        ("ResourceGather", "<7,2>", "", (7, 2, 3, 4)),
        ("ResourceGather", "<?>", "", (None, 3, 4)),
        ("ResourceGather", "<5,2>", ", batch_dims=1", (5, 2, 4)),
        ("ResourceGather", "<5,2>", ", batch_dims=-1", (5, 2, 4)),
        ("ResourceGatherNd", "<7,2>", "", (7, 4)),
        ("ResourceGatherNd", "<7,?>", "", None),
        ("ResourceGatherNd", "<7,4>", "", None),
    ],
)
def test_rows_of_a_resource_variable(op: str, indices: str, attrs: str, shape: Shape) -> None:
    graph = parse_graph(
        f"""
        v = VarHandleOp(dtype=float32, shape=<5,3,4>)
        i = Placeholder(dtype=int32, shape={indices})
        g = {op}(v, i, dtype=float32{attrs})
        """
    )
    infer_shapes(graph, PassContext())
    assert graph.node("g").output_shapes == (shape,)


@pytest.mark.parametrize(
    ("queue", "dequeue", "shapes"),
    [
        ("shapes=[<3>, <>]", "QueueDequeueV2(h", ((3,), ())),
        ("shapes=[<3>, <>]", "QueueDequeueManyV2(h, n", ((5, 3), (5,))),
        ("shapes=[<3>, <?>]", "QueueDequeueV2(h", ((3,), (None,))),
        ("shapes=[<3>, <>]", "QueueDequeueManyV2(h, m", ((None, 3), (None,))),
        ("shapes=[<3>, <>]", "QueueDequeueUpToV2(h, n", (None, None)),
        ("shapes=[]", "QueueDequeueV2(h", (None, None)),
    ],
)
def test_elements_of_a_queue(queue: str, dequeue: str, shapes: tuple[Shape, ...]) -> None:
    graph = parse_graph(f"""
        q = FIFOQueueV2(component_types=[float32, int32], {queue})
        h = Identity(q)
        n = Const(value=int32<>[5])
        m = Placeholder(dtype=int32, shape=<>)
        y = {dequeue}, component_types=[float32, int32])
    """)
    infer_shapes(graph, PassContext())
    assert graph.node("y").output_shapes == shapes
