"""Test that no op type is without both a gradient and a reason for none."""

from __future__ import annotations

import os
from typing import Final

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import pytest

from tfjit.framework.op_defs import gradient_registry
from tfjit.framework.op_defs.op_registry import registry
from tfjit.kernels import registry as kernels
from tfjit.ops.autodiff import backprop
from tfjit.runtime.executor.node_runner import has_own_runner
from tfjit.runtime.kernel_api.op_kernel import has_runtime_kernel

pytest.importorskip("tensorflow")
from tensorflow.python.framework import op_def_registry
from tensorflow.python.framework import ops as tensorflow_ops

# Family -> the op types that TensorFlow differentiates and tfjit runs, without a gradient here.
# A new op is not added: write its gradient in tfjit/ops/autodiff/, and lower MAX_MISSING.
KNOWN_MISSING: Final = {
    "containers.tensor_array": (
        "TensorArrayConcat TensorArrayConcatV2 TensorArrayGather TensorArrayGatherV2 "
        "TensorArrayRead TensorArrayReadV2 TensorArrayScatter TensorArrayScatterV2 "
        "TensorArraySplit TensorArraySplitV2 TensorArrayWrite TensorArrayWriteV2"
    ),
    "control_flow.py_func": ("EagerPyFunc"),
    # TensorFlow's own fails: it returns three gradients for four inputs
    "layers.fake_quant": ("QuantizeAndDequantizeV4Grad"),
}
MAX_MISSING: Final = 14
# Op types of tfjit's own that gradients never meet.
OWN: Final = dict.fromkeys(("_GetRow", "_SetRow", "_PaddedUnique"), "made by passes")


def known_missing() -> set[str]:
    return {op for names in KNOWN_MISSING.values() for op in names.split()}


def can_run(op_type: str) -> bool:
    """Return whether a kernel or the executor itself serves the op."""
    return (
        kernels.find_reference(op_type) is not None
        or has_runtime_kernel(op_type)
        or has_own_runner(op_type)
    )


def own_op_types() -> list[str]:
    """Return the registered op types, those of other tests left out."""
    backprop._load_rules()
    return sorted(op.name for op in registry.list() if registry._families.get(op.name))


def differentiated_by_tensorflow() -> set[str]:
    table = tensorflow_ops.gradient_registry
    return {op for op in table.list() if table.lookup(op) is not None}


def without_gradient() -> set[str]:
    """Return the runnable op types that TensorFlow alone differentiates."""
    theirs = differentiated_by_tensorflow()
    return {
        op
        for op in own_op_types()
        if op in theirs and not gradient_registry.has_gradient(op) and can_run(op)
    }


def test_no_gradient_is_forgotten() -> None:
    forgotten = without_gradient() - known_missing()
    assert not forgotten, (
        f"TensorFlow differentiates {sorted(forgotten)}, tfjit does not. Add the gradient to "
        "tfjit/ops/autodiff/<family>.py (@RegisterGradient), or the name to "
        "tfjit/ops/autodiff/not_differentiable.py if it is zero everywhere."
    )


def test_the_list_of_missing_gradients_only_falls() -> None:
    listed = known_missing()
    assert len(listed) <= MAX_MISSING, "a new op needs a gradient, not a line in KNOWN_MISSING"
    written = listed - without_gradient()
    assert not written, f"delete {sorted(written)} from KNOWN_MISSING and lower MAX_MISSING"
    assert len(listed) == MAX_MISSING, f"lower MAX_MISSING to {len(listed)}"
    for family, names in KNOWN_MISSING.items():
        for op in names.split():
            assert registry._families[op] == family, op


def test_own_op_types_have_a_gradient_or_a_reason() -> None:
    own = {op for op in own_op_types() if op_def_registry.get(op) is None}
    forgotten = {op for op in own if not gradient_registry.has_gradient(op)} - set(OWN)
    assert not forgotten, (
        f"{sorted(forgotten)} exist in tfjit alone: add gradients to tfjit/ops/autodiff/, the "
        "names to not_differentiable.py there, or to OWN here if gradients never meet them."
    )
    assert set(OWN) <= own


def test_where_tensorflow_has_no_gradient_neither_has_tfjit() -> None:
    table = tensorflow_ops.gradient_registry
    none = {op for op in table.list() if table.lookup(op) is None}
    wrong = {
        op
        for op in own_op_types()
        if op in none
        and gradient_registry.has_gradient(op)
        and gradient_registry.lookup(op) is not None
    }
    assert not wrong


def test_where_tensorflow_stops_so_does_tfjit() -> None:
    """An op without gradient gives None in TensorFlow; an unknown one is an error."""
    table = tensorflow_ops.gradient_registry
    none = {op for op in table.list() if table.lookup(op) is None}
    unknown = {op for op in own_op_types() if op in none and not gradient_registry.has_gradient(op)}
    assert not unknown, f"add {sorted(unknown)} to tfjit/ops/autodiff/not_differentiable.py"
