"""Cases of shape rules and TensorFlow's answer to them."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pytest

import tfjit.ops.core.families  # noqa: F401
from tfjit.framework.errors import OpError
from tfjit.framework.op_defs import attrs as attr_values
from tfjit.framework.op_defs.node_types import complete_attrs, output_dtypes
from tfjit.framework.op_defs.op_registry import infer_shapes, registry
from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.framework.types import dtypes

tf = pytest.importorskip("tensorflow")


@dataclass
class Case:
    """Describe a node.

    inputs are shapes (a placeholder of `dtypes[i]`), arrays (a constant), or (shape, array) = known
    only through `constant`.
    """

    op: str
    inputs: list[Any]
    attrs: dict[str, Any] = field(default_factory=dict)
    dtypes: str | list[str] = "float32"

    def __str__(self) -> str:
        return f"{self.op}({', '.join(_text(i) for i in self.inputs)}; {self.attrs})"


def _text(value: Any) -> str:
    return f"const{value.tolist()}" if isinstance(value, np.ndarray) else str(value)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def scalar(value: int) -> np.ndarray:
    return np.array(value, np.int32)


@dataclass
class Oracle:
    """Hold one graph of TensorFlow's for many nodes.

    Nodes of equal inputs share their placeholders and constants.
    """

    graph: Any
    sources: dict[tuple[Any, ...], Any] = field(default_factory=dict)

    def source(self, value: Any, dtype: str) -> Any:
        """Return the placeholder or constant for a static shape or value."""
        if isinstance(value, np.ndarray):
            key = (value.dtype, value.shape, value.tobytes())
            make = partial(tf.constant, value)
        else:
            key = (dtype, None if value is None else tuple(value))
            make = partial(tf.compat.v1.placeholder, getattr(tf, dtype), value)
        if key not in self.sources:
            self.sources[key] = make()
        return self.sources[key]


@functools.cache
def oracle() -> Oracle:
    """Return the graph of this process.

    The first case makes it.
    """
    return Oracle(tf.Graph())


def theirs(case: Case) -> Any:
    """Return the shapes TensorFlow infers, or None when it refuses.

    Also returns the attrs of the node it made.
    """
    graph = oracle().graph
    with graph.as_default():
        names = [case.dtypes] * len(case.inputs) if isinstance(case.dtypes, str) else case.dtypes
        tensors = [
            oracle().source(v, "" if isinstance(v, np.ndarray) else names[i])
            for i, v in enumerate(case.inputs)
        ]
        op_def = registry.require(case.op)
        given = {
            key: attr_values.convert(value, op_def.attr_by_name[key].type, key)
            for key, value in case.attrs.items()
        }
        attrs = complete_attrs(
            op_def, given, [dtypes.as_dtype(t.dtype.base_dtype.name) for t in tensors]
        )
        protos = {}
        for key, value in attrs.items():
            protos[key] = tf.compat.v1.AttrValue.FromString(
                attr_values.to_proto(value).SerializeToString()
            )
        outputs = [tf.as_dtype(d.name) for d in output_dtypes(op_def, attrs)]
        try:
            node = graph.create_op(case.op, tensors, outputs, attrs=protos, name="node")
        except (ValueError, tf.errors.InvalidArgumentError) as error:
            return attrs, None, str(error)
        return (
            attrs,
            [None if t.shape.rank is None else tuple(t.shape.as_list()) for t in node.outputs],
            "",
        )


def ours(case: Case, attrs: dict[str, Any]) -> Any:
    op_def = registry.require(case.op)
    shapes, types = [], []
    for i, value in enumerate(case.inputs):
        if isinstance(value, np.ndarray):
            shapes.append(value.shape)
            types.append(dtypes.as_dtype(value.dtype))
        else:
            shapes.append(None if value is None else tuple(value))
            types.append(
                dtypes.as_dtype(case.dtypes if isinstance(case.dtypes, str) else case.dtypes[i])
            )

    def constant(i: int) -> np.ndarray | None:
        value = case.inputs[i]
        return value if isinstance(value, np.ndarray) else None

    context = ShapeContext(
        case.op, "node", attrs, shapes, types, len(output_dtypes(op_def, attrs)), constant
    )
    try:
        return infer_shapes(context, op_def), ""
    except OpError as error:
        return None, error.message


def variants(*shapes: Any) -> Iterator[list[Any]]:
    """Yield the shapes, then the same with unknown parts.

    Each size, and each whole shape, is unknown in turn, then everything.
    """
    yield list(shapes)
    for i, shape in enumerate(shapes):
        if isinstance(shape, np.ndarray) or shape is None:
            continue
        for j in range(len(shape)):
            yield [*shapes[:i], (*shape[:j], None, *shape[j + 1 :]), *shapes[i + 1 :]]
        yield [*shapes[:i], None, *shapes[i + 1 :]]
    yield [s if isinstance(s, np.ndarray) else None for s in shapes]
    yield [s if isinstance(s, np.ndarray) or s is None else (None,) * len(s) for s in shapes]


def expand(op: str, shapes: list[Any], types: Any = "float32", **attrs: Any) -> list[Case]:
    return [Case(op, v, attrs, types) for v in variants(*shapes)]
