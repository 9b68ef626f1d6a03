"""Factor matrices with row exchanges, and solve systems, in NumPy."""

from __future__ import annotations

from typing import Final

import numpy as np

from tfjit.kernels.cpu.reference.inputs import invalid

NOT_INVERTIBLE: Final = "Input is not invertible."


def computed(value: np.ndarray) -> np.ndarray:
    """Return the array in a type of LAPACK.

    LAPACK has no routines for half.
    """
    return value.astype(np.float32) if value.dtype == np.float16 else value


def pivoted_lu(matrix: np.ndarray, refusal: str = NOT_INVERTIBLE) -> tuple[np.ndarray, np.ndarray]:
    """Factorise a matrix by rows with the greatest pivot.

    Returns both factors in one matrix [m, m], and the input row of each of its rows. Raises
    InvalidArgumentError with `refusal` where a pivot is zero, or the first is NaN. As in Eigen NaN
    is a pivot where it comes first, else passed over.
    """
    lu = np.array(computed(matrix))
    rows = np.arange(len(lu))
    for i in range(len(lu)):
        levels = np.abs(lu[i:, i])
        best = i if np.isnan(levels[0]) else i + int(np.nanargmax(levels))
        if lu[best, i] == 0 or (i == 0 and np.isnan(lu[0, 0])):
            invalid(refusal)
        if best != i:
            lu[[i, best]] = lu[[best, i]]
            rows[[i, best]] = rows[[best, i]]
        lu[i + 1 :, i] /= lu[i, i]
        lu[i + 1 :, i + 1 :] -= np.outer(lu[i + 1 :, i], lu[i, i + 1 :])
    return lu, rows


def solved(wide: np.ndarray, right: np.ndarray, refusal: str) -> np.ndarray:
    """Return x in matrix x = right.

    Matrices are [..., m, m], right sides [..., m, k].

    Raises InvalidArgumentError with `refusal` for a matrix that is not invertible. LAPACK refuses
    NaN and infinities, so matrices with these are solved by their LU factors.
    """
    strange = ~np.isfinite(wide).all((-2, -1))
    usual = wide
    if strange.any():
        usual = np.where(strange[..., None, None], np.eye(wide.shape[-1], dtype=wide.dtype), wide)
    try:
        out: np.ndarray = np.linalg.solve(usual, right)
    except np.linalg.LinAlgError:
        invalid(refusal)
    for place in np.argwhere(strange):
        at = tuple(place)
        lu, rows = pivoted_lu(wide[at], refusal)
        lower = np.tril(lu, -1) + np.eye(len(lu), dtype=lu.dtype)
        out[at] = substitute(lu, substitute(lower, right[at][rows], True), False)
    return out


def substitute(triangle: np.ndarray, right: np.ndarray, lower: bool) -> np.ndarray:
    """Solve triangle x = right, of which one triangle is read.

    Shapes [..., m, m] and [..., m, k]. A zero on the diagonal gives infinities.
    """
    out = np.array(right)
    size = triangle.shape[-1]
    for i in range(size) if lower else reversed(range(size)):
        done = slice(0, i) if lower else slice(i + 1, size)
        if i != (0 if lower else size - 1):
            out[..., i, :] -= (triangle[..., i, None, done] @ out[..., done, :])[..., 0, :]
        out[..., i, :] /= triangle[..., i, i, None]
    return out
