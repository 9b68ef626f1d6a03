"""Random graphs through the fuse pass: it stays acyclic, keeps every fetch, and values are those of
the unfused graph.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.passes.fusing import evaluate
from tfjit.kernels.cuda.backend import CudaBackend
from tfjit.kernels.ir.backend import Backend
from tfjit.passes.analysis.shape_inference import infer_shapes
from tfjit.passes.fusion.fuse import fuse
from tfjit.passes.manager.pass_context import PassContext
from tfjit.passes.text.text_format import parse_graph

UNARY = ["Tanh", "Relu", "Neg", "Abs", "Sigmoid", "Relu6", "Identity", "Softmax"]
BINARY = ["AddV2", "Sub", "Maximum", "Minimum", "SquaredDifference"]
FORMS = [
    *["{name} = Softmax({left})"] * 2,
    *["{name}_p = Softmax({left})\n{name} = BatchMatMulV2({name}_p, {right}, adj_y={adjoint})"] * 4,
    *["{name} = BatchMatMulV2({left}, {right}, adj_y={adjoint})"] * 2,
    "{name} = BatchMatMulV2({right}, {left}, adj_x={adjoint})",
    *[f"{{name}} = Transpose({{left}}, {turn})" for turn in ("heads", "inner", "turn")],
    "{name}_flat = Reshape({left}, flat)\n{name} = Reshape({name}_flat, full)",
    "{name}_flat = Reshape({left}, flat)\n{name}_soft = Softmax({name}_flat)\n"
    "{name} = Reshape({name}_soft, full)",
    "{name} = Mul({left}, s)",
    "{name} = AddV2({left}, {right})",
    "{name} = BiasAdd({left}, b)",
    "{name}_mean = Mean({left}, last, keep_dims=True)\n{name} = Sub({left}, {name}_mean)",
    "{name} = Identity({left})",
]
"""Lines of one more value, each of which an attention may hold or border on."""
REDUCTIONS = ["Sum", "Mean", "Max", "Min"]


def random_graph(data: st.DataObject, size: int) -> str:
    """The text of a graph of `size` nodes over [3,4] and what reductions and products
    make of it.
    """
    lines = [
        "x = Placeholder(shape=<3,4>)",
        "z = Placeholder(shape=<3,4>)",
        "b = Placeholder(shape=<4>)",
        "s = Placeholder(shape=<>)",
    ]
    lines += [f"ax{k} = Const(value=int32<1>[{k}])" for k in (0, 1)]
    shapes: dict[str, tuple[int, ...]] = {"x": (3, 4), "z": (3, 4), "b": (4,), "s": ()}
    computed: list[str] = []
    noops: list[str] = []

    def pick(names: list[str]) -> str:
        # late nodes more often, so that chains and diamonds come up
        return data.draw(st.sampled_from(names[-6:] if data.draw(st.booleans()) else names))

    for k in range(size):
        name = f"n{k}"
        names = list(shapes)
        left = pick(names)
        wait = (
            f", ^{pick(noops or computed)}"
            if computed and data.draw(st.integers(0, 7)) == 0
            else ""
        )
        how = data.draw(st.integers(0, 9))
        if how <= 2:
            op = data.draw(st.sampled_from(UNARY))
            if op == "Softmax" and len(shapes[left]) != 2:
                op = "Neg"
            lines.append(f"{name} = {op}({left}{wait})")
            shapes[name] = shapes[left]
        elif how <= 6:
            right = pick([n for n in names if _broadcasts(shapes[n], shapes[left])])
            lines.append(f"{name} = {data.draw(st.sampled_from(BINARY))}({left}, {right}{wait})")
            shapes[name] = tuple(np.broadcast_shapes(shapes[left], shapes[right]))
        elif how == 7 and len(shapes[left]) == 2:
            axis = data.draw(st.integers(0, 1))
            keep = data.draw(st.booleans())
            lines.append(
                f"{name} = {data.draw(st.sampled_from(REDUCTIONS))}({left}, ax{axis}{wait}, "
                f"keep_dims={keep})"
            )
            shapes[name] = (
                *shapes[left][:axis],
                *((1,) if keep else ()),
                *shapes[left][axis + 1 :],
            )
        elif how == 8 and len(shapes[left]) == 2:
            right = pick([n for n in names if len(shapes[n]) == 2])
            transposed = shapes[left][1] != shapes[right][0]
            if transposed and shapes[left][1] != shapes[right][1]:
                lines.append(f"{name} = Neg({left}{wait})")
                shapes[name] = shapes[left]
            else:
                lines.append(f"{name} = MatMul({left}, {right}{wait}, transpose_b={transposed})")
                shapes[name] = (shapes[left][0], shapes[right][0 if transposed else 1])
        else:
            count = int(np.prod(shapes[left]))
            lines.append(f"t{k} = Const(value=int32<1>[{count}])")
            lines.append(f"{name} = Reshape({left}, t{k}{wait})")
            shapes[name] = (count,)
        computed.append(name)
        if data.draw(st.integers(0, 9)) == 0:
            lines.append(f"w{k} = NoOp(^{pick(computed)})")
            noops.append(f"w{k}")
    fetched = data.draw(st.lists(st.sampled_from(computed), min_size=1, max_size=4, unique=True))
    lines += [
        f"y{k} = _Retval({name}, index={k})"
        for k, name in enumerate(dict.fromkeys([*fetched, computed[-1]]))
    ]
    return "\n".join(lines)


def random_products(data: st.DataObject, size: int) -> str:
    """The text of a graph of products, softmaxes and what stands between them in attentions.

    Every value is [10,10,10], so that each may be an operand of each.
    """
    lines = [
        *(f"{name} = Placeholder(shape=<10,10,10>)" for name in ("x", "z", "w")),
        "b = Placeholder(shape=<10>)",
        "s = Placeholder(shape=<>)",
        "heads = Const(value=int32<3>[1, 0, 2])",
        "inner = Const(value=int32<3>[0, 2, 1])",
        "turn = Const(value=int32<3>[2, 0, 1])",
        "flat = Const(value=int32<2>[100, 10])",
        "full = Const(value=int32<3>[10, 10, 10])",
        "last = Const(value=int32<1>[2])",
    ]
    names = ["x", "z", "w"]
    used: set[str] = set()

    for k in range(size):
        # an attention ends where another node needs a value between its products
        left = data.draw(st.sampled_from([*names[-4:], *names[-1:] * 12]))
        right = data.draw(st.sampled_from([*names, *names[:3] * 10]))
        name = f"n{k}"
        form = data.draw(st.sampled_from(FORMS))
        adjoint = data.draw(st.booleans())
        used |= {left, right} if "{right}" in form else {left}
        lines.append(form.format(name=name, left=left, right=right, adjoint=adjoint))
        names.append(name)
    more = data.draw(st.lists(st.sampled_from(names[3:]), max_size=2))
    fetched = dict.fromkeys([*more, *(name for name in names[3:] if name not in used)])
    lines += [f"y{k} = _Retval({name}, index={k})" for k, name in enumerate(fetched)]
    return "\n".join(lines)


def _broadcasts(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    try:
        np.broadcast_shapes(a, b)
    except ValueError:
        return False
    return True


def compare(text: str, native: bool, backend: Backend | None = None) -> None:
    """Fuse and compare every fetch.

    backend: has the rules of fusion; None for the host.
    """
    plain, graph = parse_graph(text), parse_graph(text)
    infer_shapes(plain, PassContext())
    ctx = PassContext()
    if backend is not None:
        ctx.options = replace(ctx.options, backend_of=lambda device: backend)
    infer_shapes(graph, ctx)
    fuse(graph, ctx)
    graph.verify()
    graph.topological_order()
    rng = np.random.default_rng(0)
    feeds: dict[str, Any] = {
        n.name: np.asarray(rng.standard_normal(n.output_shapes[0]), np.float32)
        for n in plain.op_nodes()
        if n.op == "Placeholder"
    }
    before, after = evaluate(plain, feeds, False), evaluate(graph, feeds, native)
    for node in plain.op_nodes():
        if node.op == "_Retval":
            (old,), (new,) = plain.inputs(node.name), graph.inputs(node.name)
            want, got = before[f"{old[0]}:{old[1]}"], after[f"{new[0]}:{new[1]}"]
            assert want.shape == got.shape
            if native:
                np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-4)
            else:
                np.testing.assert_array_equal(got, want)
    waits_before = {n.name: _all_before(plain, n.name) for n in plain.op_nodes() if n.op == "NoOp"}
    for name, earlier in waits_before.items():
        if graph.has_node(name):  # whatever it waited for is still before it
            now = _all_before(graph, name)
            assert earlier & {"x", "z", "b", "s"} <= now


def _all_before(graph: Any, name: str) -> set[str]:
    import networkx as nx

    found: set[str] = nx.ancestors(graph, name)
    return found


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_groups_keep_the_graph_and_its_values(data: st.DataObject) -> None:
    compare(random_graph(data, data.draw(st.integers(2, 30))), native=False)


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_compiled_groups_give_the_same_values(data: st.DataObject) -> None:
    compare(random_graph(data, data.draw(st.integers(2, 12))), native=True)


@pytest.mark.parametrize("backend", [None, CudaBackend()], ids=["CPU", "GPU"])
@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_attentions_keep_the_graph_and_its_values(
    backend: Backend | None, data: st.DataObject
) -> None:
    compare(random_products(data, data.draw(st.integers(6, 24))), native=False, backend=backend)
