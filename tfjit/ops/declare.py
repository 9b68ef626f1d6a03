"""`register_op` of the op families: as framework.op_def's, with parsed specs shared between ops (a thousand definitions repeat 700 attrs)."""

from __future__ import annotations

from functools import cache

import numpy as np

from tfjit.framework import op_spec
from tfjit.framework.op_def import ArgDef, AttrDef, OpDef, ShapeFn, registry

_TENSOR_DEFAULT = ": tensor = uint8"


@cache
def _attr(spec: str) -> AttrDef:
    if _TENSOR_DEFAULT in spec:
        name, _, values = spec.partition(_TENSOR_DEFAULT)
        value = np.array([int(v) for v in values.strip("[]").split(",")], np.uint8)
        value.flags.writeable = False
        return AttrDef(name, "tensor", value)
    return AttrDef(**op_spec.parse_attr(spec))


@cache
def _arg(spec: str, kinds: tuple[tuple[str, str], ...]) -> ArgDef:
    return ArgDef(**op_spec.parse_arg(spec, dict(kinds)))


def register_op(
    name: str,
    inputs: tuple[str, ...] = (),
    outputs: tuple[str, ...] = (),
    attrs: tuple[str, ...] = (),
    shape: ShapeFn | None = None,
    *,
    stateful: bool = False,
    commutative: bool = False,
    aggregate: bool = False,
    allows_uninitialized_input: bool = False,
    distributed_communication: bool = False,
    deprecated: tuple[int, str] | None = None,
) -> None:
    """Define an op type and add it to the registry; the specs are TensorFlow's own (see framework/op_spec.py)."""
    attr_defs = tuple(_attr(spec) for spec in attrs)
    kinds = tuple((attr.name, attr.type) for attr in attr_defs)
    op_def = OpDef(
        name,
        tuple(_arg(spec, kinds) for spec in inputs),
        tuple(_arg(spec, kinds) for spec in outputs),
        attr_defs,
        stateful,
        commutative,
        aggregate,
        allows_uninitialized_input,
        deprecated,
        is_distributed_communication=distributed_communication,
    )
    registry.register(op_def, shape)
