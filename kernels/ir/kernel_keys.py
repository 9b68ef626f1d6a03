"""Make keys of nodes and groups: equal keys mean equal kernels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Hashable

    from tfjit.kernels.ir.fused_group import FusedGroup

UNREAD_ATTRS: Final = frozenset(
    {"_output_shapes", "_class", "_has_manual_control_dependencies", "_XlaHasReferenceVars"}
)
"""Attrs about placement and checks, which no kernel reads."""


def attrs_key(attrs: Mapping[str, object]) -> Hashable:
    """Return a key of the attrs that kernels read."""
    return tuple(
        sorted((name, _text(value)) for name, value in attrs.items() if name not in UNREAD_ATTRS)
    )


def constants_key(constants: Mapping[int, np.ndarray]) -> Hashable:
    """Return a key of known inputs, values included, by index."""
    return tuple(
        (k, value.dtype.str, value.shape, value.tobytes()) for k, value in sorted(constants.items())
    )


def signature(group: FusedGroup) -> Hashable:
    """Return the signature of a group.

    Groups of one signature share a kernel. Such groups have the same members, wired alike, over
    tensors of the same dtypes and shapes.
    """
    members = tuple(
        (m.spec.op, attrs_key(m.spec.attrs), m.inputs, m.spec.outputs) for m in group.members
    )
    return (
        group.kind,
        members,
        group.inputs,
        group.outputs,
        tuple((c.dtype.str, c.tobytes()) for c in group.constants),
    )


def _text(value: object) -> str:
    # the text of a large array leaves out elements
    if isinstance(value, np.ndarray):
        return f"{value.dtype.str} {value.shape} {value.tobytes()!r}"
    return repr(value)


__all__ = ["UNREAD_ATTRS", "attrs_key", "constants_key", "signature"]
