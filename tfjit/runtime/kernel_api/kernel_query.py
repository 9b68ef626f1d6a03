"""The query of placement for the device types that can compute an op."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from tfjit.kernels.ir.backend import HOST, Backend

if TYPE_CHECKING:
    from tfjit.framework.types.dtypes import DType
    from tfjit.passes.manager.pass_context import HasKernel


def has_kernel(backends: Mapping[str, Backend], passes_on: Callable[[str], bool]) -> HasKernel:
    """Return the query for a session's backends, by device type.

    passes_on: whether an op only passes values on, which every device does.
    """

    def query(op: str, device_type: str, dtypes: Sequence[DType]) -> bool:
        if backends[device_type].has_kernel(op, dtypes):
            return True
        # last: a session with the host alone does not import the executor for it
        return device_type != HOST and passes_on(op)

    return query
