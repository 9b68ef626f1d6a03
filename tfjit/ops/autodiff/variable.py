"""Gradients of reads of variables; writes have none."""

from __future__ import annotations

from typing import Any

from tfjit.framework.graphs.indexed_slices import IndexedSlices
from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.op_defs.gradient_registry import NotDifferentiable, RegisterGradient
from tfjit.ops import raw_ops as raw
from tfjit.ops.core.convert import convert_to_tensor


@RegisterGradient("ReadVariableOp")
def _read_variable(op: Operation, grad: Tensor) -> Any:
    return grad


@RegisterGradient("ResourceGather")
def _resource_gather(op: Operation, grad: Tensor) -> Any:
    handle, indices = op.inputs
    shape = raw.VariableShape(input=handle)
    flat = raw.Reshape(tensor=indices, shape=convert_to_tensor([-1]))
    rows = raw.Reshape(
        tensor=grad, shape=raw.ConcatV2(values=[raw.Shape(input=flat), shape[1:]], axis=0)
    )
    return IndexedSlices(rows, flat, shape), None


for _op_type in (
    *(
        "Variable",
        "VariableV2",
        "VarHandleOp",
        "VarIsInitializedOp",
        "IsVariableInitialized",
        "VariableShape",
    ),
    *(
        "Assign",
        "AssignAdd",
        "AssignSub",
        "AssignVariableOp",
        "AssignAddVariableOp",
        "AssignSubVariableOp",
        "CountUpTo",
    ),
    *(
        "ScatterUpdate",
        "ScatterAdd",
        "ScatterSub",
        "ScatterMul",
        "ScatterDiv",
        "ScatterNdUpdate",
        "ScatterNdAdd",
        "ScatterNdSub",
    ),
):
    NotDifferentiable(_op_type)
