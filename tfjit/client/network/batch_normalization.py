"""Layers that normalize over the batch, with moving statistics for inference."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit.client.network.identifiers import find_constraint, find_initializer, find_regularizer
from tfjit.client.network.input_spec import InputSpec
from tfjit.client.network.layer import Layer
from tfjit.client.network.moving_average import assign_moving_average
from tfjit.client.network.renormalization import Renormalization
from tfjit.client.network.static_choice import choose, static_condition
from tfjit.client.variables.initializers import Ones, Zeros
from tfjit.client.variables.synchronization import VariableAggregation, VariableSynchronization
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types import dtypes
from tfjit.framework.types.dtypes import DType
from tfjit.framework.types.shape import TensorShape
from tfjit.ops.arithmetic.elementwise_functions import cast
from tfjit.ops.arithmetic.reduction import reduce_mean
from tfjit.ops.arrays.array import reshape
from tfjit.ops.arrays.array import shape as shape_of
from tfjit.ops.arrays.creation import ones_like, zeros_like
from tfjit.ops.arrays.movement_functions import concat
from tfjit.ops.core.convert import convert_to_tensor
from tfjit.ops.layers import normalization_functions as functions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tfjit.framework.graphs.typing import AxisLike, ConstraintLike, Structure, TensorLike

_ZEROS = Zeros()
_ONES = Ones()
_HALVES = (dtypes.float16, dtypes.bfloat16)


def _axes_of(axis: Structure) -> Structure:
    """Return an axis or a list of axes.

    Raises TypeError for another value.
    """
    if isinstance(axis, int):
        return axis
    if isinstance(axis, (list, tuple)):
        return list(axis)
    raise TypeError(
        f"Expected an int or a list/tuple of ints for the argument 'axis', but received: {axis!r}"
    )


class BatchNormalization(Layer):
    """gamma (x - mean) / sqrt(variance + epsilon) + beta.

    Mean and variance are the batch's while training, over all axes but `axis`; else they are moving
    averages of those, which `updates` and UPDATE_OPS move: moving * momentum + batch * (1 -
    momentum). Variables [c]: gamma, beta, moving_mean, moving_variance; for several axes they keep
    the input's rank. They are float32 for halves.

    fused: None takes one op where it can, for one axis of channels of rank 4 or 5; False never.
    renorm: batch renormalization (Ioffe, 2017), with the limits "rmax", "rmin" and "dmax" of
    `renorm_clipping`. virtual_batch_size: sub-batches of this many rows are normalized each alone,
    rows i, i + n, ... of n sub-batches. adjustment: a function of the input's shape that gives a
    scale and a bias for training. Raises TypeError for an axis that is no number, ValueError for an
    unknown limit, for `adjustment` with `virtual_batch_size`, and in the first call for an axis
    beyond the rank, given twice or of unknown size.
    """

    def __init__(
        self,
        axis: AxisLike = -1,
        momentum: Structure = 0.99,
        epsilon: float = 1e-3,
        center: bool = True,
        scale: bool = True,
        beta_initializer: Structure = _ZEROS,
        gamma_initializer: Structure = _ONES,
        moving_mean_initializer: Structure = _ZEROS,
        moving_variance_initializer: Structure = _ONES,
        beta_regularizer: Structure = None,
        gamma_regularizer: Structure = None,
        beta_constraint: ConstraintLike | str | None = None,
        gamma_constraint: ConstraintLike | str | None = None,
        renorm: bool = False,
        renorm_clipping: Mapping[str, TensorLike] | None = None,
        renorm_momentum: Structure = 0.99,
        fused: bool | None = None,
        trainable: bool = True,
        virtual_batch_size: int | None = None,
        adjustment: Callable[[Tensor], Structure] | None = None,
        name: str | None = None,
        **kwargs: Structure,
    ) -> None:
        super().__init__(trainable, name, **kwargs)
        self.axis = _axes_of(axis)
        self.momentum = momentum
        self.epsilon = epsilon
        self.center = center
        self.scale = scale
        self.beta_initializer = find_initializer(beta_initializer)
        self.gamma_initializer = find_initializer(gamma_initializer)
        self.moving_mean_initializer = find_initializer(moving_mean_initializer)
        self.moving_variance_initializer = find_initializer(moving_variance_initializer)
        self.beta_regularizer = find_regularizer(beta_regularizer)
        self.gamma_regularizer = find_regularizer(gamma_regularizer)
        self.beta_constraint = find_constraint(beta_constraint)
        self.gamma_constraint = find_constraint(gamma_constraint)
        self.renorm = renorm
        self.virtual_batch_size = virtual_batch_size
        self.adjustment = adjustment
        self.fused = fused
        self.gamma: Structure = None
        self.beta: Structure = None
        self._renormalization = (
            Renormalization(renorm_clipping, renorm_momentum) if renorm else None
        )
        if virtual_batch_size is not None and adjustment is not None:
            raise ValueError("When using `virtual_batch_size`, adjustment cannot be specified")

    def _checked_axes(self, shape: TensorShape) -> list[int]:
        """Return the axes counted from the first.

        Raises ValueError for those that the input lacks.
        """
        if not shape.rank:
            raise ValueError(f"Input has undefined rank. Received: input_shape={shape}")
        given = [self.axis] if isinstance(self.axis, int) else list(self.axis)
        axes = [axis + shape.rank if axis < 0 else axis for axis in given]
        if not all(0 <= axis < shape.rank for axis in axes):
            raise ValueError(
                "Invalid value for `axis` argument. Expected 0 <= axis < inputs.rank (with "
                f"inputs.rank={shape.rank}). Received: axis={tuple(axes)}"
            )
        if len(set(axes)) != len(axes):
            raise ValueError(f"Duplicate axis: {tuple(axes)}")
        if any(shape.as_list()[axis] is None for axis in axes):
            raise ValueError(
                "Input has undefined `axis` dimension. Received input with shape "
                f"{tuple(shape.as_list())} and axis={tuple(axes)}"
            )
        return axes

    def _can_fuse(self, rank: int) -> bool:
        plain = (
            self.virtual_batch_size is None
            and not self.renorm
            and self.adjustment is None
            and self._dtype is not dtypes.float64
        )
        return plain and rank in (4, 5) and self.axis in ([1], [rank - 1])

    @property
    def _parameter_dtype(self) -> DType:
        dtype = self._dtype or dtypes.float32
        return dtypes.float32 if dtype in _HALVES else dtype

    def _parameter_shape(self, sizes: Structure) -> list[int]:
        """Return the shape of the variables.

        It is [c], or the input's with 1 for the axes of means.
        """
        if len(self.axis) == 1 and self.virtual_batch_size is None:
            return [sizes[self.axis[0]]]
        shape = [size if i in self.axis else 1 for i, size in enumerate(sizes)]
        if self.virtual_batch_size is not None:
            shape.insert(1, 1)  # the axis of the sub-batches
        return shape

    def build(self, input_shape: Structure) -> None:
        """Make gamma, beta and the moving statistics."""
        shape = TensorShape(input_shape)
        self.axis = self._checked_axes(shape)
        sizes = shape.as_list()
        self.fused = self.fused in (None, True) and self._can_fuse(len(sizes))
        self.input_spec = InputSpec(ndim=len(sizes), axes={i: sizes[i] for i in self.axis})
        made = self._parameter_shape(sizes)
        if self.scale:
            self.gamma = self.add_weight(
                "gamma",
                made,
                self._parameter_dtype,
                self.gamma_initializer,
                self.gamma_regularizer,
                constraint=self.gamma_constraint,
            )
        if self.center:
            self.beta = self.add_weight(
                "beta",
                made,
                self._parameter_dtype,
                self.beta_initializer,
                self.beta_regularizer,
                constraint=self.beta_constraint,
            )
        self.moving_mean = self._add_statistic("moving_mean", made, self.moving_mean_initializer)
        self.moving_variance = self._add_statistic(
            "moving_variance", made, self.moving_variance_initializer
        )
        if self._renormalization is not None:
            self._renormalization.build(self, made, self._add_statistic)
        self.built = True

    def _add_statistic(self, name: str, shape: list[int], initializer: Structure) -> Structure:
        return self.add_weight(
            name,
            shape,
            self._parameter_dtype,
            initializer,
            trainable=False,
            synchronization=VariableSynchronization.ON_READ,
            aggregation=VariableAggregation.MEAN,
        )

    def call(self, inputs: TensorLike, training: object = False) -> Tensor:
        value = convert_to_tensor(inputs)
        if self.fused:
            return self._fused(value, training)
        if self.virtual_batch_size is None:
            return self._normalized(value, training, self.axis)
        sizes = concat([[-1], shape_of(value)[1:]], 0)
        split = reshape(value, concat([[self.virtual_batch_size, -1], sizes[1:]], 0))
        split.set_shape([self.virtual_batch_size, None, *value.shape.as_list()[1:]])
        # Axis 1 holds the sub-batches, which have statistics each.
        axes = [1, *(axis + 1 for axis in self.axis)]
        made = reshape(self._normalized(split, training, axes), sizes)
        made.set_shape(value.shape)
        return made

    def _fused(self, value: Tensor, training: object) -> Tensor:
        """Normalize by one op, which gives the batch's statistics, too."""
        rank, statistics = value.shape.rank, (self.moving_mean, self.moving_variance)
        channels = self.moving_mean.shape.as_list()
        dtype = self._parameter_dtype.as_numpy_dtype
        gamma = self.gamma if self.scale else Ones(self._parameter_dtype)(channels, dtype)
        beta = self.beta if self.center else Zeros(self._parameter_dtype)(channels, dtype)
        last = {4: "NHWC", 5: "NDHWC"}
        first = {4: "NCHW", 5: "NCDHW"}
        layout = (first if self.axis == [1] else last)[rank]  # type: ignore[index]

        def normalized(is_training: bool) -> list[Tensor]:
            return list(
                functions.fused_batch_norm(
                    value, gamma, beta, *statistics, self.epsilon, layout, is_training
                )
            )

        made, mean, variance = choose(training, lambda: normalized(True), lambda: normalized(False))
        if static_condition(training) is not False:
            # Without training the average moves by nothing.
            momentum = choose(
                training,
                lambda: (
                    convert_to_tensor(self.momentum, dtypes.float32)
                    if static_condition(training) is None
                    else self.momentum
                ),
                lambda: convert_to_tensor(1.0, dtypes.float32),
            )
            for variable, found in zip(statistics, (mean, variance)):
                self.add_update(assign_moving_average(variable, found, momentum), inputs=True)
        result: Tensor = made
        return result

    def _normalized(self, value: Tensor, training: object, axes: list[int]) -> Tensor:
        """Normalize by single ops over all axes but `axes`."""
        rank = value.shape.rank
        assert rank is not None
        given = value.dtype.base_dtype
        if given in _HALVES:
            value = cast(value, dtypes.float32)
        scale, offset = self.gamma, self.beta
        single = len(axes) == 1
        if single:
            scale, offset = self._broadcast(scale, rank, axes), self._broadcast(offset, rank, axes)
        known = static_condition(training)
        if known is False:
            mean, variance = self.moving_mean, self.moving_variance
        else:
            if self.adjustment is not None:
                scale, offset = self._adjusted(value, training, scale, offset)
            mean, variance, scale, offset = self._trained(value, training, axes, scale, offset)
        if single:
            mean = self._broadcast(mean, rank, axes)
            variance = self._broadcast(variance, rank, axes)
        made = functions.batch_normalization(value, mean, variance, offset, scale, self.epsilon)
        if made.dtype.base_dtype is not given:
            made = cast(made, given)
        made.set_shape(value.shape)
        return made

    def _trained(
        self, value: Tensor, training: object, axes: list[int], scale: Structure, offset: Structure
    ) -> tuple[Tensor, Tensor, Structure, Structure]:
        """Return (mean, variance, scale, offset), and add updates of the averages."""
        reduced = [axis for axis in range(value.shape.rank or 0) if axis not in axes]
        kept = len(axes) > 1
        mean, variance = functions.moments(value, reduced, keep_dims=kept)
        moving = (self.moving_mean, self.moving_variance)
        mean = self._batch_or_moving(training, mean, self.moving_mean)
        variance = self._batch_or_moving(training, variance, self.moving_variance)
        new_mean, new_variance = mean, variance
        if self.virtual_batch_size is not None:  # the averages are those of all sub-batches
            new_mean = reduce_mean(mean, axis=1, keepdims=True)
            new_variance = reduce_mean(variance, axis=1, keepdims=True)
        if self._renormalization is None:
            for variable, found in zip(moving, (new_mean, new_variance)):
                self._add_average(variable, found, training)
            return mean, variance, scale, offset
        r, d, new_mean, new_variance = self._renormalization.corrections(
            self, new_mean, new_variance, training
        )
        rank = value.shape.rank or 0
        if len(axes) == 1:
            r, d = self._broadcast(r, rank, axes), self._broadcast(d, rank, axes)
        scale, offset = _composed(r, d, scale, offset)
        self._add_average(self.moving_mean, new_mean, training)
        self.add_update(
            self._renormalization.move_variance(self, new_variance, training), inputs=True
        )
        return mean, variance, scale, offset

    @staticmethod
    def _batch_or_moving(training: object, batch: Tensor, moving: Structure) -> Tensor:
        made: Tensor = choose(training, lambda: batch, lambda: convert_to_tensor(moving))
        return made

    def _add_average(self, variable: Structure, value: Tensor, training: object) -> None:
        moved = choose(
            training,
            lambda: assign_moving_average(variable, value, self.momentum),
            lambda: convert_to_tensor(variable),
        )
        self.add_update(moved, inputs=True)

    def _adjusted(
        self, value: Tensor, training: object, scale: Structure, offset: Structure
    ) -> tuple[Structure, Structure]:
        assert self.adjustment is not None
        by, beyond = self.adjustment(shape_of(value))
        by, beyond = convert_to_tensor(by), convert_to_tensor(beyond)
        by = choose(training, lambda: by, lambda: ones_like(by))
        beyond = choose(training, lambda: beyond, lambda: zeros_like(beyond))
        return _composed(by, beyond, scale, offset)

    @staticmethod
    def _broadcast(value: Structure, rank: int, axes: list[int]) -> Structure:
        """Shape a value [c] for the input's axis of channels.

        For the last axis it fits as it is.
        """
        if value is None or axes == [rank - 1]:
            return value
        return reshape(value, [-1 if i in axes else 1 for i in range(rank)])

    def compute_output_shape(self, input_shape: Structure) -> Structure:
        """Return the input's shape."""
        return input_shape


