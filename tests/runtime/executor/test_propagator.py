"""Pending counts, dead tensors and loop frames, driven by hand: no kernel and no
thread takes part.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest

from tfjit.framework.errors import InvalidArgumentError
from tfjit.passes.text.text_format import parse_graph
from tfjit.runtime.executor.propagator import FlowGraph, Propagator
from tfjit.runtime.kernel_api.op_kernel import DEAD

LOOP = """
    start = Const(value=int32<>[0])
    limit = Const(value=int32<>[3])
    one   = Const(value=int32<>[1])
    enter = Enter(start, frame_name=b"loop", is_constant=False, parallel_iterations={parallel})
    bound = Enter(limit, frame_name=b"loop", is_constant=True, parallel_iterations={parallel})
    step  = Enter(one, frame_name=b"loop", is_constant=True, parallel_iterations={parallel})
    merge = Merge(enter, next)
    less  = Less(merge, bound)
    cond  = LoopCond(less)
    switch = Switch(merge, cond)
    body  = Identity(switch:1)
    add   = AddV2(body, step)
    next  = NextIteration(add)
    exit  = Exit(switch)
    after = Identity(exit)
"""


def run(
    text: str, values: dict[str, Any] | None = None, sets_constants: bool = False
) -> tuple[dict[str, list[Any]], Propagator]:
    """Run a graph with a tiny interpreter; returns every value a node produced, DEAD included."""
    graph = parse_graph(text)
    flow = FlowGraph(graph)
    if sets_constants:
        constants = {item.index: item.node for item in flow.roots if item.node.op == "Const"}
        flow.set_constants(
            {
                index: (values or {}).get(node.name, node.attrs["value"].item())
                for index, node in constants.items()
            }
        )
    propagator = Propagator(flow)
    ready = deque(propagator.start())
    seen: dict[str, list[Any]] = {}
    while ready:
        done = ready.popleft()
        item, _, is_dead, inputs = done
        node = item.node
        if item.is_merge:
            out = [DEAD, DEAD] if is_dead else [inputs[0], inputs[1]]
        elif is_dead:
            out = [DEAD] * max(1, len(node.output_dtypes))
        elif node.op == "Const":
            out = [(values or {}).get(node.name, node.attrs["value"].item())]
        elif node.op == "Switch":
            out = [DEAD, inputs[0]] if inputs[1] else [inputs[0], DEAD]
        elif node.op == "Less":
            out = [inputs[0] < inputs[1]]
        elif node.op == "AddV2":
            out = [inputs[0] + inputs[1]]
        elif node.op in ("NoOp", "ControlTrigger"):
            out = []
        else:
            out = [inputs[0]]
        seen.setdefault(node.name, []).append(out[0] if out else None)
        propagator.finish(done, out, ready)
    return seen, propagator


DIAMOND = """
    a = Const(value=int32<>[1])
    b = Const(value=int32<>[2])
    yes = Const(value=bool<>[{taken}])
    sum = AddV2(a, b)
    late = AddV2(sum, b, ^a)
    other = AddV2(a, a, ^late)
    switch = Switch(sum, yes)
    left = AddV2(switch:0, b)
    right = AddV2(b, switch:1)
    merge = Merge(left, right, ^other)
    last = AddV2(merge, a)
"""


@pytest.mark.parametrize(
    "text",
    [LOOP.format(parallel=2), DIAMOND.format(taken="True"), DIAMOND.format(taken="False")],
    ids=["loop", "taken", "not taken"],
)
def test_constants_that_are_set_once_give_the_same_values(text: str) -> None:
    expected, _ = run(text)
    found, propagator = run(text, sets_constants=True)
    assert found == expected and propagator.done


def test_constants_that_are_set_once_have_no_edges_in_a_run() -> None:
    flow = FlowGraph(parse_graph(DIAMOND.format(taken="True")))
    by_name = {item.node.name: item for item in flow.items}
    flow.set_constants({by_name[name].index: name for name in ("a", "b")})
    assert by_name["late"].known == [None, "b"]
    assert [edge[0].node.name for edge in by_name["b"].targets] == ["sum"]
    (alone,) = (is_alone for dst, _, _, is_alone in by_name["b"].targets)
    assert alone  # the last of its inputs starts a node without others


@pytest.mark.parametrize("parallel", [1, 2, 10])
def test_a_loop_counts_to_its_limit(parallel: int) -> None:
    seen, propagator = run(LOOP.format(parallel=parallel))
    assert seen["after"] == [3]
    assert [v for v in seen["add"] if v is not DEAD] == [1, 2, 3]
    assert propagator.done
    assert not propagator._frames  # nothing of the finished loop is kept


def test_a_loop_that_never_enters_its_body() -> None:
    seen, propagator = run(LOOP.format(parallel=10), {"start": 7})
    assert seen["after"] == [7]
    assert propagator.done


def test_the_untaken_side_of_a_switch_is_dead() -> None:
    seen, propagator = run(
        """
        x = Const(value=int32<>[5])
        p = Const(value=bool<>[True])
        s = Switch(x, p)
        no = Identity(s)
        yes = Identity(s:1)
        m = Merge(no, yes)
        """
    )
    assert seen["no"] == [DEAD]
    assert seen["yes"] == [5]
    assert seen["m"] == [5]
    assert propagator.done


def test_control_edges_carry_deadness_except_into_a_control_trigger() -> None:
    seen, _ = run(
        """
        x = Const(value=int32<>[5])
        p = Const(value=bool<>[False])
        s = Switch(x, p)
        yes = Identity(s:1)
        after = Identity(x, ^yes)
        trigger = ControlTrigger(^yes)
        """
    )
    assert seen["after"] == [DEAD]
    assert seen["trigger"] == [None]


def test_a_loop_on_the_untaken_side_ends_dead() -> None:
    text = LOOP.format(parallel=10).replace(
        "start = Const(value=int32<>[0])",
        """zero = Const(value=int32<>[0])
    p = Const(value=bool<>[False])
    gate = Switch(zero, p)
    start = Identity(gate:1)""",
    )
    seen, propagator = run(text)
    assert seen["after"] == [DEAD]
    assert propagator.done


def test_inputs_from_two_frames_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="inputs from different frames"):
        FlowGraph(
            parse_graph(
                """
                x = Const(value=int32<>[5])
                e = Enter(x, frame_name=b"loop", is_constant=False)
                bad = AddV2(e, x)
                """
            )
        )
