"""Define gradients of simulated quantisation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.op_defs.gradient_registry import RegisterGradient
from tfjit.ops import raw_ops as raw
from tfjit.ops.autodiff.terms import attrs_of

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Gradients


@RegisterGradient("FakeQuantWithMinMaxArgs")
def _fake_args(op: Operation, grad: Tensor) -> Gradients:
    options = attrs_of(op, "min", "max", "num_bits", "narrow_range")
    return raw.FakeQuantWithMinMaxArgsGradient(gradients=grad, inputs=op.inputs[0], **options)


@RegisterGradient("FakeQuantWithMinMaxVars")
def _fake_vars(op: Operation, grad: Tensor) -> Gradients:
    x, low, high = op.inputs
    options = attrs_of(op, "num_bits", "narrow_range")
    return list(
        raw.FakeQuantWithMinMaxVarsGradient(gradients=grad, inputs=x, min=low, max=high, **options)
    )


@RegisterGradient("FakeQuantWithMinMaxVarsPerChannel")
def _fake_channels(op: Operation, grad: Tensor) -> Gradients:
    x, low, high = op.inputs
    options = attrs_of(op, "num_bits", "narrow_range")
    return list(
        raw.FakeQuantWithMinMaxVarsPerChannelGradient(
            gradients=grad, inputs=x, min=low, max=high, **options
        )
    )


@RegisterGradient("QuantizeAndDequantize")
def _quantize_and_dequantize_v1(op: Operation, grad: Tensor) -> Gradients:
    return grad


@RegisterGradient("QuantizeAndDequantizeV2")
def _quantize_and_dequantize(op: Operation, grad: Tensor) -> Gradients:
    return grad, None, None


@RegisterGradient("QuantizeAndDequantizeV3")
def _quantize_and_dequantize_v3(op: Operation, grad: Tensor) -> Gradients:
    return grad, None, None, None


@RegisterGradient("QuantizeAndDequantizeV4")
def _quantize_and_dequantize_v4(op: Operation, grad: Tensor) -> Gradients:
    x, low, high = op.inputs
    return list(
        raw.QuantizeAndDequantizeV4Grad(
            gradients=grad, input=x, input_min=low, input_max=high, axis=op.get_attr("axis")
        )
    )
