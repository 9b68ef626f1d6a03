"""Check a node's dtypes against its queue's or table's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tfjit.framework import errors
from tfjit.framework.types.dtypes import resource, string
from tfjit.runtime.resources.tables import type_name

if TYPE_CHECKING:
    from tfjit.framework.types.dtypes import DType
    from tfjit.runtime.kernel_api.op_kernel import OpContext


def check_signature(
    ctx: OpContext,
    given: Sequence[DType],
    gives: Sequence[DType],
    expected: Sequence[DType],
    returned: Sequence[DType],
) -> None:
    """Raise InvalidArgumentError where a node's dtypes are not its resource's.

    given, gives: of the node's inputs behind the handle, and of its outputs. expected, returned: of
    the resource.
    """
    if tuple(given) == tuple(expected) and tuple(gives) == tuple(returned):
        return
    handle = type_name(resource if ctx.op.endswith("V2") else string._as_ref)

    def text(ins: Sequence[DType], outs: Sequence[DType]) -> str:
        return f"{', '.join([handle, *map(type_name, ins)])}->{', '.join(map(type_name, outs))}"

    raise errors.InvalidArgumentError(
        None,
        None,
        f"Signature mismatch, have: {text(given, gives)} expected: {text(expected, returned)}",
    )
