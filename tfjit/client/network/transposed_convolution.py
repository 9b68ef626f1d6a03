"""Layers that compute the transpose of a convolution."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tfjit.client.network.convolution import ZEROS, Convolution
from tfjit.client.network.input_spec import InputSpec
from tfjit.client.network.windows import transposed_length
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types.shape import TensorShape
from tfjit.ops.arrays.array import shape as shape_of
from tfjit.ops.core.convert import convert_to_tensor
from tfjit.ops.layers import convolution_functions

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import (
        ConstraintLike,
        IntsLike,
        Structure,
        TensorLike,
    )


class TransposedConvolution(Convolution):
    """The rules that transposes of convolutions share.

    Variables: kernel [*kernel_size, filters, channels], bias [filters].
    """

    transposed = True

    def _kernel_shape(self, channels: int) -> list[int]:
        return [*self.kernel_size, self.filters, channels]

    def build(self, input_shape: Structure) -> None:
        """Make the kernel and the bias."""
        shape = TensorShape(input_shape)
        if shape.rank != self.rank + 2:
            raise ValueError(
                f"Inputs should have rank {self.rank + 2}. Received input_shape={shape}."
            )
        channels = self._channels(shape)
        self.input_spec = InputSpec(ndim=self.rank + 2, axes={self._channel_axis: channels})
        self._add_kernels(channels)
        self._add_bias_weight()
        self.built = True

    def call(self, inputs: TensorLike) -> Tensor:
        value = convert_to_tensor(inputs)
        static = self.compute_output_shape(value.shape)
        sizes: Structure = static.as_list()
        if not static.is_fully_defined():
            axes = shape_of(value)
            first = 2 if self._channels_first else 1
            for i, size in enumerate(static.as_list()):
                if size is None and i == 0:
                    sizes[0] = axes[0]
                elif size is None:
                    at = i - first
                    sizes[i] = transposed_length(
                        axes[i], self.kernel_size[at], self.padding, self.strides[at]
                    )
        function = (
            convolution_functions.conv2d_transpose
            if self.rank == 2
            else convolution_functions.conv3d_transpose
        )
        made = function(
            value,
            self.kernel,
            sizes,
            self._per_axis(self.strides),
            self.padding.upper(),
            self._layout,
        )
        made.set_shape(static)
        return self._finished(made)

    def compute_output_shape(self, input_shape: Structure) -> TensorShape:
        """Return the output's shape for that of the input."""
        sizes = TensorShape(input_shape).as_list()
        spatial = [
            transposed_length(size, window, self.padding, stride)
            for size, window, stride in zip(self._spatial(sizes), self.kernel_size, self.strides)
        ]
        return self._with_channels(sizes, spatial)


class Conv2DTranspose(TransposedConvolution):
    """Transpose of `Conv2D`, for images.

    [batch, h, w, c] -> [batch, out_h, out_w, filters]. Variables: kernel [k_h, k_w, filters, c],
    bias [filters]. padding: "valid" for outputs of size * stride + max(kernel - stride, 0), "same"
    for size * stride.
    """

    rank = 2

    def __init__(
        self,
        filters: int,
        kernel_size: IntsLike,
        strides: IntsLike = (1, 1),
        padding: str = "valid",
        data_format: str = "channels_last",
        activation: Structure = None,
        use_bias: bool = True,
        kernel_initializer: Structure = None,
        bias_initializer: Structure = ZEROS,
        kernel_regularizer: Structure = None,
        bias_regularizer: Structure = None,
        activity_regularizer: Structure = None,
        kernel_constraint: ConstraintLike | str | None = None,
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
            1,
            activation,
            use_bias,
            kernel_initializer,
            bias_initializer,
            kernel_regularizer,
            bias_regularizer,
            activity_regularizer,
            kernel_constraint,
            bias_constraint,
            trainable,
            name,
            **kwargs,
        )


def conv2d_transpose(
    inputs: TensorLike,
    filters: int,
    kernel_size: IntsLike,
    strides: IntsLike = (1, 1),
    padding: str = "valid",
    data_format: str = "channels_last",
    activation: Structure = None,
    use_bias: bool = True,
    kernel_initializer: Structure = None,
    bias_initializer: Structure = ZEROS,
    kernel_regularizer: Structure = None,
    bias_regularizer: Structure = None,
    activity_regularizer: Structure = None,
    kernel_constraint: ConstraintLike | str | None = None,
    bias_constraint: ConstraintLike | str | None = None,
    trainable: bool = True,
    name: str | None = None,
    reuse: object = None,
) -> Tensor:
    """Return `Conv2DTranspose` of images [batch, h, w, c]."""
    layer = Conv2DTranspose(
        filters,
        kernel_size,
        strides,
        padding,
        data_format,
        activation,
        use_bias,
        kernel_initializer,
        bias_initializer,
        kernel_regularizer,
        bias_regularizer,
        activity_regularizer,
        kernel_constraint,
        bias_constraint,
        trainable,
        name,
        _scope=name,
        _reuse=reuse,
    )
    made: Tensor = layer(inputs)
    return made


class Conv3DTranspose(TransposedConvolution):
    """Transpose of `Conv3D`, for volumes.

    [batch, d, h, w, c] -> [batch, out_d, out_h, out_w, filters]. Variables: kernel [k_d, k_h, k_w,
    filters, c], bias [filters]. padding: "valid" for outputs of size * stride + max(kernel -
    stride, 0), "same" for size * stride.
    """

    rank = 3

    def __init__(
        self,
        filters: int,
        kernel_size: IntsLike,
        strides: IntsLike = (1, 1, 1),
        padding: str = "valid",
        data_format: str = "channels_last",
        activation: Structure = None,
        use_bias: bool = True,
        kernel_initializer: Structure = None,
        bias_initializer: Structure = ZEROS,
        kernel_regularizer: Structure = None,
        bias_regularizer: Structure = None,
        activity_regularizer: Structure = None,
        kernel_constraint: ConstraintLike | str | None = None,
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
            1,
            activation,
            use_bias,
            kernel_initializer,
            bias_initializer,
            kernel_regularizer,
            bias_regularizer,
            activity_regularizer,
            kernel_constraint,
            bias_constraint,
            trainable,
            name,
            **kwargs,
        )


def conv3d_transpose(
    inputs: TensorLike,
    filters: int,
    kernel_size: IntsLike,
    strides: IntsLike = (1, 1, 1),
    padding: str = "valid",
    data_format: str = "channels_last",
    activation: Structure = None,
    use_bias: bool = True,
    kernel_initializer: Structure = None,
    bias_initializer: Structure = ZEROS,
    kernel_regularizer: Structure = None,
    bias_regularizer: Structure = None,
    activity_regularizer: Structure = None,
    kernel_constraint: ConstraintLike | str | None = None,
    bias_constraint: ConstraintLike | str | None = None,
    trainable: bool = True,
    name: str | None = None,
    reuse: object = None,
) -> Tensor:
    """Return `Conv3DTranspose` of volumes [batch, d, h, w, c]."""
    layer = Conv3DTranspose(
        filters,
        kernel_size,
        strides,
        padding,
        data_format,
        activation,
        use_bias,
        kernel_initializer,
        bias_initializer,
        kernel_regularizer,
        bias_regularizer,
        activity_regularizer,
        kernel_constraint,
        bias_constraint,
        trainable,
        name,
        _scope=name,
        _reuse=reuse,
    )
    made: Tensor = layer(inputs)
    return made
