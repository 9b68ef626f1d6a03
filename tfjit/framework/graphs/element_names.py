"""Find the operation or tensor that a name means in a graph."""

from __future__ import annotations

from collections.abc import Mapping

from tfjit.framework.graphs.operation import Operation, Tensor


def element_of_name(
    name: str, operations: Mapping[str, Operation], allow_tensor: bool, allow_operation: bool
) -> Tensor | Operation:
    """Return the tensor "op:index", or the operation "op".

    operations: of the graph, by name. Raises ValueError for a malformed name or an element that is
    not allowed, KeyError for a name that is not in the graph.
    """
    if ":" in name:
        if not allow_tensor:
            raise ValueError(f"Name '{name}' appears to refer to a Tensor, not a Operation.")
        return _tensor_of_name(name, operations)
    op = operations.get(name)
    if allow_operation:
        if op is None:
            raise KeyError(f"The name '{name}' refers to an Operation not in the graph.")
        return op
    if op is not None:
        raise ValueError(
            f"The name '{name}' refers to an Operation, not a Tensor. Tensor names must be "
            'of the form "<op_name>:<output_index>".'
        )
    raise ValueError(
        f"The name '{name}' looks like an (invalid) Operation name, not a Tensor. "
        'Tensor names must be of the form "<op_name>:<output_index>".'
    )


def _tensor_of_name(name: str, operations: Mapping[str, Operation]) -> Tensor:
    op_name, _, index_text = name.partition(":")
    if not index_text.isdecimal():
        raise ValueError(
            f"The name '{name}' looks a like a Tensor name, but is not a valid one. "
            'Tensor names must be of the form "<op_name>:<output_index>".'
        )
    op = operations.get(op_name)
    if op is None:
        raise KeyError(
            f"The name '{name}' refers to a Tensor which does not exist. The operation, "
            f"'{op_name}', does not exist in the graph."
        )
    index = int(index_text)
    if index >= len(op.outputs):
        raise KeyError(
            f"The name '{name}' refers to a Tensor which does not exist. "
            f"The operation, '{op_name}', exists but only has {len(op.outputs)} outputs."
        )
    return op.outputs[index]
