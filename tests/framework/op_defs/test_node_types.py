"""Dtypes and attrs of nodes follow from the contract of their op type."""

from __future__ import annotations

import pytest

from tfjit.framework.errors import InvalidArgumentError
from tfjit.framework.op_defs.node_types import (
    arg_ranges,
    complete_attrs,
    input_dtypes,
    output_dtypes,
)
from tfjit.framework.op_defs.op_def import define_op
from tfjit.framework.types import dtypes

PAIR = define_op(
    "TestPair",
    ("x: T", "y: Ref(T)", "values: N * T", "args: Tin", "n: int32"),
    ("z: T", "more: N * float", "rest: Tin", "r: Ref(T)"),
    ("T: {float, int32}", "N: int >= 1", "Tin: list(type) >= 0", "k: int = 3"),
)


def test_inference() -> None:
    f, i, s = dtypes.float32, dtypes.int32, dtypes.string
    attrs = complete_attrs(PAIR, {"N": 2}, [f, f._as_ref, f, f, s, i, i])
    assert attrs == {"N": 2, "T": f, "Tin": (s, i), "k": 3}
    assert input_dtypes(PAIR, attrs) == (f, f._as_ref, f, f, s, i, i)
    assert output_dtypes(PAIR, attrs) == (f, f, f, s, i, f._as_ref)
    assert arg_ranges(PAIR.inputs, attrs) == {
        "x": (0, 1),
        "y": (1, 2),
        "values": (2, 4),
        "args": (4, 6),
        "n": (6, 7),
    }
    assert complete_attrs(PAIR, {"Tin": ()}, [f, f, f, i])["N"] == 1
    assert complete_attrs(PAIR, {"Tin": (), "_mark": b"x"}, [f, f, f, f, i])["_mark"] == b"x"
    with pytest.raises(
        InvalidArgumentError, match="Inconsistent values for attr 'T' DT_INT32 vs. DT_FLOAT"
    ):
        complete_attrs(PAIR, {"N": 1}, [f, i, f, i])
    cast = define_op("TestCast", ("x: A",), ("y: B",), ("A: type", "B: type"))
    with pytest.raises(
        InvalidArgumentError,
        match="NodeDef missing attr 'B' from Op<name=TestCast; signature=x:A -> y:B; attr=A:type; "
        "attr=B:type>",
    ):
        complete_attrs(cast, {}, [f])
    assert output_dtypes(cast, complete_attrs(cast, {"B": i}, [f._as_ref])) == (i,)
