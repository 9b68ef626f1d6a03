"""`register_op` of the op families, with lazily parsed specs.

It does the same as framework.op_def's, but parses a definition's specs at the first access.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache, partial
from typing import Final

import numpy as np

from tfjit.framework.op_defs import op_spec, op_traits
from tfjit.framework.op_defs.op_def import ArgDef, AttrDef, OpDef
from tfjit.framework.op_defs.op_registry import ShapeFn, registry

_TENSOR_DEFAULT = ": tensor = uint8"
_set = object.__setattr__  # an OpDef is frozen for all other code


class DeclaredOp(OpDef):
    """An OpDef that reads its args and attrs at the first access.

    Parsing all specs costs 60 ms.
    """

    __slots__ = ("_args_in", "_args_out", "_attr_defs", "_by_name", "_specs")

    _args_in: tuple[ArgDef, ...]
    _args_out: tuple[ArgDef, ...]
    _attr_defs: tuple[AttrDef, ...]
    _by_name: Mapping[str, AttrDef]
    _specs: tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]] | None

    def __init__(
        self,
        name: str,
        specs: tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]],
        is_stateful: bool,
        is_commutative: bool,
        is_aggregate: bool,
        allows_uninitialized_input: bool,
        is_distributed_communication: bool,
        deprecated: tuple[int, str] | None,
        traits: int,
    ) -> None:
        _set(self, "name", name)
        _set(self, "_specs", specs)
        _set(self, "is_stateful", is_stateful)
        _set(self, "is_commutative", is_commutative)
        _set(self, "is_aggregate", is_aggregate)
        _set(self, "allows_uninitialized_input", allows_uninitialized_input)
        _set(self, "is_distributed_communication", is_distributed_communication)
        _set(self, "deprecated", deprecated)
        _set(self, "control_outputs", ())
        _set(self, "traits", op_traits.completed(traits, is_stateful))

    def _parse(self) -> None:
        specs = self._specs
        if specs is None:
            return
        inputs, outputs, attrs = specs
        attr_defs = tuple(_attr(spec) for spec in attrs)
        kinds = {attr.name: attr.type for attr in attr_defs}
        _set(self, "_attr_defs", attr_defs)
        _set(self, "_args_in", tuple(ArgDef(**op_spec.parse_arg(spec, kinds)) for spec in inputs))
        _set(self, "_args_out", tuple(ArgDef(**op_spec.parse_arg(spec, kinds)) for spec in outputs))
        _set(self, "_by_name", {attr.name: attr for attr in attr_defs})
        # Last: another thread that still finds the specs parses them as well, to the same result.
        _set(self, "_specs", None)

    @property
    def inputs(self) -> tuple[ArgDef, ...]:
        """The input args."""
        self._parse()
        return self._args_in

    @property
    def outputs(self) -> tuple[ArgDef, ...]:
        """The output args."""
        self._parse()
        return self._args_out

    @property
    def attrs(self) -> tuple[AttrDef, ...]:
        """The attrs."""
        self._parse()
        return self._attr_defs

    @property
    def attr_by_name(self) -> Mapping[str, AttrDef]:
        """The attrs by name."""
        self._parse()
        return self._by_name


@cache
def _attr(spec: str) -> AttrDef:
    if _TENSOR_DEFAULT in spec:
        name, _, values = spec.partition(_TENSOR_DEFAULT)
        value = np.array([int(v) for v in values.strip("[]").split(",")], np.uint8)
        value.flags.writeable = False
        return AttrDef(name, "tensor", value)
    return AttrDef(**op_spec.parse_attr(spec))


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
    traits: int = 0,
    planned_shape: ShapeFn | None = None,
) -> None:
    """Register an op type of the caller's family.

    The specs are TensorFlow's own (see framework/op_defs/op_spec.py). The family is the module that
    declares the op. traits: facts about the op (see framework/op_defs/op_traits.py). planned_shape:
    the shape function of plans, where graphs leave the shapes unknown.
    """
    op_def = DeclaredOp(
        name,
        (inputs, outputs, attrs),
        stateful,
        commutative,
        aggregate,
        allows_uninitialized_input,
        distributed_communication,
        deprecated,
        traits,
    )
    family = sys._getframe(1).f_globals["__name__"].removeprefix("tfjit.ops.")
    registry.register(op_def, shape, family, planned_shape)


register_elementwise: Final = partial(
    register_op, traits=op_traits.ELEMENTWISE | op_traits.CANNOT_FAIL
)
"""`register_op` of an op with a row in framework/scalar/elementwise.py that never fails."""
