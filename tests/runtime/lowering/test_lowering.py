"""Graphs as text in, instructions as text out."""

from __future__ import annotations

import pytest

from tests.runtime.lowered_programs import check_text, lowered_from, read
from tfjit.runtime.lowering.lowering import NotStatic, compilable
from tfjit.runtime.lowering.variable_reads import overwritten_reads

LOOP = """
    n = _Arg(T=int32, index=0) -> int32<>
    x = _Arg(T=float32, index=1) -> float32<3>
    y = StatelessWhile(n, x, x, cond=func'more'{{}}, body=func'step'{{}})
    r = _Retval(y:1, index=0)
    function 'more'{{}} {{
        n = _Arg(T=int32, index=0)
        a = _Arg(index=1)
        b = _Arg(index=2)
        zero = Const(dtype=int32, value=int32<>[0])
        go = Greater(n, zero)
        r = _Retval(go, index=0)
    }}
    function 'step'{{}} {{
        n = _Arg(T=int32, index=0)
        a = _Arg(index=1)
        b = _Arg(index=2)
        one = Const(dtype=int32, value=int32<>[1])
        m = Sub(n, one)
        {body}
        r0 = _Retval(m, index=0)
        r1 = _Retval({a}, index=1)
        r2 = _Retval({b}, index=2)
    }}
"""

VARIABLE = """
    v = {variable}(dtype=float32, shape=<4>)
    x = _Arg(index=0) -> float32<4>
    old = {read}(v)
    w = {assign}(v, x)
    d = Neg({use})
    r = _Retval(d, index=0)
"""
RESOURCE = {"variable": "VarHandleOp", "read": "ReadVariableOp", "assign": "AssignVariableOp"}
REFERENCE = {"variable": "VariableV2", "read": "Identity", "assign": "Assign"}


def test_views_share_memory_and_run_nothing() -> None:
    made = lowered_from(
        """
        x = _Arg(index=0) -> float32<2,3>
        two = Const(dtype=float32, value=float32<>[2.0])
        size = Const(dtype=int32, value=int32<1>[6])
        a = Mul(x, two)
        flat = Reshape(a, size)
        b = Neg(flat)
        r = _Retval(b, index=0)
        s = _Retval(x, index=1)
        """,
        feeds=1,
    )
    check_text(
        made,
        """
        lowered feeds=1
        %0: float32<2,3> = feed 0 'x'
        %1 = const 'two' float32<>[2.0]
        %2 = const 'size' int32<1>[6]
        %3: float32<2,3> = reference 'a' Mul(%0, %1)
        %4: float32<6> = view %3 'flat'
        %5: float32<6> = reference 'b' Neg(%4)
        fetch %5, %0
        """,
    )
    assert made.values[4].root is made.values[3]
    assert {name: how for name, (how, _) in made.kernel_kinds.items()} == {
        "x": "feed",
        "two": "constant",
        "size": "constant",
        "a": "reference",
        "flat": "view",
        "b": "reference",
        "r": "fetch",
        "s": "fetch",
    }


def test_what_no_iteration_changes_stands_in_front_of_the_loop() -> None:
    made = lowered_from(LOOP.format(body="t = Tanh(b)\n        c = Mul(a, t)", a="c", b="b"), 2)
    check_text(
        made,
        """
        lowered feeds=2
        %0: int32<> = feed 0 'n'
        %1: float32<3> = feed 1 'x'
        %4 = const 'zero' int32<>[0]
        %6 = const 'one' int32<>[1]
        %2: int32<> level=1 = move 'y' %0
        %3: float32<3> level=1 = move 'y' %1
        %8: float32<3> = reference 't' Tanh(%1) in 'y/body'
        loop 'y' StatelessWhile
            %5: bool<> = reference 'go' Greater(%2, %4)
        test %5
            %7: int32<> = reference 'm' Sub(%2, %6)
            %9: float32<3> = reference 'c' Mul(%3, %8)
            %2 = move 'y' %7
            %3 = move 'y' %9
        repeat
        fetch %3
        """,
    )


def test_values_that_change_places_are_kept_while_they_do() -> None:
    made = lowered_from(LOOP.format(body="", a="b", b="a"), 2)
    check_text(
        made,
        """
        lowered feeds=2
        %0: int32<> = feed 0 'n'
        %1: float32<3> = feed 1 'x'
        %5 = const 'zero' int32<>[0]
        %7 = const 'one' int32<>[1]
        %2: int32<> level=1 = move 'y' %0
        %3: float32<3> level=1 = move 'y' %1
        %4: float32<3> level=1 = move 'y' %1
        loop 'y' StatelessWhile
            %6: bool<> = reference 'go' Greater(%2, %5)
        test %6
            %8: int32<> = reference 'm' Sub(%2, %7)
            %2 = move 'y' %8
            %9: float32<3> = move 'y' %3
            %3 = move 'y' %4
            %10: float32<3> = view %9 'y'
            %4 = move 'y' %10
        repeat
        fetch %3
        """,
    )


def test_a_branch_gives_its_result_by_copies() -> None:
    made = lowered_from(
        """
        p = _Arg(T=bool, index=0) -> bool<>
        x = _Arg(index=1) -> float32<3>
        y = StatelessIf(p, x, Tout=[float32], then_branch=func'a'{}, else_branch=func'b'{})
        z = Neg(y)
        r = _Retval(z, index=0)
        function 'a'{} {
            x = _Arg(index=0)
            y = Tanh(x)
            r = _Retval(y, index=0)
        }
        function 'b'{} {
            x = _Arg(index=0)
            r = _Retval(x, index=0)
        }
        """,
        feeds=2,
    )
    check_text(
        made,
        """
        lowered feeds=2
        %0: bool<> = feed 0 'p'
        %1: float32<3> = feed 1 'x'
        branch 'y' StatelessIf %0
            %2: float32<3> = reference 'y' Tanh(%1)
            %3: float32<3> = move 'y' %2
        case
            %3 = move 'y' %1
        join
        %4: float32<3> = reference 'z' Neg(%3)
        fetch %4
        """,
    )


