"""Which device types can compute an op: what placement and folding ask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from tfjit.kernels.registry import find_native, find_reference
from tfjit.runtime.lowering import DATAFLOW_OPS, NOTHING_OPS, VIEW_OPS
from tfjit.runtime.op_kernel import find_runtime_kernel

if TYPE_CHECKING:
    from tfjit.framework.dtypes import DType
    from tfjit.passes.context import HasKernel

# Computed by the session itself rather than by a kernel.
_BUILT_IN: Final = VIEW_OPS | NOTHING_OPS | DATAFLOW_OPS | {"Const", "_Arg", "_Retval", "Placeholder", "PlaceholderV2", "IdentityN"}


def has_kernel(priorities: Mapping[str, int]) -> HasKernel:
    """The query for the registered device types (type -> placement priority).

    Ops that only exist to be imported (SaveV2 ...) count as placeable on the CPU, so that they prune away unharmed; running one raises
    UnimplementedError.
    """

    def query(op: str, device_type: str, dtypes: Sequence[DType]) -> int | None:
        if device_type not in priorities:
            return None
        if device_type == "CPU":
            return priorities["CPU"]
        return None

    return query


def is_computable(op: str) -> bool:
    """Whether anything in tfjit computes the op."""
    return op in _BUILT_IN or find_native(op) is not None or find_reference(op) is not None or find_runtime_kernel(op) is not None
