"""Const nodes whose messages contradict themselves: TensorFlow's class of error, never one of
Python's own.
"""

from typing import Any

import pytest
import tensorflow.compat.v1 as tf1
from google.protobuf import text_format

import tfjit

ONE = "tensor_shape { dim { size: 1 } }"
NODES = {
    "dtype": ("DT_INT32", "dtype: DT_FLOAT tensor_shape {} float_val: 1"),
    "resource": ("DT_RESOURCE", "dtype: DT_FLOAT tensor_shape {} float_val: 1"),
    "content too short": ("DT_FLOAT", f'dtype: DT_FLOAT {ONE} tensor_content: "abc"'),
    "content too long": ("DT_FLOAT", f'dtype: DT_FLOAT {ONE} tensor_content: "abcdefgh"'),
    "content of strings": ("DT_STRING", f'dtype: DT_STRING {ONE} tensor_content: "abc"'),
    "no dtype": ("DT_FLOAT", f"{ONE} float_val: 1"),
    "negative size": ("DT_FLOAT", "dtype: DT_FLOAT tensor_shape { dim { size: -2 } } float_val: 1"),
    "unknown size": ("DT_FLOAT", "dtype: DT_FLOAT tensor_shape { dim { size: -1 } } float_val: 1"),
    "too large": (
        "DT_FLOAT",
        "dtype: DT_FLOAT tensor_shape { dim { size: 9223372036854775807 } dim { size: 4 } }",
    ),
    "unknown type": ("99", f"dtype: 99 {ONE}"),
    "reference": ("DT_FLOAT_REF", f"dtype: DT_FLOAT_REF {ONE} float_val: 1"),
    "text as a float": ("DT_FLOAT", f'dtype: DT_FLOAT {ONE} string_val: "abc"'),
    "a float as text": ("DT_STRING", f"dtype: DT_STRING {ONE} float_val: 1"),
    "too many": ("DT_FLOAT", f"dtype: DT_FLOAT {ONE} float_val: 1 float_val: 2"),
    "too few": (
        "DT_FLOAT",
        "dtype: DT_FLOAT tensor_shape { dim { size: 3 } } float_val: 1 float_val: 2",
    ),
    "quantized": ("DT_QINT8", f"dtype: DT_QINT8 {ONE} int_val: 3"),
}


def value(api: Any, dtype: str, tensor: str) -> Any:
    type_attr = f'attr {{ key: "dtype" value {{ type: {dtype} }} }}'
    value_attr = f'attr {{ key: "value" value {{ tensor {{ {tensor} }} }} }}'
    text = (
        f'node {{ name: "c" op: "Const" {type_attr} {value_attr} }} versions {{ producer: 1645 }}'
    )
    graph_def = text_format.Parse(text, api.GraphDef())
    with api.Graph().as_default():
        api.import_graph_def(graph_def, name="")
        with api.Session() as session:
            return session.run("c:0")


@pytest.mark.parametrize("name", NODES)
def test_as_tensorflow_reads_it(name: str) -> None:
    try:
        expected = value(tf1, *NODES[name])
    except (ValueError, tf1.errors.InvalidArgumentError):
        with pytest.raises(tfjit.errors.InvalidArgumentError) as caught:
            value(tfjit, *NODES[name])
        assert isinstance(caught.value, ValueError) and "c" in str(caught.value)
    else:
        assert value(tfjit, *NODES[name]).tolist() == expected.tolist()


@pytest.mark.parametrize("dtype", ["DT_RESOURCE", "DT_VARIANT"])
def test_handles_of_another_process_are_named(dtype: str) -> None:
    """They import, with their shape, and say so when they are run."""
    with pytest.raises(tfjit.errors.UnimplementedError, match=f"Const c is a {dtype[3:].lower()}"):
        value(tfjit, dtype, f"dtype: {dtype} {ONE}")


def test_a_constant_made_with_another_dtype() -> None:
    with (
        tfjit.Graph().as_default() as graph,
        pytest.raises(
            ValueError, match=r"Type mismatch between value \(float\) and dtype \(int32\)"
        ),
    ):
        tensor = tfjit.constant(1.0).op.get_attr("value")
        graph.create_op(
            "Const", [], attrs={"value": tfjit.make_ndarray(tensor), "dtype": tfjit.int32}
        )
