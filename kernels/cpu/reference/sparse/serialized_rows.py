"""Write sparse tensors as strings, row by row, and read them again."""

from __future__ import annotations

from typing import Any

import numpy as np

from tfjit.framework.types.dtypes import as_dtype, string
from tfjit.framework.types.shape import format_shape
from tfjit.kernels.cpu.reference.inputs import Arrays, invalid
from tfjit.kernels.cpu.reference.records.serialized import parsed_tensor, tensor_message
from tfjit.kernels.registry import NodeSpec


def check_parts(inputs: Arrays) -> None:
    """Raise InvalidArgumentError for parts that are no sparse tensor."""
    for array, rank, what, kind in zip(
        inputs,
        (2, 1, 1),
        ("indices", "values", "shape"),
        ("matrix", "vector", "vector"),
        strict=True,
    ):
        if array.ndim != rank:
            invalid(
                f"Input {what} should be a {kind} but received shape {format_shape(array.shape)}"
            )


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def content_message(values: np.ndarray) -> bytes:
    """Return a tensor as a serialized TensorProto.

    Strings are in `tensor_content` too: all lengths, then all bytes.
    """
    if values.dtype != object:
        return tensor_message(values)
    from tfjit.protos import TensorProto

    message: Any = TensorProto()
    message.dtype = string.as_datatype_enum
    message.tensor_shape.dim.add(size=values.size)
    items = values.tolist()
    message.tensor_content = b"".join(_varint(len(item)) for item in items) + b"".join(items)
    data: bytes = message.SerializeToString()
    return data


def serialize_rows(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Return three strings for each row of a sparse tensor, [rows, 3]."""
    indices, values, shape = (np.asarray(v) for v in inputs)
    check_parts((indices, values, shape))
    if shape.size < 2:
        invalid(f"Rank of input SparseTensor should be > 1, but saw rank: {shape.size}")
    count = int(shape[0])
    rows = indices[:, 0]
    for row in rows[(rows < 0) | (rows >= count)][:1]:
        invalid(
            f"Received unexpected column 0 value in input SparseTensor: {row} < 0 or >= N "
            f"(= {count})"
        )
    out = np.empty((count, 3), object)
    inner = tensor_message(np.ascontiguousarray(shape[1:]))
    for row in range(count):
        own = rows == row
        places = np.ascontiguousarray(indices[own, 1:])
        out[row] = [tensor_message(places), content_message(values[own]), inner]
    return (out,)


def deserialize_rows(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Return the sparse tensor of strings [..., 3].

    The outer axes are its first ones. Each axis has the largest size that a row has.
    """
    texts = np.asarray(inputs[0], object)
    if node.op == "DeserializeManySparse" and texts.ndim != 2:
        invalid(
            f"Serialized sparse should be a matrix but received shape {format_shape(texts.shape)}"
        )
    if texts.ndim < 1 or texts.shape[-1] != 3:
        invalid(
            f"Serialized sparse should have 3 as the last dimension {format_shape(texts.shape)}"
        )
    if not texts.size:
        invalid("Must have at least 1 serialized SparseTensor, but input matrix has 0 rows")
    outer = texts.shape[:-1]
    wanted = node.attrs["dtype"]
    places: list[np.ndarray] = []
    values: list[np.ndarray] = []
    shapes: list[np.ndarray] = []
    for n, (row, at) in enumerate(zip(texts.reshape(-1, 3), np.ndindex(*outer), strict=True)):
        indices, own, shape = (parsed_tensor(text) for text in row)
        found = as_dtype(own.dtype)
        if found is not wanted:
            invalid(
                f"Requested SparseTensor of type {wanted.name} but SparseTensor[{n}]."
                f"values.dtype() == {found.name}"
            )
        if indices.ndim != 2 or own.ndim != 1 or shape.ndim != 1 or len(indices) != len(own):
            invalid(f"serialized_sparse[{n}] is no sparse tensor")
        if shapes and shape.size != shapes[0].size:
            invalid(
                "Inconsistent rank across SparseTensors: rank prior to SparseTensor"
                f"[{n}] was: {shapes[0].size + 1} but rank of SparseTensor[{n}] is: "
                f"{shape.size + 1}"
            )
        before = np.tile(np.array(at, np.int64), (len(indices), 1))
        places.append(np.concatenate([before.reshape(len(indices), len(outer)), indices], axis=1))
        values.append(own)
        shapes.append(shape)
    sizes = np.array([*outer, *np.max(np.stack(shapes), axis=0)], np.int64)
    return np.concatenate(places), np.concatenate(values), sizes