def _composed(
    scale: Structure, offset: Structure, then_scale: Structure, then_offset: Structure
) -> tuple[Structure, Structure]:
    """Return two transforms x scale + offset as one.

    The second may lack a scale or an offset.
    """
    if then_scale is not None:
        scale, offset = scale * then_scale, offset * then_scale
    return scale, offset if then_offset is None else offset + then_offset


def batch_normalization(
    inputs: TensorLike,
    axis: AxisLike = -1,
    momentum: Structure = 0.99,
    epsilon: float = 1e-3,
    center: bool = True,
    scale: bool = True,
    beta_initializer: Structure = _ZEROS,
    gamma_initializer: Structure = _ONES,
    moving_mean_initializer: Structure = _ZEROS,
    moving_variance_initializer: Structure = _ONES,
    beta_regularizer: Structure = None,
    gamma_regularizer: Structure = None,
    beta_constraint: ConstraintLike | str | None = None,
    gamma_constraint: ConstraintLike | str | None = None,
    training: object = False,
    trainable: bool = True,
    name: str | None = None,
    reuse: object = None,
    renorm: bool = False,
    renorm_clipping: Mapping[str, TensorLike] | None = None,
    renorm_momentum: Structure = 0.99,
    fused: bool | None = None,
    virtual_batch_size: int | None = None,
    adjustment: Callable[[Tensor], Structure] | None = None,
) -> Tensor:
    """Return `BatchNormalization` of the inputs.

    training: a bool, or a bool scalar tensor. A training step has to run UPDATE_OPS.
    """
    layer = BatchNormalization(
        axis,
        momentum,
        epsilon,
        center,
        scale,
        beta_initializer,
        gamma_initializer,
        moving_mean_initializer,
        moving_variance_initializer,
        beta_regularizer,
        gamma_regularizer,
        beta_constraint,
        gamma_constraint,
        renorm,
        renorm_clipping,
        renorm_momentum,
        fused,
        trainable,
        virtual_batch_size,
        adjustment,
        name,
        _scope=name,
        _reuse=reuse,
    )
    made: Tensor = layer(inputs, training=training)
    return made
