"""Compute Fourier transforms in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tfjit.kernels.cpu.reference.inputs import Arrays, invalid
from tfjit.kernels.registry import NodeSpec, reference

_DIMS = {"": 1, "2D": 2, "3D": 3}


def _check(x: np.ndarray, rank: int, needed: list[int]) -> None:
    """Raise InvalidArgumentError for too few elements along the last `rank` dimensions.

    `needed`: the least number of each.
    """
    if x.ndim < rank:
        invalid(f"Input must have rank of at least {rank} but got: [{','.join(map(str, x.shape))}]")
    for i, least in enumerate(needed):
        axis = x.ndim - rank + i
        if x.size and x.shape[axis] < least:
            invalid(
                f"Input dimension {axis} must have length of at least {least} but got: "
                f"{x.shape[axis]}"
            )


def _cropped(x: np.ndarray, sizes: list[int]) -> np.ndarray:
    index: tuple[Any, ...] = (..., *(slice(0, size) for size in sizes))
    cropped: np.ndarray = x[index]
    return cropped


def _lengths(fft_length: np.ndarray, rank: int) -> list[int]:
    if fft_length.shape != (rank,):
        invalid(f"fft_length must have shape [{rank}]")
    if (fft_length < 0).any():
        invalid(
            f"fft_length[{int(np.argmax(fft_length < 0))}] must be >= 0, but got: "
            f"{int(fft_length[fft_length < 0][0])}"
        )
    return [int(n) for n in fft_length]


def _complex(rank: int, transform: Callable[..., Any]) -> Callable[[NodeSpec, Arrays], Arrays]:
    def kernel(node: NodeSpec, inputs: Arrays) -> Arrays:
        """Transform complex input [..., n] over the last `rank` dimensions."""
        (x,) = inputs
        _check(x, rank, [])
        return ((transform(x, axes=range(-rank, 0)) if x.size else x).astype(x.dtype, copy=False),)

    return kernel


def _real(rank: int) -> Callable[[NodeSpec, Arrays], Arrays]:
    def kernel(node: NodeSpec, inputs: Arrays) -> Arrays:
        """Transform real input to half of its spectrum.

        input [..., n] real, cropped to fft_length -> [..., fft_length / 2 + 1] complex.
        """
        x, fft_length = inputs
        sizes = _lengths(fft_length, rank)
        _check(x, rank, sizes)
        dtype = node.attrs["Tcomplex"].as_numpy_dtype
        shape = (*x.shape[: x.ndim - rank], *sizes[:-1], sizes[-1] // 2 + 1 if sizes[-1] else 0)
        if not x.size or not all(sizes):
            return (np.zeros(shape, dtype),)
        return (np.fft.rfftn(_cropped(x, sizes), axes=range(-rank, 0)).astype(dtype, copy=False),)

    return kernel


def _inverse_real(rank: int) -> Callable[[NodeSpec, Arrays], Arrays]:
    def kernel(node: NodeSpec, inputs: Arrays) -> Arrays:
        """Transform half of a spectrum to real values.

        input [..., fft_length / 2 + 1] complex -> [..., fft_length] real.
        """
        x, fft_length = inputs
        sizes = _lengths(fft_length, rank)
        needed = [*sizes[:-1], sizes[-1] // 2 + 1 if sizes[-1] else 0]
        _check(x, rank, needed)
        dtype = node.attrs["Treal"].as_numpy_dtype
        if not x.size or not all(sizes):
            return (np.zeros((*x.shape[: x.ndim - rank], *sizes), dtype),)
        return (
            np.fft.irfftn(_cropped(x, needed), s=sizes, axes=range(-rank, 0)).astype(
                dtype, copy=False
            ),
        )

    return kernel


for _suffix, _rank in _DIMS.items():
    reference(f"FFT{_suffix}")(_complex(_rank, np.fft.fftn))
    reference(f"IFFT{_suffix}")(_complex(_rank, np.fft.ifftn))
    reference(f"RFFT{_suffix}")(_real(_rank))
    reference(f"IRFFT{_suffix}")(_inverse_real(_rank))
