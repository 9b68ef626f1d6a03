"""The base of distributions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tfjit import ops
from tfjit.client.probability import divergence
from tfjit.client.probability.shapes import (
    as_vector,
    is_scalar,
    set_sample_shape,
    size_tensor,
)
from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.graphs.static_value import constant_value
from tfjit.framework.types import dtypes
from tfjit.framework.types.dtypes import DType
from tfjit.framework.types.shape import TensorShape
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import ShapeLike, Structure, TensorLike


class ReparameterizationType:
    """The passage of gradients from samples to parameters: all or none.

    Two are equal only where they are one object.
    """

    def __init__(self, rep_type: str) -> None:
        self._rep_type = rep_type

    def __repr__(self) -> str:
        return f"<Reparameterization Type: {self._rep_type}>"

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__


FULLY_REPARAMETERIZED = ReparameterizationType("FULLY_REPARAMETERIZED")
NOT_REPARAMETERIZED = ReparameterizationType("NOT_REPARAMETERIZED")


class Distribution:
    """Base of distributions.

    A subclass defines the methods of an underscore that it can compute. A batch of distributions
    has one event each. dtype: of samples. parameters: the arguments of the constructor, for `copy`.
    graph_parents: tensors that the results depend on. validate_args: whether runs check parameters
    and values. allow_nan_stats: whether a statistic that is not defined is NaN; else a run with one
    fails. Raises ValueError for a parent that is no tensor.
    """

    def __init__(
        self,
        dtype: DType,
        reparameterization_type: ReparameterizationType,
        validate_args: bool,
        allow_nan_stats: bool,
        parameters: dict[str, Structure] | None = None,
        graph_parents: Sequence[Tensor] | None = None,
        name: str | None = None,
    ) -> None:
        parents = list(graph_parents or ())
        for k, parent in enumerate(parents):
            if not isinstance(parent, Tensor):
                raise ValueError(f"Graph parent item {k} is not a Tensor; {parent}.")
        if not name or not name.endswith("/"):
            with name_scope(name or type(self).__name__) as scope:
                name = scope
        self._dtype = dtype
        self._reparameterization_type = reparameterization_type
        self._validate_args, self._allow_nan_stats = validate_args, allow_nan_stats
        self._parameters = dict(parameters or {})
        self._graph_parents = parents
        self._name = name

    @classmethod
    def param_shapes(
        cls, sample_shape: TensorLike, name: str = "DistributionParamShapes"
    ) -> dict[str, Tensor]:
        """Return the shapes of parameters for samples of a shape, by name."""
        with name_scope(name, values=[sample_shape]):
            return cls._param_shapes(sample_shape)

    @classmethod
    def param_static_shapes(cls, sample_shape: ShapeLike) -> dict[str, TensorShape]:
        """Return `param_shapes` for a known shape. Raises ValueError for another one."""
        if isinstance(sample_shape, TensorShape):
            if not sample_shape.is_fully_defined():
                raise ValueError("TensorShape sample_shape must be fully defined")
            sample_shape = sample_shape.as_list()
        found = {}
        for name, shape in cls.param_shapes(sample_shape).items():
            known = constant_value(shape)
            if known is None:
                raise ValueError("sample_shape must be a fully-defined TensorShape or list/tuple")
            found[name] = TensorShape(known.tolist())
        return found

    @staticmethod
    def _param_shapes(sample_shape: TensorLike) -> dict[str, Tensor]:
        raise NotImplementedError("_param_shapes not implemented")

    @property
    def name(self) -> str:
        """Name scope of the distribution, with a slash."""
        return self._name

    @property
    def dtype(self) -> DType:
        """Dtype of samples."""
        return self._dtype

    @property
    def parameters(self) -> dict[str, Structure]:
        """Arguments of the constructor."""
        return dict(self._parameters)

    @property
    def reparameterization_type(self) -> ReparameterizationType:
        """The passage of gradients through samples."""
        return self._reparameterization_type

    @property
    def allow_nan_stats(self) -> bool:
        """True where an undefined statistic is NaN."""
        return self._allow_nan_stats

    @property
    def validate_args(self) -> bool:
        """True where runs check parameters and values."""
        return self._validate_args

    def copy(self, **override_parameters_kwargs: Structure) -> Distribution:
        """Return a distribution of the same class with some other arguments."""
        made: Callable[..., Distribution] = type(self)
        return made(**{**self.parameters, **override_parameters_kwargs})

    def _missing(self, method: str) -> NotImplementedError:
        return NotImplementedError(f"{method} is not implemented: {type(self).__name__}")

    def batch_shape_tensor(self, name: str = "batch_shape_tensor") -> Tensor:
        """Return the shape of the batch as a vector."""
        with self._name_scope(name):
            if self.batch_shape.is_fully_defined():
                return size_tensor(self.batch_shape, "batch_shape")
            return self._batch_shape_tensor()

    @property
    def batch_shape(self) -> TensorShape:
        """Shape of the batch, as far as it is known."""
        return TensorShape(self._batch_shape())

    def event_shape_tensor(self, name: str = "event_shape_tensor") -> Tensor:
        """Return the shape of one event as a vector."""
        with self._name_scope(name):
            if self.event_shape.is_fully_defined():
                return size_tensor(self.event_shape, "event_shape")
            return self._event_shape_tensor()

    @property
    def event_shape(self) -> TensorShape:
        """Shape of one event, as far as it is known."""
        return TensorShape(self._event_shape())

    def is_scalar_event(self, name: str = "is_scalar_event") -> Tensor:
        """Return whether an event is a scalar."""
        with self._name_scope(name):
            found = is_scalar(self.event_shape, self.event_shape_tensor)
            return convert_to_tensor(found, name="is_scalar_event")

    def is_scalar_batch(self, name: str = "is_scalar_batch") -> Tensor:
        """Return whether the batch is a single distribution."""
        with self._name_scope(name):
            found = is_scalar(self.batch_shape, self.batch_shape_tensor)
            return convert_to_tensor(found, name="is_scalar_batch")

    def sample(
        self, sample_shape: TensorLike = (), seed: int | None = None, name: str = "sample"
    ) -> Tensor:
        """Return samples [sample_shape, batch, event].

        seed: of the op, as `set_random_seed` combines it. Raises ValueError for a sample_shape that
        is neither scalar nor vector.
        """
        with self._name_scope(name, [sample_shape]):
            shape = convert_to_tensor(sample_shape, dtypes.int32, name="sample_shape")
            shape, count = as_vector(shape, "sample_shape")
            drawn = self._sample_n(count, seed)
            inner = ops.shape(drawn)[1:]
            made = ops.reshape(drawn, ops.concat([shape, inner], 0))
            set_sample_shape(made, shape, self.batch_shape, self.event_shape)
            return made

    def _of_value(
        self, name: str, value: TensorLike, method: str, other: Callable[[Tensor], Tensor]
    ) -> Tensor:
        """Return a method's result for a value.

        `other` gives the result where the class lacks the method. Raises NotImplementedError for
        the method where the class has neither.
        """
        with self._name_scope(name, [value]):
            given = convert_to_tensor(value, name="value", preferred_dtype=self.dtype)
            return _first(lambda: getattr(self, method)(given), lambda: other(given))

    def log_prob(self, value: TensorLike, name: str = "log_prob") -> Tensor:
        """Return the logarithm of the density or probability of values."""
        return self._of_value(name, value, "_log_prob", lambda x: ops.log(self._prob(x)))

    def prob(self, value: TensorLike, name: str = "prob") -> Tensor:
        """Return the density or probability of values."""
        return self._of_value(name, value, "_prob", lambda x: ops.exp(self._log_prob(x)))

    def log_cdf(self, value: TensorLike, name: str = "log_cdf") -> Tensor:
        """Return the logarithm of the probability of at most a value."""
        return self._of_value(name, value, "_log_cdf", lambda x: ops.log(self._cdf(x)))

    def cdf(self, value: TensorLike, name: str = "cdf") -> Tensor:
        """Return the probability of at most a value."""
        return self._of_value(name, value, "_cdf", lambda x: ops.exp(self._log_cdf(x)))

    def log_survival_function(
        self, value: TensorLike, name: str = "log_survival_function"
    ) -> Tensor:
        """Return the logarithm of the probability of more than a value."""
        method = "_log_survival_function"
        return self._of_value(name, value, method, lambda x: ops.log1p(-self.cdf(x)))

    def survival_function(self, value: TensorLike, name: str = "survival_function") -> Tensor:
        """Return the probability of more than a value."""
        return self._of_value(name, value, "_survival_function", lambda x: 1.0 - self.cdf(x))

    def quantile(self, value: TensorLike, name: str = "quantile") -> Tensor:
        """Return the values below which a sample is with the given probabilities."""
        with self._name_scope(name, [value]):
            given = convert_to_tensor(value, name="value", preferred_dtype=self.dtype)
            return self._quantile(given)

    def entropy(self, name: str = "entropy") -> Tensor:
        """Return the entropy in nats."""
        with self._name_scope(name):
            return self._entropy()

    def mean(self, name: str = "mean") -> Tensor:
        """Return the mean."""
        with self._name_scope(name):
            return self._mean()

    def variance(self, name: str = "variance") -> Tensor:
        """Return the variance of each element of an event."""
        with self._name_scope(name):
            return _first(self._variance, lambda: ops.square(self._stddev()))

    def stddev(self, name: str = "stddev") -> Tensor:
        """Return the standard deviation of each element of an event."""
        with self._name_scope(name):
            return _first(self._stddev, lambda: ops.sqrt(self._variance()))

    def covariance(self, name: str = "covariance") -> Tensor:
        """Return the covariance of the elements of an event, [batch, size, size]."""
        with self._name_scope(name):
            return self._covariance()

    def mode(self, name: str = "mode") -> Tensor:
        """Return the most probable event."""
        with self._name_scope(name):
            return self._mode()

    def cross_entropy(self, other: Distribution, name: str = "cross_entropy") -> Tensor:
        """Return the cross entropy with another distribution, in nats."""
        with self._name_scope(name):
            return divergence.cross_entropy(self, other, self.allow_nan_stats)

    def kl_divergence(self, other: Distribution, name: str = "kl_divergence") -> Tensor:
        """Return the Kullback-Leibler divergence to another distribution."""
        with self._name_scope(name):
            return divergence.kl_divergence(self, other, self.allow_nan_stats)

    def _batch_shape_tensor(self) -> Tensor:
        raise self._missing("batch_shape_tensor")

    def _batch_shape(self) -> TensorShape:
        return TensorShape(None)

    def _event_shape_tensor(self) -> Tensor:
        raise self._missing("event_shape_tensor")

    def _event_shape(self) -> TensorShape:
        return TensorShape(None)

    def _sample_n(self, n: TensorLike, seed: int | None = None) -> Tensor:
        raise self._missing("sample_n")

    def _log_prob(self, value: Tensor) -> Tensor:
        raise self._missing("log_prob")

    def _prob(self, value: Tensor) -> Tensor:
        raise self._missing("prob")

    def _log_cdf(self, value: Tensor) -> Tensor:
        raise self._missing("log_cdf")

    def _cdf(self, value: Tensor) -> Tensor:
        raise self._missing("cdf")

    def _log_survival_function(self, value: Tensor) -> Tensor:
        raise self._missing("log_survival_function")

    def _survival_function(self, value: Tensor) -> Tensor:
        raise self._missing("survival_function")

    def _quantile(self, value: Tensor) -> Tensor:
        raise self._missing("quantile")

    def _entropy(self) -> Tensor:
        raise self._missing("entropy")

    def _mean(self) -> Tensor:
        raise self._missing("mean")

    def _variance(self) -> Tensor:
        raise self._missing("variance")

    def _stddev(self) -> Tensor:
        raise self._missing("stddev")

    def _covariance(self) -> Tensor:
        raise self._missing("covariance")

    def _mode(self) -> Tensor:
        raise self._missing("mode")

    def __str__(self) -> str:
        shapes = ""
        for what, shape in (("batch", self.batch_shape), ("event", self.event_shape)):
            if shape.rank is not None:
                shapes += f", {what}_shape={shape}"
        return (
            f'tfp.distributions.{type(self).__name__}("{self.name}"{shapes}, '
            f"dtype={self.dtype.name})"
        )

    def __repr__(self) -> str:
        return (
            f"<tfp.distributions.{type(self).__name__} '{self.name}' batch_shape={self.batch_shape}"
            f" event_shape={self.event_shape} dtype={self.dtype.name}>"
        )

    @contextmanager
    def _name_scope(self, name: str, values: Sequence[TensorLike] | None = None) -> Iterator[str]:
        with (
            name_scope(self.name),
            name_scope(name, values=[*(values or ()), *self._graph_parents]) as scope,
        ):
            yield scope


class ScalarDistribution(Distribution):
    """Base of distributions of single numbers."""

    def _event_shape_tensor(self) -> Tensor:
        return ops.constant([], dtypes.int32)

    def _event_shape(self) -> TensorShape:
        return TensorShape([])


def _first(own: Callable[[], Tensor], other: Callable[[], Tensor]) -> Tensor:
    """Return the first result that there is. Raises the first one's NotImplementedError."""
    try:
        return own()
    except NotImplementedError as missing:
        try:
            return other()
        except NotImplementedError:
            raise missing from None
