"""Extract patches of images in NumPy.

Extraction puts each window's values side by side; morphology takes the largest and smallest sums.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tfjit.kernels.cpu.conv.window import Window, attr_text, make_window
from tfjit.kernels.cpu.reference.inputs import Arrays, invalid, shape_text
from tfjit.kernels.memory_limits import check_fits_in_memory
from tfjit.kernels.registry import NodeSpec, reference

Array = np.ndarray


def padded(values: Array, windows: Sequence[Window], fill: Any = 0) -> Array:
    """Pad values [batch, *spatial, c] with the border of the windows.

    Parts beyond the last window are cut off.
    """
    after = [w.padded - w.before - w.length for w in windows]
    inner = values[
        (slice(None), *(slice(0, w.length + min(0, more)) for w, more in zip(windows, after)))
    ]
    pads = [(0, 0), *((w.before, max(0, more)) for w, more in zip(windows, after)), (0, 0)]
    return np.pad(inner, pads, constant_values=fill) if any(p != (0, 0) for p in pads) else inner


def windowed(bordered: Array, windows: Sequence[Window]) -> Array:
    """Return a view [batch, *outputs, *taps, c] of each window's inputs.

    The array has its border.
    """
    steps = bordered.strides
    shape = (
        bordered.shape[0],
        *(w.out for w in windows),
        *(w.size for w in windows),
        bordered.shape[-1],
    )
    moves = [s * w.stride for s, w in zip(steps[1:-1], windows)]
    taps = [s * w.dilation for s, w in zip(steps[1:-1], windows)]
    return np.lib.stride_tricks.as_strided(
        bordered, shape, (steps[0], *moves, *taps, steps[-1]), writeable=False
    )


def taps(windows: Sequence[Window]) -> Iterator[tuple[tuple[int, ...], tuple[slice, ...]]]:
    """Yield (tap, the slices of the padded spatial axes), row by row."""
    for tap in np.ndindex(*(w.size for w in windows)):
        starts = [t * w.dilation for t, w in zip(tap, windows)]
        yield (
            tap,
            tuple(
                slice(s, s + (w.out - 1) * w.stride + 1, w.stride) for s, w in zip(starts, windows)
            ),
        )


@reference("ExtractImagePatches", "ExtractVolumePatches")
def _extract(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Extract the patches of all windows.

    images [batch, *spatial, c] -> [batch, *windows, taps * c], 0 outside of the image.
    """
    rank = 5 if node.op == "ExtractVolumePatches" else 4
    attrs = {name: node.attrs.get(name) or (1,) * rank for name in ("ksizes", "strides", "rates")}
    for name, values in attrs.items():
        if len(values) != rank:
            invalid(f"Sliding window {name} field must specify {rank} dimensions")
        if values[0] != 1 or values[-1] != 1:
            invalid(f"Only support {name} across space.")
        if min(values) < 1:
            invalid(f"{name} is out of range.")
    images = inputs[0]
    if images.ndim != rank:
        invalid(f"input must be {rank}-dimensional{shape_text(images)}")
    padding = attr_text(node.attrs, "padding")
    windows = [
        make_window(
            images.shape[i], attrs["ksizes"][i], attrs["strides"][i], attrs["rates"][i], padding
        )
        for i in range(1, rank - 1)
    ]
    count = int(np.prod([w.size for w in windows]))
    out = (images.shape[0], *(w.out for w in windows), count * images.shape[-1])
    check_fits_in_memory(out, images.dtype, 2)
    if 0 in out:
        return (np.zeros(out, images.dtype),)
    return (windowed(padded(images, windows), windows).reshape(out),)
