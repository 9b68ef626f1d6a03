"""Describe convolutions as cuDNN computes them."""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Final, Literal

from tfjit.framework.types.dtypes import DType

Kind = Literal["forward", "input gradient", "filter gradient"]
Member = Literal["add", "bias", "relu"]
IMAGES: Final = 1
FILTER: Final = 2
RESULTS: Final = 3
BIAS: Final = 4
ADDED: Final = 5
"""Numbers of the tensors.

IMAGES is the convolution's input or the gradient of it, RESULTS its output, with the epilogue, or
the gradient of it; FILTER is the filter or its gradient.
"""
WORKSPACE_BYTES: Final = 1 << 30
"""The most that a convolution may use; a quarter of TensorFlow's limit."""
_MOST_ELEMENTS: Final = 1 << 31
_TENSORS: Final[dict[Kind, tuple[int, int, int]]] = {
    "forward": (IMAGES, FILTER, RESULTS),
    "input gradient": (FILTER, RESULTS, IMAGES),
    "filter gradient": (IMAGES, RESULTS, FILTER),
}
_CHANNELS_LAST: Final = (0, 2, 3, 1)
_CHANNELS_FIRST: Final = (0, 1, 2, 3)


@functools.cache
def has_to_repeat() -> bool:
    """Return whether each run has to give the same bits.

    Variables, as TensorFlow 1 reads them: TF_CUDNN_DETERMINISTIC, TF_DETERMINISTIC_OPS.
    """
    names = ("TF_CUDNN_DETERMINISTIC", "TF_DETERMINISTIC_OPS")
    return any(os.environ.get(name, "").lower() in ("1", "true") for name in names)


@dataclass(frozen=True, slots=True)
class ConvolutionProblem:
    """A 2-D convolution or one of its gradients, over contiguous tensors.

    Words: the tensors of `tensors`, workspace. Pairs are in the order height, width. size: of the
    images; out: of the results; before, after: rows and columns of zeros around the images.
    channels_last: images and results are [batch, height, width, channels], the filter is [out
    channels, height, width, in channels / groups]; else [batch, channels, height, width] and [out
    channels, in channels / groups, height, width]. epilogue: of "forward", in order: add a tensor
    like the results, add a vector along the channels, max(0, x). Sums are float64 for float64, else
    float32. tf32: float32 operands may be rounded to TF32. repeats: each run gives the same bits.
    """

    kind: Kind
    dtype: DType
    batch: int
    in_channels: int
    out_channels: int
    size: tuple[int, int]
    out: tuple[int, int]
    taps: tuple[int, int]
    strides: tuple[int, int] = (1, 1)
    dilations: tuple[int, int] = (1, 1)
    before: tuple[int, int] = (0, 0)
    after: tuple[int, int] = (0, 0)
    channels_last: bool = True
    groups: int = 1
    epilogue: tuple[Member, ...] = ()
    tf32: bool = False
    repeats: bool = False

    @property
    def library(self) -> str:
        """Return "cuDNN"."""
        return "cuDNN"

    @property
    def tensors(self) -> tuple[int, ...]:
        """Return the numbers of the tensors in the order of the words.

        The last one is written.
        """
        *operands, result = _TENSORS[self.kind]
        others = {"add": (ADDED,), "bias": (BIAS,), "relu": ()}
        return (*operands, *(t for member in self.epilogue for t in others[member]), result)

    def sizes(self, tensor: int) -> tuple[int, int, int, int]:
        """Return the sizes of a tensor in cuDNN's order.

        They are batch, channels, height, width; of the filter out channels, in channels, height,
        width.
        """
        if tensor == IMAGES:
            return (self.batch, self.in_channels, *self.size)
        if tensor == FILTER:
            return (self.out_channels, self.in_channels // self.groups, *self.taps)
        if tensor == BIAS:
            return (1, self.out_channels, 1, 1)
        return (self.batch, self.out_channels, *self.out)

    @property
    def order(self) -> tuple[int, int, int, int]:
        """Return the axes of `sizes` from the slowest to the fastest."""
        return _CHANNELS_LAST if self.channels_last else _CHANNELS_FIRST

    def strides_of(self, tensor: int) -> tuple[int, ...]:
        """Return the strides of a tensor, in elements, in `sizes` order."""
        sizes = self.sizes(tensor)
        strides = [0] * len(sizes)
        step = 1
        for axis in reversed(self.order):
            strides[axis] = step
            step *= sizes[axis]
        return tuple(strides)

    @property
    def work(self) -> int:
        """Return the number of multiply-adds."""
        terms = prod(self.taps) * (self.in_channels // self.groups)
        return prod(self.sizes(RESULTS)) * terms

    @property
    def fits(self) -> bool:
        """Return whether 32 bits count the elements of each tensor."""
        return all(prod(self.sizes(t)) < _MOST_ELEMENTS for t in (IMAGES, FILTER, RESULTS))

    @property
    def title(self) -> str:
        """Return "cuDNN convolution 3x3 of 32x28x28x128 to 64 float32 (TF32)+bias+relu"."""
        what = "convolution" if self.kind == "forward" else f"{self.kind} of a convolution"
        sizes = _by_x((self.batch, *self.size, self.in_channels))
        kind = f"{self.dtype.name}{' (TF32)' if self.tf32 else ''}"
        end = "".join(f"+{member}" for member in self.epilogue)
        return f"cuDNN {what} {_by_x(self.taps)} of {sizes} to {self.out_channels} {kind}{end}"


def _by_x(numbers: Sequence[int]) -> str:
    return "x".join(map(str, numbers))


__all__ = [
    "ADDED", "BIAS", "FILTER", "IMAGES", "RESULTS", "WORKSPACE_BYTES", "ConvolutionProblem", "Kind",
    "Member", "has_to_repeat",
]  # fmt: skip
