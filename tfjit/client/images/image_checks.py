"""Check ranks and sizes of images.

A size that is known when the graph is built is checked there, others by assertions in the run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tfjit import ops
from tfjit.framework.graphs.operation import Operation, Tensor
from tfjit.framework.types.shape import TensorShape
from tfjit.ops.checks.comparisons import assert_equal, assert_greater_equal, assert_positive
from tfjit.ops.control_flow.control_flow import with_dependencies
from tfjit.ops.core.convert import convert_to_tensor

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import TensorLike

# An int or a Tensor. Type checkers do not know the operators that tensors are given later.
Size = Any


def is_symbolic(value: object) -> bool:
    """Return whether a value is a tensor or a variable."""
    return isinstance(value, Tensor) or hasattr(value, "_as_graph_element")


def require(holds: object, message: str) -> list[Operation]:
    """Check a condition on sizes.

    Returns the assertion of a condition that is a tensor. Raises ValueError for a false one of
    Python.
    """
    if is_symbolic(holds):
        return [ops.Assert(holds, [message])]
    if not holds:
        raise ValueError(message)
    return []


def _ranked(image: Tensor, rank: int, message: str) -> TensorShape:
    """Return the shape of an image, of at least a rank.

    An unknown shape gets the rank. Raises ValueError with the message for a lower one.
    """
    shape = image.shape
    try:
        return shape.with_rank(rank) if shape.rank is None else shape.with_rank_at_least(rank)
    except ValueError:
        raise ValueError(message) from None


def image_assertions(image: Tensor) -> list[Operation]:
    """Return assertions on the rank and the sizes of an image.

    It has three axes at least, and none of the last three is empty. Raises ValueError where that is
    known to be wrong.
    """
    shape = _ranked(image, 3, f"'image' (shape {image.shape}) must be at least three-dimensional.")
    inner = shape[-3:]
    if 0 in inner.as_list():
        raise ValueError(f"inner 3 dims of 'image.shape' must be > 0: {shape}")
    if inner.is_fully_defined():
        return []
    return [
        assert_positive(ops.shape(image)[-3:], ["inner 3 dims of 'image.shape' must be > 0."]),
        assert_greater_equal(
            ops.rank(image), 3, message="'image' must be at least three-dimensional."
        ),
    ]


def checked_image(image: Tensor) -> Tensor:
    """Return the image behind the assertions of `image_assertions`."""
    return with_dependencies(image_assertions(image), image)


def checked_grayscale(image: TensorLike) -> Tensor:
    """Return an image behind assertions that it has one channel."""
    image = convert_to_tensor(image)
    shape = _ranked(
        image, 2, f"A grayscale image (shape {image.shape}) must be at least two-dimensional."
    )
    text = "Last dimension of a grayscale image should be size 1."
    if shape.is_fully_defined():
        if shape.as_list()[-1] != 1:
            raise ValueError(text)
        return with_dependencies([], image)
    return with_dependencies(
        [
            assert_equal(ops.shape(image)[-1], 1, message=text),
            assert_greater_equal(
                ops.rank(image), 3, message="A grayscale image must be at least two-dimensional."
            ),
        ],
        image,
    )


def sizes_of(image: Tensor, rank: int) -> list[Size]:
    """Return the size of each axis.

    It is a number, or a tensor where it is not known.
    """
    if image.shape.is_fully_defined():
        return image.shape.as_list()
    static = image.shape.with_rank(rank).as_list()
    dynamic = ops.unstack(ops.shape(image), rank)
    return [d if s is None else s for s, d in zip(static, dynamic)]


def as_batch(image: Tensor) -> tuple[Tensor, bool]:
    """Return an image as a batch, and whether it is one already.

    An image of unknown rank is taken as one image. Raises ValueError for a rank that is neither 3
    nor 4.
    """
    rank = image.shape.rank
    if rank == 4:
        return image, True
    if rank is not None and rank != 3:
        raise ValueError(f"'image' (shape {image.shape}) must have either 3 or 4 dimensions.")
    batch = ops.expand_dims(image, 0)
    if rank is None:
        batch.set_shape([None] * 4)
    return batch, False


def by_rank(
    image: Tensor,
    of_one: Callable[[], Tensor],
    of_batch: Callable[[], Tensor],
    message: str = "'image' (shape {}) must have either 3 or 4 dimensions.",
) -> Tensor:
    """Return the result of the function for an image's rank.

    A conditional chooses in the run where the rank is not known. Raises ValueError for a rank that
    is neither 3 nor 4.
    """
    rank = image.shape.rank
    if rank is None:
        return ops.cond(ops.equal(ops.rank(image), 3), of_one, of_batch)
    if rank == 3:
        return of_one()
    if rank == 4:
        return of_batch()
    raise ValueError(message.format(image.shape))
