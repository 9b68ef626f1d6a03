"""Layers that convolve each channel alone, then mix the channels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit.client.network.convolution import ZEROS, Convolution
from tfjit.client.network.identifiers import find_constraint, find_initializer, find_regularizer
from tfjit.client.network.input_spec import InputSpec
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types.shape import TensorShape
from tfjit.ops.arrays.array import expand_dims, squeeze
from tfjit.ops.core.convert import convert_to_tensor
from tfjit.ops.layers.convolution_functions import separable_conv2d as separable
from tfjit.ops.layers.normalization_functions import bias_add

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import (
        ConstraintLike,
        IntsLike,
        Structure,
        TensorLike,
    )


class SeparableConvolution(Convolution):
    """The rules that separable convolutions share.

    Variables: depthwise_kernel [*kernel_size, c, depth_multiplier], pointwise_kernel [1..., c
    depth_multiplier, filters], bias [filters].
    """

    def __init__(
        self,
        filters: int,
        kernel_size: IntsLike,
        strides: IntsLike = 1,
        padding: str = "valid",
        data_format: str = "channels_last",
        dilation_rate: IntsLike = 1,
        depth_multiplier: int = 1,
        activation: Structure = None,
        use_bias: bool = True,
        depthwise_initializer: Structure = None,
        pointwise_initializer: Structure = None,
        bias_initializer: Structure = ZEROS,
        depthwise_regularizer: Structure = None,
        pointwise_regularizer: Structure = None,
        bias_regularizer: Structure = None,
        activity_regularizer: Structure = None,
        depthwise_constraint: ConstraintLike | str | None = None,
        pointwise_constraint: ConstraintLike | str | None = None,
        bias_constraint: ConstraintLike | str | None = None,
        trainable: bool = True,
        name: str | None = None,
        **kwargs: Structure,
    ) -> None:
        super().__init__(
            filters,
            kernel_size,
            strides,
            padding,
            data_format,
            dilation_rate,
            activation,
            use_bias,
            None,
            bias_initializer,
            None,
            bias_regularizer,
            activity_regularizer,
            None,
            bias_constraint,
            trainable,
            name,
            **kwargs,
        )
        self.depth_multiplier = depth_multiplier
        self.depthwise_initializer = find_initializer(depthwise_initializer)
        self.pointwise_initializer = find_initializer(pointwise_initializer)
        self.depthwise_regularizer = find_regularizer(depthwise_regularizer)
        self.pointwise_regularizer = find_regularizer(pointwise_regularizer)
        self.depthwise_constraint = find_constraint(depthwise_constraint)
        self.pointwise_constraint = find_constraint(pointwise_constraint)
        self.depthwise_kernel: Structure = None
        self.pointwise_kernel: Structure = None

    def _add_kernels(self, channels: int) -> None:
        self.depthwise_kernel = self.add_weight(
            "depthwise_kernel",
            [*self.kernel_size, channels, self.depth_multiplier],
            initializer=self.depthwise_initializer,
            regularizer=self.depthwise_regularizer,
            constraint=self.depthwise_constraint,
        )
        self.pointwise_kernel = self.add_weight(
            "pointwise_kernel",
            [*[1] * self.rank, channels * self.depth_multiplier, self.filters],
            initializer=self.pointwise_initializer,
            regularizer=self.pointwise_regularizer,
            constraint=self.pointwise_constraint,
        )

    def build(self, input_shape: Structure) -> None:
        """Make both kernels and the bias."""
        super().build(input_shape)
        channels = self._channels(TensorShape(input_shape))
        self.input_spec = InputSpec(ndim=self.rank + 2, axes={self._channel_axis: channels})

    def _separable(
        self, value: Tensor, depthwise: Tensor, pointwise: Tensor, strides: tuple[int, ...]
    ) -> Tensor:
        """Convolve images: a sequence is an image of height 1."""
        layout = "NCHW" if self._channels_first else "NHWC"
        made = separable(
            value,
            depthwise,
            pointwise,
            self._per_axis(strides),
            "SAME" if self.padding == "same" else "VALID",
            [1, *self.dilation_rate][-2:],
            data_format=layout,
        )
        return bias_add(made, self.bias, layout) if self.use_bias else made


class SeparableConv1D(SeparableConvolution):
    """Separable convolution of sequences.

    [batch, w, c] -> [batch, out_w, filters].
    """

    rank = 1

    def __init__(
        self,
        filters: int,
        kernel_size: IntsLike,
        strides: IntsLike = 1,
        padding: str = "valid",
        data_format: str = "channels_last",
        dilation_rate: IntsLike = 1,
        depth_multiplier: int = 1,
        activation: Structure = None,
        use_bias: bool = True,
        depthwise_initializer: Structure = None,
        pointwise_initializer: Structure = None,
        bias_initializer: Structure = ZEROS,
        depthwise_regularizer: Structure = None,
        pointwise_regularizer: Structure = None,
        bias_regularizer: Structure = None,
        activity_regularizer: Structure = None,
        depthwise_constraint: ConstraintLike | str | None = None,
        pointwise_constraint: ConstraintLike | str | None = None,
        bias_constraint: ConstraintLike | str | None = None,
        trainable: bool = True,
        name: str | None = None,
        **kwargs: Structure,
    ) -> None:
        super().__init__(
            filters,
            kernel_size,
            strides,
            padding,
            data_format,
            dilation_rate,
            depth_multiplier,
            activation,
            use_bias,
            depthwise_initializer,
            pointwise_initializer,
            bias_initializer,
            depthwise_regularizer,
            pointwise_regularizer,
            bias_regularizer,
            activity_regularizer,
            depthwise_constraint,
            pointwise_constraint,
            bias_constraint,
            trainable,
            name,
            **kwargs,
        )

    def call(self, inputs: TensorLike) -> Tensor:
        value = convert_to_tensor(inputs)
        if self.padding == "causal":
            value = self._causally_padded(value)
        height = 2 if self._channels_first else 1
        made = self._separable(
            expand_dims(value, height),
            expand_dims(self.depthwise_kernel, 0),
            expand_dims(self.pointwise_kernel, 0),
            self.strides * 2,
        )
        activated: Tensor = self.activation(squeeze(made, [height]))
        return activated


def separable_conv1d(
    inputs: TensorLike,
    filters: int,
    kernel_size: IntsLike,
    strides: IntsLike = 1,
    padding: str = "valid",
    data_format: str = "channels_last",
    dilation_rate: IntsLike = 1,
    depth_multiplier: int = 1,
    activation: Structure = None,
    use_bias: bool = True,
    depthwise_initializer: Structure = None,
    pointwise_initializer: Structure = None,
    bias_initializer: Structure = ZEROS,
    depthwise_regularizer: Structure = None,
    pointwise_regularizer: Structure = None,
    bias_regularizer: Structure = None,
    activity_regularizer: Structure = None,
    depthwise_constraint: ConstraintLike | str | None = None,
    pointwise_constraint: ConstraintLike | str | None = None,
    bias_constraint: ConstraintLike | str | None = None,
    trainable: bool = True,
    name: str | None = None,
    reuse: object = None,
) -> Tensor:
    """Return `SeparableConv1D` of sequences [batch, w, c]."""
    layer = SeparableConv1D(
        filters,
        kernel_size,
        strides,
        padding,
        data_format,
        dilation_rate,
        depth_multiplier,
        activation,
        use_bias,
        depthwise_initializer,
        pointwise_initializer,
        bias_initializer,
        depthwise_regularizer,
        pointwise_regularizer,
        bias_regularizer,
        activity_regularizer,
        depthwise_constraint,
        pointwise_constraint,
        bias_constraint,
        trainable,
        name,
        _scope=name,
        _reuse=reuse,
    )
    made: Tensor = layer(inputs)
    return made


class SeparableConv2D(SeparableConvolution):
    """Separable convolution of images.

    [batch, h, w, c] -> [batch, out_h, out_w, filters].
    """

    rank = 2

    def __init__(
        self,
        filters: int,
        kernel_size: IntsLike,
        strides: IntsLike = (1, 1),
        padding: str = "valid",
        data_format: str = "channels_last",
        dilation_rate: IntsLike = (1, 1),
        depth_multiplier: int = 1,
        activation: Structure = None,
        use_bias: bool = True,
        depthwise_initializer: Structure = None,
        pointwise_initializer: Structure = None,
        bias_initializer: Structure = ZEROS,
        depthwise_regularizer: Structure = None,
        pointwise_regularizer: Structure = None,
        bias_regularizer: Structure = None,
        activity_regularizer: Structure = None,
        depthwise_constraint: ConstraintLike | str | None = None,
        pointwise_constraint: ConstraintLike | str | None = None,
        bias_constraint: ConstraintLike | str | None = None,
        trainable: bool = True,
        name: str | None = None,
        **kwargs: Structure,
    ) -> None:
        super().__init__(
            filters,
            kernel_size,
            strides,
            padding,
            data_format,
            dilation_rate,
            depth_multiplier,
            activation,
            use_bias,
            depthwise_initializer,
            pointwise_initializer,
            bias_initializer,
            depthwise_regularizer,
            pointwise_regularizer,
            bias_regularizer,
            activity_regularizer,
            depthwise_constraint,
            pointwise_constraint,
            bias_constraint,
            trainable,
            name,
            **kwargs,
        )

    def call(self, inputs: TensorLike) -> Tensor:
        made = self._separable(
            convert_to_tensor(inputs), self.depthwise_kernel, self.pointwise_kernel, self.strides
        )
        activated: Tensor = self.activation(made)
        return activated


def separable_conv2d(
    inputs: TensorLike,
    filters: int,
    kernel_size: IntsLike,
    strides: IntsLike = (1, 1),
    padding: str = "valid",
    data_format: str = "channels_last",
    dilation_rate: IntsLike = (1, 1),
    depth_multiplier: int = 1,
    activation: Structure = None,
    use_bias: bool = True,
    depthwise_initializer: Structure = None,
    pointwise_initializer: Structure = None,
    bias_initializer: Structure = ZEROS,
    depthwise_regularizer: Structure = None,
    pointwise_regularizer: Structure = None,
    bias_regularizer: Structure = None,
    activity_regularizer: Structure = None,
    depthwise_constraint: ConstraintLike | str | None = None,
    pointwise_constraint: ConstraintLike | str | None = None,
    bias_constraint: ConstraintLike | str | None = None,
    trainable: bool = True,
    name: str | None = None,
    reuse: object = None,
) -> Tensor:
    """Return `SeparableConv2D` of images [batch, h, w, c]."""
    layer = SeparableConv2D(
        filters,
        kernel_size,
        strides,
        padding,
        data_format,
        dilation_rate,
        depth_multiplier,
        activation,
        use_bias,
        depthwise_initializer,
        pointwise_initializer,
        bias_initializer,
        depthwise_regularizer,
        pointwise_regularizer,
        bias_regularizer,
        activity_regularizer,
        depthwise_constraint,
        pointwise_constraint,
        bias_constraint,
        trainable,
        name,
        _scope=name,
        _reuse=reuse,
    )
    made: Tensor = layer(inputs)
    return made
