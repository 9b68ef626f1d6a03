"""Find edges: differences of neighbouring pixels."""

from __future__ import annotations

from typing import Final

import numpy as np

from tfjit import ops
from tfjit.framework.graphs.operation import Tensor
from tfjit.ops.core.convert import constant
from tfjit.ops.layers.convolution_functions import depthwise_conv2d

# down, right
_SOBEL: Final = (
    ((-1, -2, -1), (0, 0, 0), (1, 2, 1)),
    ((-1, 0, 1), (-2, 0, 2), (-1, 0, 1)),
)


def image_gradients(image: Tensor) -> tuple[Tensor, Tensor]:
    """Return the differences to the next pixel, (down, right).

    image [batch, h, w, c] -> the same shape and dtype; the last row or column is 0. Raises
    ValueError for other ranks.
    """
    if image.shape.rank != 4:
        raise ValueError(
            f"image_gradients expects a 4D tensor [batch_size, h, w, d], not {image.shape}."
        )
    shape = ops.shape(image)
    batch, height, width, depth = ops.unstack(shape)
    down = image[:, 1:, :, :] - image[:, :-1, :, :]
    right = image[:, :, 1:, :] - image[:, :, :-1, :]
    row = ops.zeros(ops.stack([batch, 1, width, depth]), image.dtype)
    down = ops.reshape(ops.concat([down, row], 1), shape)
    column = ops.zeros(ops.stack([batch, height, 1, depth]), image.dtype)
    return down, ops.reshape(ops.concat([right, column], 2), shape)


def sobel_edges(image: Tensor) -> Tensor:
    """Return the Sobel gradients of images.

    image [batch, h, w, c] floats, h and w at least 2 -> [batch, h, w, c, 2]: down, right. Pixels
    beyond the border are reflected.
    """
    shape = ops.shape(image)
    filters = np.expand_dims(np.transpose(np.asarray(_SOBEL), (1, 2, 0)), -2)
    kernel = constant(filters, dtype=image.dtype)
    kernel = ops.tile(kernel, [1, 1, shape[-1], 1], name="sobel_filters")
    padded = ops.pad(image, [[0, 0], [1, 1], [1, 1], [0, 0]], mode="REFLECT")
    output = depthwise_conv2d(padded, kernel, [1, 1, 1, 1], "VALID")
    output = ops.reshape(output, shape=ops.concat([shape, [len(_SOBEL)]], 0))
    output.set_shape(image.shape.concatenate([len(_SOBEL)]))
    return output
