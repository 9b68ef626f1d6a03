"""The beta and the Dirichlet distribution."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tfjit import ops
from tfjit.client.probability.distribution import (
    FULLY_REPARAMETERIZED,
    Distribution,
    ScalarDistribution,
)
from tfjit.client.probability.divergence import RegisterKL
from tfjit.client.probability.parameters import new_seed, param_shapes, positive, select
from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types.shape import TensorShape
from tfjit.ops import math
from tfjit.ops.control_flow.control_flow import with_dependencies
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import TensorLike

_POSITIVE = "Concentration parameter must be positive."


class Beta(ScalarDistribution):
    """The beta distribution over (0, 1), of two positive concentrations.

    Both are floats of one dtype and broadcast to the shape of the batch.
    """

    def __init__(
        self,
        concentration1: TensorLike | None = None,
        concentration0: TensorLike | None = None,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Beta",
    ) -> None:
        given = {"concentration1": concentration1, "concentration0": concentration0}
        given.update(validate_args=validate_args, allow_nan_stats=allow_nan_stats, name=name)
        with name_scope(name, values=[concentration1, concentration0]) as scope:
            first = convert_to_tensor(concentration1, name="concentration1")
            self._concentration1 = positive(first, _POSITIVE, validate_args)
            second = convert_to_tensor(concentration0, name="concentration0")
            self._concentration0 = positive(second, _POSITIVE, validate_args)
            ops.assert_same_float_dtype([self._concentration1, self._concentration0])
            self._total_concentration = self._concentration1 + self._concentration0
        super().__init__(
            self._total_concentration.dtype,
            FULLY_REPARAMETERIZED,
            validate_args,
            allow_nan_stats,
            given,
            [self._concentration1, self._concentration0, self._total_concentration],
            scope,
        )

    @staticmethod
    def _param_shapes(sample_shape: TensorLike) -> dict[str, Tensor]:
        return param_shapes(sample_shape, ("concentration1", "concentration0"))

    @property
    def concentration1(self) -> Tensor:
        """Concentration of 1."""
        return self._concentration1

    @property
    def concentration0(self) -> Tensor:
        """Concentration of 0."""
        return self._concentration0

    @property
    def total_concentration(self) -> Tensor:
        """Sum of the concentrations."""
        return self._total_concentration

    def _batch_shape_tensor(self) -> Tensor:
        return ops.shape(self.total_concentration)

    def _batch_shape(self) -> TensorShape:
        return self.total_concentration.shape

    def _sample_n(self, n: TensorLike, seed: int | None = None) -> Tensor:
        first, second = (
            ops.ones_like(self.total_concentration, dtype=self.dtype) * concentration
            for concentration in (self.concentration1, self.concentration0)
        )
        a = ops.random_gamma([n], first, dtype=self.dtype, seed=seed)
        b = ops.random_gamma([n], second, dtype=self.dtype, seed=new_seed(seed, "beta"))
        return a / (a + b)

    def _log_prob(self, value: Tensor) -> Tensor:
        return self._log_unnormalized_prob(value) - self._log_normalization()

    def _prob(self, value: Tensor) -> Tensor:
        return ops.exp(self._log_prob(value))

    def _log_cdf(self, value: Tensor) -> Tensor:
        return ops.log(self._cdf(value))

    def _cdf(self, value: Tensor) -> Tensor:
        return ops.betainc(self.concentration1, self.concentration0, value)

    def _log_unnormalized_prob(self, value: Tensor) -> Tensor:
        value = self._checked(value)
        first = math.xlogy(self.concentration1 - 1.0, value)
        return first + (self.concentration0 - 1.0) * ops.log1p(-value)

    def _log_normalization(self) -> Tensor:
        return (
            ops.lgamma(self.concentration1)
            + ops.lgamma(self.concentration0)
            - ops.lgamma(self.total_concentration)
        )

    def _entropy(self) -> Tensor:
        return (
            self._log_normalization()
            - (self.concentration1 - 1.0) * ops.digamma(self.concentration1)
            - (self.concentration0 - 1.0) * ops.digamma(self.concentration0)
            + (self.total_concentration - 2.0) * ops.digamma(self.total_concentration)
        )

    def _mean(self) -> Tensor:
        return self._concentration1 / self._total_concentration

    def _variance(self) -> Tensor:
        return self._mean() * (1.0 - self._mean()) / (1.0 + self.total_concentration)

    def _mode(self) -> Tensor:
        mode = (self.concentration1 - 1.0) / (self.total_concentration - 2.0)
        if self.allow_nan_stats:
            nan = np.array(np.nan, self.dtype.as_numpy_dtype)
            nans = ops.fill(self.batch_shape_tensor(), nan, name="nan")
            defined = ops.logical_and(
                ops.greater(self.concentration1, 1.0), ops.greater(self.concentration0, 1.0)
            )
            return select(defined, mode, nans)
        checks = [
            ops.assert_less(
                ops.ones([], dtype=self.dtype),
                concentration,
                message=f"Mode undefined for concentration{k} <= 1.",
            )
            for k, concentration in ((1, self.concentration1), (0, self.concentration0))
        ]
        return with_dependencies(checks, mode)

    def _checked(self, value: Tensor) -> Tensor:
        if not self.validate_args:
            return value
        checks = [ops.assert_positive(value, message="sample must be positive")]
        one = ops.ones([], self.dtype)
        checks.append(ops.assert_less(value, one, message="sample must be less than `1`."))
        return with_dependencies(checks, value)


@RegisterKL(Beta, Beta)
def _kl_beta(a: Beta, b: Beta, name: str | None = None) -> Tensor:
    parents = [*a._graph_parents, *b._graph_parents]
    with name_scope(name, "kl_beta_beta", parents):
        second, first = b._log_normalization(), a._log_normalization()
        return (
            (second - first)
            - ops.digamma(a.concentration1) * (b.concentration1 - a.concentration1)
            - ops.digamma(a.concentration0) * (b.concentration0 - a.concentration0)
            + ops.digamma(a.total_concentration) * (b.total_concentration - a.total_concentration)
        )


class Dirichlet(Distribution):
    """The Dirichlet distribution over vectors of positive numbers of sum 1.

    concentration: positive floats [batch, size]; size is at least 2.
    """

    def __init__(
        self,
        concentration: TensorLike,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Dirichlet",
    ) -> None:
        given = {"concentration": concentration, "validate_args": validate_args}
        given.update(allow_nan_stats=allow_nan_stats, name=name)
        with name_scope(name, values=[concentration]) as scope:
            value = convert_to_tensor(concentration, name="concentration")
            self._concentration = _checked_concentration(value) if validate_args else value
            self._total_concentration = ops.reduce_sum(self._concentration, -1)
        super().__init__(
            self._concentration.dtype,
            FULLY_REPARAMETERIZED,
            validate_args,
            allow_nan_stats,
            given,
            [self._concentration, self._total_concentration],
            scope,
        )

    @property
    def concentration(self) -> Tensor:
        """The concentrations."""
        return self._concentration

    @property
    def total_concentration(self) -> Tensor:
        """Sum of the concentrations, [batch]."""
        return self._total_concentration

    def _batch_shape_tensor(self) -> Tensor:
        return ops.shape(self.total_concentration)

    def _batch_shape(self) -> TensorShape:
        return self.total_concentration.shape

    def _event_shape_tensor(self) -> Tensor:
        return ops.shape(self.concentration)[-1:]

    def _event_shape(self) -> TensorShape:
        return self.concentration.shape.with_rank_at_least(1)[-1:]

    def _sample_n(self, n: TensorLike, seed: int | None = None) -> Tensor:
        drawn = ops.random_gamma([n], self.concentration, dtype=self.dtype, seed=seed)
        return drawn / ops.reduce_sum(drawn, -1, keepdims=True)

    def _log_prob(self, value: Tensor) -> Tensor:
        return self._log_unnormalized_prob(value) - self._log_normalization()

    def _prob(self, value: Tensor) -> Tensor:
        return ops.exp(self._log_prob(value))

    def _log_unnormalized_prob(self, value: Tensor) -> Tensor:
        value = self._checked(value)
        return ops.reduce_sum(math.xlogy(self.concentration - 1.0, value), -1)

    def _log_normalization(self) -> Tensor:
        return ops.lbeta(self.concentration)

    def _size(self) -> Tensor:
        return ops.cast(self.event_shape_tensor()[0], self.dtype)

    def _entropy(self) -> Tensor:
        size = self._size()
        return (
            self._log_normalization()
            + (self.total_concentration - size) * ops.digamma(self.total_concentration)
            - ops.reduce_sum((self.concentration - 1.0) * ops.digamma(self.concentration), axis=-1)
        )

    def _mean(self) -> Tensor:
        return self.concentration / self.total_concentration[..., None]

    def _covariance(self) -> Tensor:
        x = self._variance_scale() * self._mean()
        products = -ops.matmul(x[..., None], x[..., None, :])
        return ops.matrix_set_diag(products, self._variance())

    def _variance(self) -> Tensor:
        scale = self._variance_scale()
        x = scale * self._mean()
        return x * (scale - x)

    def _variance_scale(self) -> Tensor:
        return ops.rsqrt(1.0 + self.total_concentration[..., None])

    def _mode(self) -> Tensor:
        size = self._size()
        mode = (self.concentration - 1.0) / (self.total_concentration[..., None] - size)
        if self.allow_nan_stats:
            nan = np.array(np.nan, self.dtype.as_numpy_dtype)
            nans = ops.fill(ops.shape(mode), nan, name="nan")
            return select(ops.reduce_all(ops.greater(self.concentration, 1.0), axis=-1), mode, nans)
        message = "Mode undefined when any concentration <= 1"
        one = ops.ones([], self.dtype)
        check = ops.assert_less(one, self.concentration, message=message)
        return with_dependencies([check], mode)

    def _checked(self, value: Tensor) -> Tensor:
        if not self.validate_args:
            return value
        checks = [ops.assert_positive(value, message="samples must be positive")]
        one, total = ops.ones([], dtype=self.dtype), ops.reduce_sum(value, -1)
        message = "sample last-dimension must sum to `1`"
        checks.append(ops.assert_near(one, total, message=message))
        return with_dependencies(checks, value)


def _checked_concentration(value: Tensor) -> Tensor:
    scalar = "Concentration parameter must have >=1 dimensions."
    few = "Concentration parameter must have event_size >= 2."
    checks = [
        ops.assert_positive(value, message=_POSITIVE),
        ops.assert_rank_at_least(value, 1, message=scalar),
        ops.assert_less(1, ops.shape(value)[-1], message=few),
    ]
    return with_dependencies(checks, value)


@RegisterKL(Dirichlet, Dirichlet)
def _kl_dirichlet(a: Dirichlet, b: Dirichlet, name: str | None = None) -> Tensor:
    with name_scope(name, "kl_dirichlet_dirichlet", [a.concentration, b.concentration]):
        total = ops.digamma(ops.reduce_sum(a.concentration, axis=-1, keepdims=True))
        expected = ops.digamma(a.concentration) - total
        apart = a.concentration - b.concentration
        return (
            ops.reduce_sum(apart * expected, axis=-1)
            - ops.lbeta(a.concentration)
            + ops.lbeta(b.concentration)
        )
