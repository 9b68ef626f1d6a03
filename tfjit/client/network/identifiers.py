"""Activations, initializers, regularizers and constraints that a layer is told by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from tfjit.client.variables import initializers
from tfjit.framework.graphs.operation import Tensor
from tfjit.ops.arithmetic.elementwise_functions import abs as absolute
from tfjit.ops.arithmetic.elementwise_functions import (
    cast,
    clip_by_value,
    exp,
    greater_equal,
    sqrt,
    square,
)
from tfjit.ops.arithmetic.reduction import reduce_sum
from tfjit.ops.layers import activation as functions
from tfjit.ops.layers.normalization_functions import softmax

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Structure


def linear(x: Structure) -> Structure:
    """Return the argument."""
    return x


def hard_sigmoid(x: Tensor) -> Tensor:
    """Return 0.2 x + 0.5, clipped to 0 and 1."""
    return clip_by_value(x * 0.2 + 0.5, 0.0, 1.0)


_ACTIVATIONS: Final[dict[str, Callable[..., Structure]]] = {
    "elu": functions.elu,
    "exponential": exp,
    "gelu": functions.gelu,
    "hard_sigmoid": hard_sigmoid,
    "leaky_relu": functions.leaky_relu,
    "linear": linear,
    "relu": functions.relu,
    "relu6": functions.relu6,
    "selu": functions.selu,
    "sigmoid": functions.sigmoid,
    "softmax": softmax,
    "softplus": functions.softplus,
    "softsign": functions.softsign,
    "swish": functions.swish,
    "tanh": functions.tanh,
}


def _scaled(scale: float, mode: str, distribution: str) -> Callable[[], Structure]:
    return lambda: initializers.VarianceScaling(scale, mode, distribution)


_INITIALIZERS: Final[dict[str, Callable[[], Structure]]] = {
    "constant": initializers.Constant,
    "glorot_normal": initializers.GlorotNormal,
    "glorot_uniform": initializers.GlorotUniform,
    "he_normal": _scaled(2.0, "fan_in", "truncated_normal"),
    "he_uniform": _scaled(2.0, "fan_in", "uniform"),
    "identity": initializers.Identity,
    "lecun_normal": _scaled(1.0, "fan_in", "truncated_normal"),
    "lecun_uniform": _scaled(1.0, "fan_in", "uniform"),
    "normal": lambda: initializers.RandomNormal(0.0, 0.05),
    "one": initializers.Ones,
    "ones": initializers.Ones,
    "orthogonal": initializers.Orthogonal,
    "random_normal": lambda: initializers.RandomNormal(0.0, 0.05),
    "random_uniform": lambda: initializers.RandomUniform(-0.05, 0.05),
    "truncated_normal": lambda: initializers.TruncatedNormal(0.0, 0.05),
    "uniform": lambda: initializers.RandomUniform(-0.05, 0.05),
    "variance_scaling": initializers.VarianceScaling,
    "zero": initializers.Zeros,
    "zeros": initializers.Zeros,
}

_FACTOR: Final = 0.01  # of the regularizers that have a name


def _sum_of(*parts: Callable[[Tensor], Tensor]) -> Callable[[], Callable[[Tensor], Tensor]]:
    def regularizer(x: Tensor) -> Tensor:
        losses = [reduce_sum(part(x)) * _FACTOR for part in parts]
        return losses[0] if len(losses) == 1 else losses[0] + losses[1]

    return lambda: regularizer


_REGULARIZERS: Final[dict[str, Callable[[], Structure]]] = {
    "l1": _sum_of(absolute),
    "l1_l2": _sum_of(absolute, square),
    "l2": _sum_of(square),
}

_TINY: Final = 1e-7  # keeps norms off zero


def _norms(w: Tensor) -> Tensor:
    """Return the norm of each column, with the first axis kept."""
    return sqrt(reduce_sum(square(w), axis=0, keepdims=True))


def _max_norm(w: Tensor) -> Tensor:
    norms = _norms(w)
    return w * (clip_by_value(norms, 0.0, 2.0) / (norms + _TINY))


def _min_max_norm(w: Tensor) -> Tensor:
    norms = _norms(w)
    return w * (clip_by_value(norms, 0.0, 1.0) / (norms + _TINY))


def _non_negative(w: Tensor) -> Tensor:
    return w * cast(greater_equal(w, 0.0), w.dtype.base_dtype)


def _unit_norm(w: Tensor) -> Tensor:
    return w / (_norms(w) + _TINY)


_CONSTRAINTS: Final[dict[str, Callable[[], Structure]]] = {
    "max_norm": lambda: _max_norm,
    "min_max_norm": lambda: _min_max_norm,
    "non_neg": lambda: _non_negative,
    "nonneg": lambda: _non_negative,
    "unit_norm": lambda: _unit_norm,
}


def _named(
    table: dict[str, Callable[[], Structure]], kind: str, identifier: Structure
) -> Structure:
    """Return a callable as it is, that of a name, or None."""
    if identifier is None or callable(identifier):
        return identifier
    if not isinstance(identifier, str):
        raise ValueError(f"Could not interpret {kind} identifier: {identifier}")
    if identifier not in table:
        raise ValueError(f"Unknown {kind}: {identifier!r}. Known: {', '.join(sorted(table))}.")
    return table[identifier]()


def find_activation(identifier: Structure) -> Callable[..., Structure]:
    """Return the activation: a function, that of a name, `linear` for None.

    Raises TypeError for another kind of value, ValueError for an unknown name.
    """
    if identifier is None:
        return linear
    if callable(identifier):
        found: Callable[..., Structure] = identifier
        return found
    if not isinstance(identifier, str):
        raise TypeError(f"Could not interpret activation function identifier: {identifier}")
    if identifier not in _ACTIVATIONS:
        raise ValueError(
            f"Unknown activation function: {identifier!r}. Known: "
            f"{', '.join(sorted(_ACTIVATIONS))}."
        )
    return _ACTIVATIONS[identifier]


def find_initializer(identifier: Structure) -> Structure:
    """Return the initializer: a callable, or that of a name.

    None is the scope's. Raises ValueError for another value or an unknown name.
    """
    return _named(_INITIALIZERS, "initializer", identifier)


def find_regularizer(identifier: Structure) -> Structure:
    """Return the regularizer: a callable, that of a name, or None."""
    return _named(_REGULARIZERS, "regularizer", identifier)


def find_constraint(identifier: Structure) -> Structure:
    """Return the constraint: a callable, that of a name, or None."""
    return _named(_CONSTRAINTS, "constraint", identifier)
