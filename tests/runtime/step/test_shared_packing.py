"""Operands are packed once for several products; never for one that reads other bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tfjit
import tfjit.compat.v1 as tf1
from tests.runtime.lowered_programs import read, schedule
from tfjit.kernels.registry import Launch, NativeCall, Pointer
from tfjit.kernels.source import KernelSource
from tfjit.runtime.schedule.liveness import Liveness
from tfjit.runtime.step.memory_planner import Interval
from tfjit.runtime.step.shared_packing import MAX_BYTES, SharedPacking

PRODUCTS = """
    lowered feeds=2
    %0: float32<4,4> = feed 0 'x'
    %1: float32<4,4> = feed 1 'y'
    %2: float32<4,4> = handle 'v' resource
    %3: float32<4,4> = read %2 'v/Read'
    %4: float32<4,4> = reference 'a' MatMul(%0, %3)
    %5: float32<4,4> = reference 'b' MatMul(%4, %3)
    %6: float32<4,4> = reference 'c' MatMul(%5, %1)
    %7: float32<4,4> = reference 'd' MatMul(%6, %5)
    %8: float32<4,4> = reference 'e' MatMul(%7, %5)
    runtime 'w' AssignVariableOp(%2, %8)
    %9: float32<4,4> = read %2 'v/Read_1'
    %10: float32<4,4> = reference 'f' MatMul(%8, %9)
    %11: float32<4,4> = reference 'g' MatMul(%10, %9)
    fetch %11
"""


def packing_call(nbytes: int = 64, fills: int | None = 0) -> NativeCall:
    pack = Launch(KernelSource("# pack"), (3, Pointer("in", 1), Pointer("temp", 0)), fills=fills)
    product = Launch(
        KernelSource("# product"), (Pointer("in", 0), Pointer("temp", 0), Pointer("out", 0))
    )
    return NativeCall((pack, product), (), (nbytes,))


def shared(text: str, calls: Any, positions: Any = None) -> tuple[list[str], dict[str, Interval]]:
    """The nodes that pack nothing, and the packed operands by node.

    calls: the call of a node, by name. positions: of nodes, where not one after the other.
    """
    made = read(text)
    chosen = {id(i): calls(i.node.name) for i in made.instructions if i.node.op == "MatMul"}
    packing = SharedPacking(made, Liveness(made, schedule(made), chosen))
    lives = {}
    for number, instruction in enumerate(made.instructions):
        call = chosen.get(id(instruction))
        if call is not None:
            name = instruction.node.name
            position = (positions or {}).get(name, number)
            temps = {0: Interval(64, position, position)}
            temps |= packing.visit(position, instruction, call, temps)
            lives[name] = temps[0]
        packing.passed([instruction])
    nodes = {id(i): i.node.name for i in made.instructions}
    return sorted(nodes[of] for of, number in packing.skipped if number == 0), lives


def test_the_same_bytes_are_packed_once() -> None:
    call = packing_call()
    skipped, lives = shared(PRODUCTS, lambda name: call)
    # after the assignment the variable's value is packed anew
    assert skipped == ["b", "e", "g"]
    assert lives["a"] is lives["b"] and (lives["a"].first, lives["a"].last) == (0, 1)
    assert lives["d"] is lives["e"] and lives["f"] is lives["g"]
    assert len({id(life) for life in lives.values()}) == 4


def test_other_calls_share_nothing() -> None:
    """Another call has other sizes, say."""
    assert shared(PRODUCTS, lambda name: packing_call())[0] == []
    for call in (packing_call(fills=None), packing_call(nbytes=MAX_BYTES + 1)):
        assert shared(PRODUCTS, lambda name, call=call: call)[0] == []


def test_members_of_a_bundle_pack_for_themselves() -> None:
    call = packing_call()
    skipped, lives = shared(PRODUCTS, lambda name: call, {"a": 0, "b": 0})
    assert "b" not in skipped and lives["a"] is not lives["b"]


def test_instructions_of_a_loop_share_nothing() -> None:
    text = """
        lowered feeds=2
        %0: float32<4,4> = feed 0 'x'
        %1: bool<> = feed 1 'p'
        %2: bool<> level=1 from 'l' = move 'l' %1
        %6: float32<4,4> = reference 'before' MatMul(%0, %0)
        loop 'l' While
        test %2
            %3: float32<4,4> = reference 'a' MatMul(%0, %0)
            %4: float32<4,4> = reference 'b' MatMul(%3, %0)
            %2 = move 'l' %1
        repeat
        %5: float32<4,4> = reference 'after' MatMul(%0, %0)
        fetch %5, %6
    """
    call = packing_call()
    assert shared(text, lambda name: call)[0] == ["after"]


def test_values_of_a_step_that_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFJIT_JIT", "eager")
    graph = tf1.Graph()
    start = np.arange(64 * 64, dtype=np.float32).reshape(64, 64) / 4096
    with graph.as_default():
        weights = tf1.get_variable("w", initializer=start, use_resource=True)
        x = tf1.placeholder(tf1.float32, [8, 64])
        y = x
        for _ in range(3):
            y = tf1.matmul(y, weights) * 0.1
        with tf1.control_dependencies([weights.assign_add(tf1.fill([64, 64], tf1.reduce_sum(y)))]):
            changed = weights.read_value()
        z = tf1.matmul(tf1.matmul(x, changed), changed)
    fed = np.random.default_rng(0).standard_normal((8, 64)).astype(np.float32)
    with tfjit.Session(graph=graph) as session:
        session.run(weights.initializer)
        found, kept = session.run([z, y], {x: fed})
        plan = session._runtime_session.plan_cache.plans()[-1]
        (variant,) = plan.variants.values()
        assert variant.step is not None
        assert len(variant.step.layout.placement.skipped) == 3
    wanted = fed.astype(np.float64)
    for _ in range(3):
        wanted = wanted @ start * 0.1
    np.testing.assert_allclose(kept, wanted, rtol=1e-4)
    after = start + wanted.sum()
    np.testing.assert_allclose(found, fed @ after @ after, rtol=1e-3)
