"""Distributions of single events among few: Bernoulli and categorical."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit import ops
from tfjit.client.probability.distribution import NOT_REPARAMETERIZED, ScalarDistribution
from tfjit.client.probability.divergence import RegisterKL
from tfjit.client.probability.parameters import (
    checked_classes,
    logits_and_probs,
    param_shapes,
    whole_number_of,
)
from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types import dtypes
from tfjit.framework.types.dtypes import DType
from tfjit.framework.types.shape import TensorShape
from tfjit.ops import nn
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import TensorLike


class Bernoulli(ScalarDistribution):
    """The distribution of 1 with a probability, else 0.

    One of logits (log-odds) and probs is given, as floats. dtype: of samples.
    """

    def __init__(
        self,
        logits: TensorLike | None = None,
        probs: TensorLike | None = None,
        dtype: DType = dtypes.int32,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Bernoulli",
    ) -> None:
        given = {"logits": logits, "probs": probs, "dtype": dtype, "validate_args": validate_args}
        given.update(allow_nan_stats=allow_nan_stats, name=name)
        with name_scope(name) as scope:
            self._logits, self._probs = logits_and_probs(logits, probs, validate_args, scope)
        super().__init__(
            dtype,
            NOT_REPARAMETERIZED,
            validate_args,
            allow_nan_stats,
            given,
            [self._logits, self._probs],
            scope,
        )

    @staticmethod
    def _param_shapes(sample_shape: TensorLike) -> dict[str, Tensor]:
        return param_shapes(sample_shape, ("logits",))

    @property
    def logits(self) -> Tensor:
        """Log-odds of 1."""
        return self._logits

    @property
    def probs(self) -> Tensor:
        """Probability of 1."""
        return self._probs

    def _batch_shape_tensor(self) -> Tensor:
        return ops.shape(self._logits)

    def _batch_shape(self) -> TensorShape:
        return self._logits.shape

    def _sample_n(self, n: TensorLike, seed: int | None = None) -> Tensor:
        shape = ops.concat([[n], self.batch_shape_tensor()], 0)
        drawn = ops.random_uniform(shape, seed=seed, dtype=self.probs.dtype)
        return ops.cast(ops.less(drawn, self.probs), self.dtype)

    def _log_prob(self, value: Tensor) -> Tensor:
        if self.validate_args:
            value = whole_number_of(value, dtypes.bool)
        logits = self.logits
        value = ops.cast(value, logits.dtype)
        known = value.shape.is_fully_defined() and logits.shape.is_fully_defined()
        if not (known and value.shape == logits.shape):
            logits, value = (
                ops.ones_like(value) * logits,
                ops.ones_like(logits) * value,
            )
        return -nn.sigmoid_cross_entropy_with_logits(labels=value, logits=logits)

    def _entropy(self) -> Tensor:
        return -self.logits * (ops.sigmoid(self.logits) - 1) + nn.softplus(-self.logits)

    def _mean(self) -> Tensor:
        return ops.identity(self.probs)

    def _variance(self) -> Tensor:
        return self._mean() * (1.0 - self.probs)

    def _mode(self) -> Tensor:
        return ops.cast(ops.greater(self.probs, 0.5), self.dtype)


@RegisterKL(Bernoulli, Bernoulli)
def _kl_bernoulli(a: Bernoulli, b: Bernoulli, name: str | None = None) -> Tensor:
    with name_scope(name, "kl_bernoulli_bernoulli", values=[a.logits, b.logits]):
        of_0 = nn.softplus(-b.logits) - nn.softplus(-a.logits)
        of_1 = nn.softplus(b.logits) - nn.softplus(a.logits)
        return ops.sigmoid(a.logits) * of_0 + ops.sigmoid(-a.logits) * of_1


class Categorical(ScalarDistribution):
    """The distribution of one class among several.

    One of logits and probs is given, as floats [batch, classes]. dtype: of samples.
    """

    def __init__(
        self,
        logits: TensorLike | None = None,
        probs: TensorLike | None = None,
        dtype: DType = dtypes.int32,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Categorical",
    ) -> None:
        given = {"logits": logits, "probs": probs, "dtype": dtype, "validate_args": validate_args}
        given.update(allow_nan_stats=allow_nan_stats, name=name)
        with name_scope(name, values=[logits, probs]) as scope:
            self._logits, self._probs = logits_and_probs(
                logits, probs, validate_args, scope, classes=True
            )
            if validate_args:
                self._logits = checked_classes(self._logits)
            self._find_sizes()
        super().__init__(
            dtype,
            NOT_REPARAMETERIZED,
            validate_args,
            allow_nan_stats,
            given,
            [self._logits, self._probs],
            scope,
        )

    def _find_sizes(self) -> None:
        """Make tensors of the batch's shape and the number of classes."""
        known = self._logits.shape.with_rank_at_least(1)
        sizes = known.as_list() if known.rank is not None else None
        integer = dtypes.int32
        if sizes is not None:
            self._batch_rank = convert_to_tensor(len(sizes) - 1, integer, name="batch_rank")
        else:
            with name_scope("batch_rank"):
                self._batch_rank = ops.rank(self._logits) - 1
        shape = ops.shape(self._logits, name="logits_shape")
        if sizes is not None and sizes[-1] is not None:
            self._event_size = convert_to_tensor(sizes[-1], integer, name="event_size")
        else:
            with name_scope("event_size"):
                self._event_size = shape[self._batch_rank]
        if sizes is not None and None not in sizes[:-1]:
            self._batch_sizes = ops.constant(sizes[:-1], integer, name="batch_shape")
        else:
            with name_scope("batch_shape"):
                self._batch_sizes = shape[:-1]

    @property
    def event_size(self) -> Tensor:
        """Number of classes."""
        return self._event_size

    @property
    def logits(self) -> Tensor:
        """Logarithms of probabilities, up to a number for all classes."""
        return self._logits

    @property
    def probs(self) -> Tensor:
        """Probabilities."""
        return self._probs

    def _batch_shape_tensor(self) -> Tensor:
        return ops.identity(self._batch_sizes)

    def _batch_shape(self) -> TensorShape:
        return self.logits.shape[:-1]

    def _sample_n(self, n: TensorLike, seed: int | None = None) -> Tensor:
        logits = self.logits
        if logits.shape.rank != 2:
            logits = ops.reshape(logits, [-1, self.event_size])
        kind = dtypes.int64 if self.dtype.size > 4 else dtypes.int32
        drawn = ops.multinomial(logits, n, seed=seed, output_dtype=kind)
        columns = ops.transpose(drawn)
        made = ops.reshape(columns, ops.concat([[n], self.batch_shape_tensor()], 0))
        return ops.cast(made, self.dtype)

    def _cdf(self, value: Tensor) -> Tensor:
        value, probs = self._broadcast(value, self.probs)
        rows = ops.reshape(probs, (-1, self._event_size))
        numbers = ops.reshape(value, [-1])
        below = ops.sequence_mask(numbers, self._event_size)
        summed = ops.where(below, rows, ops.zeros_like(rows))
        return ops.reshape(ops.reduce_sum(summed, axis=-1), ops.shape(value))

    def _log_prob(self, value: Tensor) -> Tensor:
        value, logits = self._broadcast(value, self.logits)
        return -nn.sparse_softmax_cross_entropy_with_logits(labels=value, logits=logits)

    def _broadcast(self, value: Tensor, parameters: Tensor) -> tuple[Tensor, Tensor]:
        """Return classes [...] and parameters [..., classes] of one shape.

        Raises TypeError for classes that are no numbers.
        """
        value = convert_to_tensor(value, name="k")
        if self.validate_args:
            value = whole_number_of(value, dtypes.int32)
        if value.dtype.is_floating:
            value = ops.cast(value, dtypes.int32)
        elif not value.dtype.is_integer:
            raise TypeError(
                f"`value` should have integer `dtype` or `self.dtype` ({self.dtype.base_dtype})"
            )
        known = parameters.shape.rank is not None and parameters.shape[:-1].is_fully_defined()
        if known and value.shape.is_fully_defined() and parameters.shape[:-1] == value.shape:
            return value, parameters
        ones = ops.ones_like(value[..., None], dtype=parameters.dtype)
        parameters = parameters * ones
        value = value * ops.ones(ops.shape(parameters)[:-1], dtype=value.dtype)
        if parameters.shape.rank is not None:
            value.set_shape(parameters.shape[:-1])
        return value, parameters

    def _entropy(self) -> Tensor:
        return -ops.reduce_sum(nn.log_softmax(self.logits) * self.probs, axis=-1)

    def _mode(self) -> Tensor:
        found = ops.cast(ops.argmax(self.logits, axis=self._batch_rank), self.dtype)
        found.set_shape(self.batch_shape)
        return found


@RegisterKL(Categorical, Categorical)
def _kl_categorical(a: Categorical, b: Categorical, name: str | None = None) -> Tensor:
    with name_scope(name, "kl_categorical_categorical", values=[a.logits, b.logits]):
        apart = nn.log_softmax(a.logits) - nn.log_softmax(b.logits)
        return ops.reduce_sum(nn.softmax(a.logits) * apart, axis=-1)
