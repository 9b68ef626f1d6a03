"""Define functions made of several ops, such as `xw_plus_b` and `dropout`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types import dtypes
from tfjit.ops.core.apply import tensor
from tfjit.ops.core.convert import convert_to_tensor
from tfjit.ops.core.dispatch import dispatched
from tfjit.ops.layers.normalization_functions import bias_add

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import ShapeLike, TensorLike


def zero_fraction(value: TensorLike, name: str | None = None) -> Tensor:
    """Return the fraction of the elements that is zero."""
    with name_scope(name, "zero_fraction", [value]):
        x = convert_to_tensor(value, name="value")
        zero = tensor("Equal", None, x=x, y=tensor("ZerosLike", None, x=x))
        flat = tensor(
            "Reshape", None, tensor=tensor("Cast", None, x=zero, DstT=dtypes.float32), shape=[-1]
        )
        return tensor("Mean", "fraction", input=flat, reduction_indices=[0])


def xw_plus_b(
    x: TensorLike, weights: TensorLike, biases: TensorLike, name: str | None = None
) -> Tensor:
    """Return matmul(x, weights) + biases."""
    with name_scope(name, "xw_plus_b", [x, weights, biases]) as scope:
        return bias_add(tensor("MatMul", None, a=x, b=weights), biases, name=scope)


def relu_layer(
    x: TensorLike, weights: TensorLike, biases: TensorLike, name: str | None = None
) -> Tensor:
    """Return relu(matmul(x, weights) + biases)."""
    with name_scope(name, "relu_layer", [x, weights, biases]) as scope:
        return tensor(
            "Relu", scope, features=bias_add(tensor("MatMul", None, a=x, b=weights), biases)
        )


@dispatched
def dropout(
    x: Any,
    keep_prob: Any = None,
    noise_shape: ShapeLike | None = None,
    seed: int | None = None,
    name: str | None = None,
    rate: Any = None,
) -> Tensor:
    """Zero elements with probability `rate` and scale up the others.

    Raises ValueError without a rate or for one outside [0, 1).
    """
    from tfjit.ops.random_values.stateful_random import random_uniform

    if rate is None:
        if keep_prob is None:
            raise ValueError("You must provide a rate to dropout.")
        rate = 1 - keep_prob
    if isinstance(rate, str):
        raise ValueError(f"`rate` must be a scalar or scalar tensor. Received: rate={rate}")
    with name_scope(name, "dropout", [x]):
        x = convert_to_tensor(x, name="x")
        kind = x.dtype.base_dtype
        if not kind.is_floating:
            raise ValueError(
                "`x.dtype` must be a floating point tensor as `x` will be scaled. Received "
                f"x.dtype={kind}"
            )
        if not isinstance(rate, Tensor):
            if not 0 <= rate < 1:
                raise ValueError(
                    "`rate` must be a scalar tensor or a float in the range [0, 1). Received: "
                    f"rate={rate}"
                )
            if rate == 0:
                return x
            scaled = tensor("Mul", None, x=x, y=convert_to_tensor(1 / (1 - rate), kind))
        else:
            keep = tensor("Sub", None, x=convert_to_tensor(1, kind), y=rate)
            scaled = tensor(
                "Mul", None, x=x, y=tensor("RealDiv", None, x=convert_to_tensor(1, kind), y=keep)
            )
        shape = tensor("Shape", None, input=x) if noise_shape is None else noise_shape
        draw = random_uniform(shape, seed=seed, dtype=kind)
        kept = tensor("GreaterEqual", None, x=draw, y=convert_to_tensor(rate, kind))
        out = tensor("SelectV2", None, condition=kept, t=scaled, e=convert_to_tensor(0, kind))
        out.set_shape(x.shape)
        return out
