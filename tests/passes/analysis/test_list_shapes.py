"""What shape inference knows of tensor lists, through loops and branches too."""

from __future__ import annotations

import pytest

from tfjit.framework.types.shape import Shape
from tfjit.passes.analysis.list_shapes import EMPTY, ListShape
from tfjit.passes.analysis.shape_inference import infer_shapes
from tfjit.passes.manager.pass_context import PassContext
from tfjit.passes.text.text_format import parse_graph

HEAD = """
    any = Const(dtype=int32, value=int32<>[-1])
    two = Const(dtype=int32, value=int32<1>[2])
    n   = Const(dtype=int32, value=int32<>[3])
    i   = Placeholder(dtype=int32, shape=<>)
    x   = Placeholder(shape=<2>)
    w   = Placeholder(shape=<4,2>)
    z   = Placeholder(shape=<?>)
"""


def shapes_of(text: str, *names: str) -> list[Shape]:
    graph = parse_graph(HEAD + text)
    infer_shapes(graph, PassContext())
    return [graph.node(name).output_shapes[-1] for name in names]


def test_lists_of_known_elements() -> None:
    assert shapes_of(
        """
        r = TensorListReserve(any, n, element_dtype=float32, shape_type=int32)
        s = TensorListSetItem(r, i, x)
        g = TensorListGetItem(s, i, any, element_dtype=float32)
        a = TensorListStack(s, any, element_dtype=float32)
        f = TensorListFromTensor(w, any, shape_type=int32)
        b = TensorListStack(f, any, element_dtype=float32)
        e = EmptyTensorList(two, n, element_dtype=float32, shape_type=int32)
        p = TensorListPushBack(e, z)
        q = TensorListPopBack(p, any, element_dtype=float32)
    """,
        "g",
        "a",
        "b",
        "q",
    ) == [(2,), (3, 2), (4, 2), (2,)]


def test_what_may_differ_is_not_known() -> None:
    assert shapes_of(
        """
        r = TensorListReserve(any, n, element_dtype=float32, shape_type=int32)
        s = TensorListSetItem(r, i, x)
        t = TensorListSetItem(s, i, w)
        g = TensorListGetItem(t, i, any, element_dtype=float32)
        u = TensorListSetItem(s, i, x, resize_if_index_out_of_bounds=True)
        a = TensorListStack(u, any, element_dtype=float32)
    """,
        "g",
        "a",
    ) == [None, (None, 2)]


def test_lists_through_a_loop() -> None:
    text = """
        e = EmptyTensorList(any, any, element_dtype=float32, shape_type=int32)
        l = While(i, x, e, cond=func'c'{}, body=func'b'{})
        q = TensorListPopBack(l:2, any, element_dtype=float32)
        a = TensorListStack(l:2, any, element_dtype=float32)
        function 'c'{} {
            i = _Arg(index=0, T=int32)
            b = Cast(i, DstT=bool)
            r = _Retval(b, index=0)
        }
        function 'b'{} {
            i = _Arg(index=0, T=int32)
            x = _Arg(index=1, T=float32)
            l = _Arg(index=2, T=variant)
            p = TensorListPushBack(l, x, element_dtype=float32)
            y = Neg(x)
            r = _Retval(i, index=0)
            s = _Retval(y, index=1)
            t = _Retval(p, index=2)
        }
    """
    assert shapes_of(text, "q", "a") == [(2,), (None, 2)]


@pytest.mark.parametrize(
    ("a", "b", "both"),
    [
        (ListShape(None, EMPTY, 2), ListShape(None, (2,), 2), ListShape(None, (2,), 2)),
        (
            ListShape((2,), (2,), 1),
            ListShape((2,), (2,), 2, True),
            ListShape((2,), (2,), None, True),
        ),
        (ListShape(None, (2, 3)), ListShape(None, (2, 4)), ListShape(None, (2, None))),
        (ListShape(), None, None),
    ],
)
def test_relax(a: ListShape, b: ListShape | None, both: ListShape | None) -> None:
    assert a.relax(b) == both
    if b is not None:
        assert b.relax(a) == both


def test_an_element_that_the_list_does_not_accept_is_the_run_s_error() -> None:
    assert ListShape((2,), EMPTY).with_element((3,)).element is None


@pytest.mark.parametrize(
    ("accepts", "holds", "asked", "all_asked", "read"),
    [
        (None, (2,), (2,), True, (2,)),
        (None, (2,), (3,), True, (None,)),  # a gap is read as zeros of the shape asked for
        (None, (2,), (None,), True, (2,)),  # or of that of the others
        (None, (2,), (None,), False, None),
        ((2,), EMPTY, None, False, (2,)),
        ((2,), (2,), (3,), True, None),
    ],
)
def test_reading_where_there_may_be_gaps(
    accepts: Shape, holds: Shape, asked: Shape, all_asked: bool, read: Shape
) -> None:
    assert ListShape(accepts, holds, 3, True).read_as(asked, all_asked) == read
    if not isinstance(holds, str):
        assert ListShape(accepts, holds, 3).read_as(asked, all_asked) == (2,)
