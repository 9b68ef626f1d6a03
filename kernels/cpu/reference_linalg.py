"""Decompositions of (batches of) matrices in NumPy."""

from __future__ import annotations

import numpy as np

from tfjit.kernels.cpu.reference_array import Arrays, invalid
from tfjit.kernels.registry import NodeSpec, reference


def _square(value: np.ndarray) -> np.ndarray:
    """The matrices [n, m, m]. Raises InvalidArgumentError for what holds no square matrices."""
    if value.ndim < 2:
        invalid(f"Input tensor 0 must have rank >= 2, got {value.ndim}")
    if value.shape[-1] != value.shape[-2]:
        invalid("Input matrix must be square.")
    return value.reshape(-1, *value.shape[-2:]) if value.size else value.reshape(0, *value.shape[-2:])


def _wide(dtype: np.dtype) -> np.dtype:
    """What LAPACK computes in: half has no routines of its own."""
    return np.dtype(np.float32) if dtype == np.float16 else dtype


@reference("Cholesky", "BatchCholesky")
def _cholesky(node: NodeSpec, inputs: Arrays) -> Arrays:
    """input [..., m, m], of which the lower triangle is read -> lower [..., m, m]; NaN there where there is no factor."""
    (x,) = inputs
    out = np.zeros(x.shape, x.dtype)
    for matrix, lower in zip(_square(x), _square(out)):
        try:
            lower[...] = np.linalg.cholesky(matrix.astype(_wide(x.dtype), copy=False))
        except np.linalg.LinAlgError:
            lower[np.tril_indices(len(lower))] = np.nan
    return (out,)


@reference("MatrixInverse", "BatchMatrixInverse")
def _inverse(node: NodeSpec, inputs: Arrays) -> Arrays:
    """input [..., m, m] -> the inverses, of the conjugate transposes with `adjoint`. Raises InvalidArgumentError for a singular matrix."""
    (x,) = inputs
    out = np.empty(x.shape, x.dtype)
    for matrix, inverse in zip(_square(x), _square(out)):
        try:
            found = np.linalg.inv(matrix.astype(_wide(x.dtype), copy=False))
        except np.linalg.LinAlgError:
            invalid("Input is not invertible.")
        inverse[...] = found.conj().T if node.attrs.get("adjoint") else found
    return (out,)
