"""The query for device types that can compute an op.

Placement and folding ask it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tfjit.framework.types.dtypes import DType
    from tfjit.passes.ir.pass_context import HasKernel


def has_kernel(priorities: Mapping[str, int]) -> HasKernel:
    """Return the query for the registered device types (type -> placement priority).

    Ops that only exist to be imported (SaveV2 ...) count as placeable on the CPU, so that they
    prune away unharmed; running one raises UnimplementedError.
    """

    def query(op: str, device_type: str, dtypes: Sequence[DType]) -> int | None:
        return priorities.get("CPU") if device_type == "CPU" else None

    return query
