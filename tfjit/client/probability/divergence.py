"""The Kullback-Leibler divergence of two distributions, by their classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from tfjit import ops
from tfjit.framework.graphs.default_graph import control_dependencies, name_scope
from tfjit.framework.graphs.operation import Tensor

if TYPE_CHECKING:
    from tfjit.client.probability.distribution import Distribution

Divergence = TypeVar("Divergence", bound=Callable[..., Tensor])
_DIVERGENCES: dict[tuple[type, type], Callable[..., Tensor]] = {}


class RegisterKL:
    """Decorates the function of the divergence between two classes.

    The function has the arguments (a, b, name). Raises TypeError for a value that cannot be called,
    ValueError for a pair that has a function.
    """

    def __init__(self, dist_cls_a: type, dist_cls_b: type) -> None:
        self._key = (dist_cls_a, dist_cls_b)

    def __call__(self, kl_fn: Divergence) -> Divergence:
        if not callable(kl_fn):
            raise TypeError(f"kl_fn must be callable, received: {kl_fn}")
        if self._key in _DIVERGENCES:
            first, second = (kind.__name__ for kind in self._key)
            raise ValueError(
                f"KL({first} || {second}) has already been registered to: {_DIVERGENCES[self._key]}"
            )
        _DIVERGENCES[self._key] = kl_fn
        return kl_fn


def _function_for(first: type, second: type) -> Callable[..., Tensor] | None:
    """Return the function of the nearest base classes."""
    pairs = [
        (i + j, _DIVERGENCES[a, b])
        for i, a in enumerate(first.__mro__)
        for j, b in enumerate(second.__mro__)
        if (a, b) in _DIVERGENCES
    ]
    return min(pairs, key=lambda pair: pair[0])[1] if pairs else None


def kl_divergence(
    distribution_a: Distribution,
    distribution_b: Distribution,
    allow_nan_stats: bool = True,
    name: str | None = None,
) -> Tensor:
    """Return the divergence from one distribution to another, in nats.

    allow_nan_stats: False for an error of the run where it is NaN. Raises NotImplementedError for
    classes without a function (`RegisterKL`).
    """
    kinds = type(distribution_a), type(distribution_b)
    found = _function_for(*kinds)
    if found is None:
        raise NotImplementedError(
            "No KL(distribution_a || distribution_b) registered for distribution_a type "
            f"{kinds[0].__name__} and distribution_b type {kinds[1].__name__}"
        )
    with name_scope("KullbackLeibler"):
        value = found(distribution_a, distribution_b, name=name)
        if allow_nan_stats:
            return value
        value = ops.identity(value, name="kl")
        text = (
            f"KL calculation between {distribution_a.name} and {distribution_b.name} returned NaN "
            "values (and was called with allow_nan_stats=False). Values:"
        )
        is_number = ops.logical_not(ops.reduce_any(ops.is_nan(value)))
        with control_dependencies([ops.Assert(is_number, [text, value])]):
            return ops.identity(value, name="checked_kl")


def cross_entropy(ref: Distribution, other: Distribution, allow_nan_stats: bool) -> Tensor:
    """Return the cross entropy of two distributions, in nats."""
    with name_scope(None, "cross_entropy"):
        return ref.entropy() + kl_divergence(ref, other, allow_nan_stats)
