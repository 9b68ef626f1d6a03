"""Declare activations and their gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.ops.arithmetic.elementwise import elementwise_function
from tfjit.ops.arithmetic.elementwise_functions import cast, erfc, multiply, negative, pow
from tfjit.ops.core.apply import tensor
from tfjit.ops.core.convert import convert_to_tensor
from tfjit.ops.core.declare import register_elementwise
from tfjit.ops.core.dispatch import unary_elementwise
from tfjit.ops.core.shape_rules import merged, unchanged
from tfjit.ops.core.sparse_values import maps_sparse_values
from tfjit.ops.core.type_lists import FLOAT_OR_COMPLEX, HALF_TO_DOUBLE

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import TensorLike

for _op_type in (
    "Elu",
    "Selu",
    "Softplus",
    "Softsign",
):
    register_elementwise(
        _op_type,
        inputs=("features: T",),
        outputs=("activations: T",),
        attrs=(f"T: {HALF_TO_DOUBLE}",),
        shape=unchanged,
    )
for _op_type in (
    "EluGrad",
    "SeluGrad",
):
    register_elementwise(
        _op_type,
        inputs=("gradients: T", "outputs: T"),
        outputs=("backprops: T",),
        attrs=(f"T: {HALF_TO_DOUBLE}",),
        shape=merged,
    )
register_elementwise(
    "LeakyRelu",
    inputs=("features: T",),
    outputs=("activations: T",),
    attrs=("alpha: float = 0.2", f"T: {HALF_TO_DOUBLE} = DT_FLOAT"),
    shape=unchanged,
)
register_elementwise(
    "LeakyReluGrad",
    inputs=("gradients: T", "features: T"),
    outputs=("backprops: T",),
    attrs=("alpha: float = 0.2", f"T: {HALF_TO_DOUBLE} = DT_FLOAT"),
    shape=merged,
)
register_elementwise(
    "Relu",
    inputs=("features: T",),
    outputs=("activations: T",),
    attrs=("T: {realnumbertype, qint8}",),
    shape=unchanged,
)
register_elementwise(
    "Relu6",
    inputs=("features: T",),
    outputs=("activations: T",),
    attrs=("T: realnumbertype",),
    shape=unchanged,
)
for _op_type in (
    "Relu6Grad",
    "ReluGrad",
):
    register_elementwise(
        _op_type,
        inputs=("gradients: T", "features: T"),
        outputs=("backprops: T",),
        attrs=("T: realnumbertype",),
        shape=merged,
    )
for _op_type in (
    "Sigmoid",
    "Tanh",
):
    register_elementwise(
        _op_type,
        inputs=("x: T",),
        outputs=("y: T",),
        attrs=(f"T: {FLOAT_OR_COMPLEX}",),
        shape=unchanged,
    )
for _op_type in (
    "SigmoidGrad",
    "TanhGrad",
):
    register_elementwise(
        _op_type,
        inputs=("y: T", "dy: T"),
        outputs=("z: T",),
        attrs=(f"T: {FLOAT_OR_COMPLEX}",),
        shape=unchanged,
    )
for _op_type in (
    "SoftplusGrad",
    "SoftsignGrad",
):
    register_elementwise(
        _op_type,
        inputs=("gradients: T", "features: T"),
        outputs=("backprops: T",),
        attrs=(f"T: {HALF_TO_DOUBLE}",),
        shape=merged,
    )

tanh = maps_sparse_values(elementwise_function("tanh", "Tanh", "Hyperbolic tangent."))
relu = elementwise_function("relu", "Relu", "max(x, 0).")
relu6 = elementwise_function("relu6", "Relu6", "min(max(x, 0), 6).")
elu = elementwise_function("elu", "Elu", "x, or e**x - 1 where negative.")
selu = elementwise_function("selu", "Selu", "The scaled exponential linear unit.")
softplus = elementwise_function("softplus", "Softplus", "log(e**x + 1).")
softsign = elementwise_function("softsign", "Softsign", "x / (|x| + 1).")
sigmoid = elementwise_function("sigmoid", "Sigmoid", "1 / (1 + e**-x).")


@unary_elementwise
def leaky_relu(features: TensorLike, alpha: TensorLike = 0.2, name: str | None = None) -> Tensor:
    """Return x, or alpha * x where negative."""
    return tensor("LeakyRelu", name, features=features, alpha=alpha)


@unary_elementwise
def log_sigmoid(x: TensorLike, name: str | None = None) -> Tensor:
    """Return log(sigmoid(x))."""
    with name_scope(name, "LogSigmoid", [x]) as scope:
        return negative(softplus(negative(x)), name=scope)


@unary_elementwise
def swish(features: TensorLike, beta: float = 1.0) -> Tensor:
    """Return x * sigmoid(beta * x)."""
    with name_scope(None, "swish", [features]):
        features = convert_to_tensor(features, name="features")
        return multiply(
            features,
            sigmoid(
                features
                if beta == 1.0
                else multiply(features, convert_to_tensor(beta, features.dtype.base_dtype))
            ),
        )


def gelu(features: TensorLike, approximate: bool = False, name: str | None = None) -> Tensor:
    """Return x times the normal distribution function of x.

    `approximate`: by tanh. Raises ValueError for integers. As in TensorFlow, float64
    has constants of float32.
    """
    with name_scope(name, "Gelu", [features]):
        x = convert_to_tensor(features, name="features")
        if not x.dtype.is_floating:
            raise ValueError(
                "`features.dtype` must be a floating point tensor."
                f"Received:features.dtype={x.dtype}"
            )
        if approximate:
            cubic = cast(0.044715, x.dtype.base_dtype) * pow(x, 3)
            return 0.5 * x * (1.0 + tanh(0.7978845608028654 * (x + cubic)))
        return 0.5 * x * erfc(-x * cast(0.7071067811865476, x.dtype.base_dtype))


def crelu(features: TensorLike, name: str | None = None, axis: int = -1) -> Tensor:
    """Join relu of x and of -x, side by side."""
    with name_scope(name, "CRelu", [features]) as scope:
        x = convert_to_tensor(features, name="features")
        both = tensor("ConcatV2", scope, values=[x, negative(x)], axis=axis)
        return relu(both)