def test_a_resource_read_before_a_write_that_the_graph_orders_is_kept() -> None:
    made = lowered_from(VARIABLE.format(**RESOURCE, use="old, ^w"), 1)
    check_text(
        made,
        """
        lowered feeds=1
        %0: float32<4> = handle 'v' resource uninitialised
        %1: float32<4> = feed 0 'x'
        %4: float32<4> = read %0 'old'
        %2: float32<4> = copy 'old' %4
        runtime 'w' AssignVariableOp(%0, %1)
        %3: float32<4> = reference 'd' Neg(%2)
        fetch %3
        """,
    )


def test_a_write_by_rows_does_not_change_the_rows_that_it_reads() -> None:
    """As in TensorFlow, where such an update replaces a resource variable's buffer."""
    made = lowered_from(
        """
        v = VarHandleOp(dtype=float32, shape=<4>)
        i = _Arg(T=int32, index=0) -> int32<4>
        old = ReadVariableOp(v)
        w = ResourceScatterAdd(v, i, old)
        """,
        1,
    )
    check_text(
        made,
        """
        lowered feeds=1
        %0: float32<4> = handle 'v' resource uninitialised
        %1: int32<4> = feed 0 'i'
        %3: float32<4> = read %0 'old'
        %2: float32<4> = copy 'old' %3
        reference 'w' ResourceScatterAdd(%0, %1, %2)
        fetch
        """,
    )


def test_a_write_that_the_graph_leaves_open_comes_last() -> None:
    made = lowered_from(VARIABLE.format(**RESOURCE, use="old"), 1)
    check_text(
        made,
        """
        lowered feeds=1
        %0: float32<4> = handle 'v' resource uninitialised
        %1: float32<4> = feed 0 'x'
        %2: float32<4> = read %0 'old'
        %3: float32<4> = reference 'd' Neg(%2)
        runtime 'w' AssignVariableOp(%0, %1)
        fetch %3
        """,
    )


def test_a_read_of_a_reference_shares_the_memory_that_is_written() -> None:
    made = lowered_from(VARIABLE.format(**REFERENCE, use="old, ^w"), 1)
    check_text(
        made,
        """
        lowered feeds=1
        %0: float32<4> = handle 'v' uninitialised
        %1: float32<4> = feed 0 'x'
        %2: float32<4> = read %0 'old'
        %0 = runtime 'w' Assign(%0, %1)
        %3: float32<4> = reference 'd' Neg(%2)
        fetch %3
        """,
    )


def test_a_fetched_reference_is_read_when_the_step_ends() -> None:
    made = lowered_from(
        "v = VariableV2(dtype=float32, shape=<4>)\nr = _Retval(v, index=0, T=float32)"
    )
    check_text(
        made,
        """
        lowered feeds=0
        %0: float32<4> = handle 'v' uninitialised
        %1: float32<4> = read_at_end %0 'v'
        fetch %1
        """,
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("y = Neg(x)", "the shape of x:0 .* is not known before it runs"),
        (
            "p = _Arg(T=bool, index=1) -> bool<>\ny = Switch(x, p)",
            r"y \(Switch\) is control flow",
        ),
        ("y = Unique(x)", "the shape of"),
        (
            "q = FIFOQueueV2(component_types=[float32])\n"
            "y = QueueDequeueV2(q, component_types=[float32])\n"
            "z = QueueEnqueueV2(q, x, Tcomponents=[float32])",
            "makes a resource|may wait",
        ),
    ],
)
def test_what_cannot_be_lowered_says_why(text: str, reason: str) -> None:
    shape = "" if "Neg" in text else " -> float32<2>"
    with pytest.raises(NotStatic, match=reason):
        lowered_from(f"x = _Arg(index=0){shape}\n{text}\nr = _Retval(y, index=0)", 2)


def test_assignments_that_keep_the_buffer_may_be_compiled() -> None:
    text = """
        lowered feeds=1
        %0: float32<4> = handle 'v' resource{}
        %1: float32<4> = feed 0 'x'
        runtime 'w' AssignVariableOp(%0, %1)
        %2: float32<4> = reference 'y' Neg(%1)
        fetch %2
    """
    assert [i.node.name for i in compilable(read(text.format("")))] == ["w", "y"]
    assert [i.node.name for i in compilable(read(text.format(" uninitialised")))] == ["y"]


def test_reads_that_a_later_iteration_uses_are_overwritten_by_a_write_in_the_loop() -> None:
    from tfjit.runtime.lowering.lowered_parser import parse_lowered

    made = parse_lowered("""
lowered feeds=1
%0: float32<4> = handle 'v' resource
%1: bool<> = feed 0 'p'
%2: float32<4> = read %0 'old'
%3: bool<> level=1 from 'l' = move 'l' %1
loop 'l' While changes variables
test %3
    %4: float32<4> = reference 'y' Neg(%2)
    runtime 'w' AssignVariableOp(%0, %4)
repeat
fetch
""")
    assert overwritten_reads(made) == [made.values[2]]
