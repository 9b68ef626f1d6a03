"""Distributions of the counts of classes in several draws."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit import ops
from tfjit.client.probability.distribution import NOT_REPARAMETERIZED, Distribution
from tfjit.client.probability.parameters import (
    checked_classes,
    counts_of,
    log_combinations,
    logits_and_probs,
    new_seed,
    positive,
    whole_number,
)
from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types import dtypes
from tfjit.framework.types.shape import TensorShape
from tfjit.ops import nn
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import TensorLike


class Multinomial(Distribution):
    """The distribution of the counts of classes in `total_count` draws.

    total_count: [batch], of the parameters' dtype. One of logits and probs is given, as floats
    [batch, classes].
    """

    def __init__(
        self,
        total_count: TensorLike,
        logits: TensorLike | None = None,
        probs: TensorLike | None = None,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Multinomial",
    ) -> None:
        given = {"total_count": total_count, "logits": logits, "probs": probs}
        given.update(validate_args=validate_args, allow_nan_stats=allow_nan_stats, name=name)
        with name_scope(name, values=[total_count, logits, probs]) as scope:
            self._total_count = convert_to_tensor(total_count, name="total_count")
            if validate_args:
                self._total_count = whole_number(self._total_count)
            self._logits, self._probs = logits_and_probs(
                logits, probs, validate_args, scope, classes=True
            )
            self._expected = self._total_count[..., None] * self._probs
        super().__init__(
            self._probs.dtype,
            NOT_REPARAMETERIZED,
            validate_args,
            allow_nan_stats,
            given,
            [self._total_count, self._logits, self._probs],
            scope,
        )

    @property
    def total_count(self) -> Tensor:
        """Number of draws."""
        return self._total_count

    @property
    def logits(self) -> Tensor:
        """Logarithms of probabilities, up to a number for all classes."""
        return self._logits

    @property
    def probs(self) -> Tensor:
        """Probabilities."""
        return self._probs

    def _batch_shape_tensor(self) -> Tensor:
        return ops.shape(self._expected)[:-1]

    def _batch_shape(self) -> TensorShape:
        return self._expected.shape.with_rank_at_least(1)[:-1]

    def _event_shape_tensor(self) -> Tensor:
        return ops.shape(self._expected)[-1:]

    def _event_shape(self) -> TensorShape:
        return self._expected.shape.with_rank_at_least(1)[-1:]

    def _sample_n(self, n: TensorLike, seed: int | None = None) -> Tensor:
        draws = ops.cast(self.total_count, dtypes.int32)
        classes = self.event_shape_tensor()[0]
        draws = ops.ones_like(self.logits[..., 0], dtype=draws.dtype) * draws
        logits = ops.ones_like(draws[..., None], dtype=self.logits.dtype) * self.logits
        rows = ops.reshape(logits, [-1, classes])
        row_draws = n * ops.reshape(draws, [-1])

        def counts(row: list[Tensor]) -> Tensor:
            drawn = ops.multinomial(row[0][None, ...], row[1], seed)
            drawn = ops.reshape(drawn, [n, -1])
            return ops.reduce_sum(ops.one_hot(drawn, depth=classes), axis=-2)

        made = ops.map_fn(counts, [rows, row_draws], dtype=self.dtype)
        made = ops.transpose(made, [1, 0, 2])
        return ops.reshape(made, ops.concat([[n], self.batch_shape_tensor(), [classes]], 0))

    def _log_prob(self, value: Tensor) -> Tensor:
        return self._log_unnormalized_prob(value) - self._log_normalization(value)

    def _log_unnormalized_prob(self, value: Tensor) -> Tensor:
        counts = self._checked(value)
        return ops.reduce_sum(counts * nn.log_softmax(self.logits), -1)

    def _log_normalization(self, value: Tensor) -> Tensor:
        counts = self._checked(value)
        return -log_combinations(self.total_count, counts)

    def _mean(self) -> Tensor:
        return ops.identity(self._expected)

    def _wide_probs(self) -> Tensor:
        return self.probs * ops.ones_like(self.total_count)[..., None]

    def _covariance(self) -> Tensor:
        probs = self._wide_probs()
        products = -ops.matmul(self._expected[..., None], probs[..., None, :])
        return ops.matrix_set_diag(products, self._variance())

    def _variance(self) -> Tensor:
        probs = self._wide_probs()
        return self._expected - self._expected * probs

    def _checked(self, counts: Tensor) -> Tensor:
        message = "counts must sum to `self.total_count`"
        return counts_of(self.total_count, counts, message, self.validate_args)


class DirichletMultinomial(Distribution):
    """The distribution of counts whose probabilities have a Dirichlet distribution.

    total_count: [batch], of the concentrations' dtype. concentration: positive floats
    [batch, classes].
    """

    def __init__(
        self,
        total_count: TensorLike,
        concentration: TensorLike,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "DirichletMultinomial",
    ) -> None:
        given = {"total_count": total_count, "concentration": concentration}
        given.update(validate_args=validate_args, allow_nan_stats=allow_nan_stats, name=name)
        with name_scope(name, values=[total_count, concentration]) as scope:
            self._total_count = convert_to_tensor(total_count, name="total_count")
            if validate_args:
                self._total_count = whole_number(self._total_count)
            value = convert_to_tensor(concentration, name="concentration")
            value = checked_classes(value) if validate_args else value
            message = "Concentration parameter must be positive."
            self._concentration = positive(value, message, validate_args)
            self._total_concentration = ops.reduce_sum(self._concentration, -1)
        super().__init__(
            self._concentration.dtype,
            NOT_REPARAMETERIZED,
            validate_args,
            allow_nan_stats,
            given,
            [self._total_count, self._concentration],
            scope,
        )

    @property
    def total_count(self) -> Tensor:
        """Number of draws."""
        return self._total_count

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
        draws = ops.cast(self.total_count, dtypes.int32)
        classes = self.event_shape_tensor()[0]
        gamma = ops.random_gamma([n], self.concentration, dtype=self.dtype, seed=seed)
        logits = ops.reshape(ops.log(gamma), [-1, classes])
        drawn = ops.multinomial(logits, draws, new_seed(seed, "dirichlet_multinomial"))
        counts = ops.reduce_sum(ops.one_hot(drawn, depth=classes), -2)
        shape = ops.concat([[n], self.batch_shape_tensor(), [classes]], 0)
        return ops.cast(ops.reshape(counts, shape), self.dtype)

    def _log_prob(self, value: Tensor) -> Tensor:
        message = "counts last-dimension must sum to `self.total_count`"
        counts = counts_of(self.total_count, value, message, self.validate_args)
        ordered = ops.lbeta(self.concentration + counts) - ops.lbeta(self.concentration)
        return ordered + log_combinations(self.total_count, counts)

    def _prob(self, value: Tensor) -> Tensor:
        return ops.exp(self._log_prob(value))

    def _mean(self) -> Tensor:
        return self.total_count * (self.concentration / self.total_concentration[..., None])

    def _covariance(self) -> Tensor:
        x = self._variance_scale() * self._mean()
        products = -ops.matmul(x[..., None], x[..., None, :])
        return ops.matrix_set_diag(products, self._variance())

    def _variance(self) -> Tensor:
        scale = self._variance_scale()
        x = scale * self._mean()
        return x * (self.total_count * scale - x)

    def _variance_scale(self) -> Tensor:
        total = self.total_concentration[..., None]
        return ops.sqrt((1.0 + total / self.total_count) / (1.0 + total))
