"""Flip, turn and transpose images."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

from tfjit import ops
from tfjit.client.images.image_checks import by_rank, checked_image
from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.types import dtypes
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import TensorLike


def _with_shape_of(image: Tensor, result: Tensor) -> Tensor:
    result.set_shape([None] * 3 if image.shape.rank is None else image.shape)
    return result


def _flip(image: TensorLike, axis: int, scope: str) -> Tensor:
    with name_scope(None, scope, [image]):
        image = checked_image(convert_to_tensor(image, name="image"))
        return by_rank(
            image,
            lambda: _with_shape_of(image, ops.reverse(image, [axis])),
            lambda: ops.reverse(image, [axis + 1]),
            "'image' (shape {})must have either 3 or 4 dimensions.",
        )


def flip_left_right(image: TensorLike) -> Tensor:
    """Flip images from left to right.

    image [h, w, c] or [batch, h, w, c] -> the same shape and dtype. Raises ValueError for other
    ranks; a run raises InvalidArgumentError for images without pixels.
    """
    return _flip(image, 1, "flip_left_right")


def flip_up_down(image: TensorLike) -> Tensor:
    """Flip images from top to bottom.

    See `flip_left_right` for shapes and errors.
    """
    return _flip(image, 0, "flip_up_down")


def _random_flip(image: TensorLike, axis: int, draw: Callable[..., Tensor], scope: str) -> Tensor:
    with name_scope(None, scope, [image]) as full_scope:
        image = checked_image(convert_to_tensor(image, name="image"))

        def one() -> Tensor:
            flips = ops.less(draw(shape=[], minval=0, maxval=1.0), 0.5)
            flipped = ops.cond(
                flips, lambda: ops.reverse(image, [axis]), lambda: image, name=full_scope
            )
            return _with_shape_of(image, flipped)

        def batch() -> Tensor:
            count = ops.shape(image)[0]
            drawn = draw(shape=[count], minval=0, maxval=1.0)
            flips = ops.cast(ops.round(ops.reshape(drawn, [count, 1, 1, 1])), image.dtype)
            flipped = ops.reverse(image, [axis + 1])
            return flips * flipped + (1 - flips) * image

        return by_rank(image, one, batch)


def random_flip_left_right(image: TensorLike, seed: int | None = None) -> Tensor:
    """Flip each image from left to right, or not, with equal chance.

    image [h, w, c] or [batch, h, w, c]. seed: the op seed. Errors are those of `flip_left_right`.
    """
    draw = functools.partial(ops.random_uniform, seed=seed)
    return _random_flip(image, 1, draw, "random_flip_left_right")


def random_flip_up_down(image: TensorLike, seed: int | None = None) -> Tensor:
    """Flip each image from top to bottom, or not, with equal chance.

    image [h, w, c] or [batch, h, w, c]. seed: the op seed. Errors are those of `flip_left_right`.
    """
    draw = functools.partial(ops.random_uniform, seed=seed)
    return _random_flip(image, 0, draw, "random_flip_up_down")


def rot90(image: TensorLike, k: TensorLike = 1, name: str | None = None) -> Tensor:
    """Turn images counter-clockwise by k times 90 degrees.

    image [h, w, c] or [batch, h, w, c], k: scalar int32. Odd k exchange height and width. Errors
    are those of `flip_left_right`.
    """
    with name_scope(name, "rot90", [image, k]) as scope:
        image = checked_image(convert_to_tensor(image, name="image"))
        k = convert_to_tensor(k, dtype=dtypes.int32, name="k")
        k.shape.assert_has_rank(0)
        quarters = ops.mod(k, 4, name="mod")
        return by_rank(
            image,
            lambda: _rotated(image, quarters, 0, scope),
            lambda: _rotated(image, quarters, 1, scope),
        )


def _rotated(image: Tensor, quarters: Tensor, first: int, scope: str) -> Tensor:
    """Turn images whose rows are axis `first`."""
    columns = first + 1
    swap = [*range(first), columns, first, columns + 1]
    cases = [
        (
            ops.equal(quarters, 1),
            lambda: ops.transpose(ops.reverse_v2(image, [columns]), swap),
        ),
        (ops.equal(quarters, 2), lambda: ops.reverse_v2(image, [first, columns])),
        (
            ops.equal(quarters, 3),
            lambda: ops.reverse_v2(ops.transpose(image, swap), [columns]),
        ),
    ]
    result = ops.case(cases, default=lambda: image, exclusive=True, name=scope)
    if first:
        batch, _, _, depth = result.shape.with_rank(4).as_list()
        result.set_shape([batch, None, None, depth])
    else:
        known = image.shape.rank is not None
        result.set_shape([None, None, image.shape.as_list()[2] if known else None])
    return result


def transpose(image: TensorLike, name: str | None = None) -> Tensor:
    """Exchange the rows and columns of images.

    image [h, w, c] -> [w, h, c], or [batch, h, w, c] -> [batch, w, h, c]. Errors are those of
    `flip_left_right`.
    """
    with name_scope(name, "transpose", [image]):
        image = checked_image(convert_to_tensor(image, name="image"))
        return by_rank(
            image,
            lambda: ops.transpose(image, [1, 0, 2], name=name),
            lambda: ops.transpose(image, [0, 2, 1, 3], name=name),
        )
