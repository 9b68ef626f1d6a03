"""Compute the geometry of convolution and pooling windows.

It comprises padding, output sizes and the layout attrs of a node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tfjit.framework.errors import InvalidArgumentError
from tfjit.kernels.registry import NodeSpec, Unsupported


@dataclass(frozen=True, slots=True)
class Window:
    """One spatial axis of a convolution or pooling.

    A window of `size` taps has `out` positions over `length` values. Tap t of output o reads input
    o * stride + t * dilation - before; positions outside [0, length) are padding.
    """

    length: int
    size: int
    stride: int = 1
    dilation: int = 1
    before: int = 0
    after: int = 0

    @property
    def out(self) -> int:
        """Return the number of output positions."""
        return max(0, (self.length + self.before + self.after - self.extent) // self.stride + 1)

    @property
    def extent(self) -> int:
        """Return the input positions from the first tap to the last, inclusive."""
        return (self.size - 1) * self.dilation + 1

    @property
    def padded(self) -> int:
        """Return the input positions that all outputs read, padding counted."""
        return (self.out - 1) * self.stride + self.extent if self.out else 0

    def taps(self, position: int) -> tuple[int, int]:
        """Return the half-open range of an output's taps inside the input."""
        start = position * self.stride - self.before
        first = max(0, -(start // self.dilation)) if start < 0 else 0
        last = min(self.size, -(-(self.length - start) // self.dilation))
        return (first, last) if first < last else (0, 0)


def make_window(
    length: int,
    size: int,
    stride: int,
    dilation: int,
    padding: str,
    explicit: tuple[int, int] = (0, 0),
    out: int | None = None,
) -> Window:
    """Return the window that TensorFlow means by `padding`.

    padding: "SAME", "VALID" or "EXPLICIT" with (before, after). out: the number of outputs, where a
    gradient knows it; it then also fixes `after`. Raises InvalidArgumentError when the window is
    longer than the input by more than a stride.
    """
    extent = (size - 1) * dilation + 1
    before = after = 0
    if padding == "SAME":
        count = -(-length // stride)
        total = max(0, (count - 1) * stride + extent - length)
        before, after = total // 2, total - total // 2
    elif padding == "EXPLICIT":
        before, after = explicit
    elif padding != "VALID":
        raise ValueError(f"padding is {padding!r}, expected SAME, VALID or EXPLICIT")
    # rounded towards zero, as TensorFlow counts
    positions = int((length + before + after - extent + stride) / stride)
    if positions < 0:
        raise InvalidArgumentError(
            None,
            None,
            f"Computed output size would be negative: {positions} "
            f"[input_size: {length}, effective_filter_size: {extent}, stride: {stride}]",
        )
    window = Window(length, size, stride, dilation, before, after)
    if out is not None and window.out != out:
        raise ValueError(f"a window of {window} has {window.out} outputs, not {out}")
    return window


def attr_text(attrs: Mapping[str, Any], name: str, default: str = "") -> str:
    """Return a string attr as str."""
    value = attrs.get(name, default)
    return value.decode() if isinstance(value, bytes) else str(value)


@dataclass(frozen=True, slots=True)
class Layout:
    """Attrs of a 2-D convolution or pooling, in the order height, width.

    channels_last: NHWC (True) or NCHW. explicit: (before, after) pairs, used where padding is
    "EXPLICIT". depth_stride, depth_size: of the channel axis (pooling over depth).
    """

    channels_last: bool
    strides: tuple[int, int]
    dilations: tuple[int, int]
    padding: str
    explicit: tuple[tuple[int, int], tuple[int, int]]
    sizes: tuple[int, int] = (1, 1)
    depth_stride: int = 1
    depth_size: int = 1

    def windows(
        self, height: int, width: int, sizes: tuple[int, int] | None = None
    ) -> tuple[Window, Window]:
        """Return the windows over an image of that size.

        sizes: (k_h, k_w), from ksize when left out.
        """
        k_h, k_w = sizes or self.sizes
        return (
            make_window(
                height, k_h, self.strides[0], self.dilations[0], self.padding, self.explicit[0]
            ),
            make_window(
                width, k_w, self.strides[1], self.dilations[1], self.padding, self.explicit[1]
            ),
        )


def layout_of(
    attrs: Mapping[str, Any],
    strides: Sequence[int] | None = None,
    ksize: Sequence[int] | None = None,
) -> Layout:
    """Read strides, dilations, padding, data_format, explicit_paddings and ksize.

    strides, ksize: given where they are inputs of the node (MaxPoolV2) instead of attrs.
    """
    form = attr_text(attrs, "data_format", "NHWC")
    if form not in ("NHWC", "NCHW"):
        raise ValueError(f"data_format {form} is not NHWC or NCHW")
    h, w, c = ("NHWC".index("H"), "NHWC".index("W"), 3) if form == "NHWC" else (2, 3, 1)
    strides = [int(v) for v in (attrs["strides"] if strides is None else strides)]
    dilations = [int(v) for v in attrs.get("dilations", ()) or (1, 1, 1, 1)]
    pads = [int(v) for v in attrs.get("explicit_paddings", ()) or (0,) * 8]
    sizes = [int(v) for v in (attrs.get("ksize", (1, 1, 1, 1)) if ksize is None else ksize)]
    if strides[0] != 1 or sizes[0] != 1:
        raise ValueError("windows over the batch axis do not exist")
    return Layout(
        channels_last=form == "NHWC",
        strides=(strides[h], strides[w]),
        dilations=(dilations[h], dilations[w]),
        padding=attr_text(attrs, "padding"),
        explicit=((pads[2 * h], pads[2 * h + 1]), (pads[2 * w], pads[2 * w + 1])),
        sizes=(sizes[h], sizes[w]),
        depth_stride=strides[c],
        depth_size=sizes[c],
    )


def node_layout(
    node: NodeSpec, strides: Sequence[int] | None = None, ksize: Sequence[int] | None = None
) -> Layout:
    """Return the layout of a node, as `layout_of` does.

    Raises Unsupported for windows that a node cannot have.
    """
    try:
        return layout_of(node.attrs, strides, ksize)
    except ValueError as error:
        raise Unsupported(str(error)) from error


def pool_layout(node: NodeSpec, first: int) -> Layout:
    """Return the layout of a pooling node.

    first: the input that holds ksize in the V2 forms. Raises Unsupported for unknown sizes and
    windows over channels.
    """
    ksize = strides = None
    if len(node.inputs) > first:
        if not {first, first + 1} <= node.constants.keys():
            raise Unsupported("window sizes that are not known while planning")
        ksize, strides = node.constants[first].tolist(), node.constants[first + 1].tolist()
    layout = node_layout(node, strides, ksize)
    if layout.depth_size != 1 or layout.depth_stride != 1:
        raise Unsupported("windows over channels")
    return layout


def channels_last(layout: Layout) -> Layout:
    """Return a layout of NHWC. Raises Unsupported for NCHW."""
    if not layout.channels_last:
        raise Unsupported("NCHW")
    return layout
