"""Shape rules of images, boxes and audio."""

from __future__ import annotations

from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.ops.core.shape_rules import Rule, Shapes, fail, int_constant, size_input, window_size


def _scalars(c: ShapeContext, *indices: int) -> None:
    for index in indices:
        c.with_rank(index, 0)


def resized(c: ShapeContext) -> Shapes:
    """images [batch, h, w, c], size [2] -> [batch, *size, c]; what follows the first output are
    scalars.
    """
    images = c.with_rank(0, 4)
    out = (images[0], *size_input(c, 1), images[3])
    return [out, *[()] * (c.num_outputs - 1)]


def quantized_resized(c: ShapeContext) -> Shapes:
    """As `resized`, with the scalars min and max."""
    _scalars(c, 2, 3)
    return resized(c)


def projected(c: ShapeContext) -> Shapes:
    """images [batch, h, w, c], transforms, output_shape [2] -> [batch, *output_shape, c]."""
    images = c.with_rank(0, 4)
    return [(images[0], *size_input(c, 2), images[3])]


def adjusted(c: ShapeContext) -> Shapes:
    """The images' shape; every other input is a scalar."""
    images = c.with_rank_at_least(0, 3)
    _scalars(c, *range(1, len(c.inputs)))
    return [images]


def drawn(c: ShapeContext) -> Shapes:
    """The images' shape; boxes [batch, n, 4], of which V2 looks at run time only."""
    if c.op == "DrawBoundingBoxes":
        c.with_rank(1, 3)
    return [c.with_rank_at_least(0, 3)]


def colors(c: ShapeContext) -> Shapes:
    """The images' shape, whose last axis has three channels."""
    images = c.with_rank_at_least(0, 1)
    if images is None:
        return [None]
    return [(*images[:-1], c.with_value(images[-1], 3))]


def crops(c: ShapeContext) -> Shapes:
    """image [batch, h, w, c], boxes [n, 4], box_ind [n], crop_size [2] -> [n, *crop_size, c]."""
    image, boxes, index = c.with_rank(0, 4), c.with_rank(1, 2), c.with_rank(2, 1)
    count = c.merge_dim(boxes[0], index[0])
    c.with_value(boxes[1], 4)
    return [(count, *size_input(c, 3), image[3])]


def shape_of_input(index: int, rank: int) -> Rule:
    """The shape that input `index` holds, of this rank."""

    def rule(c: ShapeContext) -> Shapes:
        return [c.with_rank(c.constant_as_shape(index), rank)]

    return rule


def glimpses(c: ShapeContext) -> Shapes:
    """input [batch, h, w, c], size [2], offsets [batch, 2] -> [batch, *size, c]."""
    if c.attr("uniform_noise") and c.attr("noise") not in (b"", b"uniform"):
        raise fail("The uniform_noise should not be True when noise is not uniform")
    images, offsets = c.with_rank(0, 4), c.with_rank(2, 2)
    batch = c.merge_dim(images[0], offsets[0])
    c.with_value(offsets[1], 2)
    return [(batch, *size_input(c, 1), images[3])]


def suppression(scalars: int, padded: bool = False, overlaps: bool = False) -> Rule:
    """boxes [n, 4] (or overlaps [n, n]), scores [n] and so many scalars -> indices [?], the first
    of them at most; V4 and V5 more.
    """

    def rule(c: ShapeContext) -> Shapes:
        boxes, scores = c.with_rank(0, 2), c.with_rank(1, 1)
        _scalars(c, *range(2, 2 + scalars))
        c.merge_dim(boxes[0], scores[0])
        if overlaps:
            c.merge_dim(boxes[0], boxes[1])
        else:
            c.with_value(boxes[1], 4)
        found: tuple[int | None, ...] = (None,)
        if padded and c.attr("pad_to_max_output_size"):
            size = int_constant(c, 2)
            if size is not None and size < 0:
                raise fail(f"Dimension size, given by scalar input {size} must be non-negative")
            found = (size,)
        return [*[found] * max(1, c.num_outputs - 1), *[()] * (c.num_outputs > 1)]

    return rule


def combined_suppression(c: ShapeContext) -> Shapes:
    """boxes [batch, n, q, 4], scores [batch, n, classes] -> [batch, m, 4], [batch, m], [batch, m],
    [batch].
    """
    boxes, scores = c.with_rank(0, 4), c.with_rank(1, 3)
    _scalars(c, 2, 3, 4, 5)
    c.merge_dim(boxes[0], scores[0])
    c.merge_dim(boxes[1], scores[1])
    c.with_value(boxes[3], 4)
    if boxes[2] is not None and scores[2] is not None and boxes[2] not in (1, scores[2]):
        raise fail(
            "third dimension of boxes must be either 1 or equal to the third dimension of scores"
        )
    total = int_constant(c, 3)
    if total is not None and total <= 0:
        raise fail("max_total_size should be > 0 ")
    each = int_constant(c, 2)
    count = total
    if total is not None and c.attr("pad_per_class"):
        if each is None or scores[2] is None:
            count = None
        else:
            if each <= 0:
                raise fail("max_output_size_per_class should be > 0 ")
            count = min(total, each * scores[2])
    batch = boxes[0]
    return [(batch, count, 4), (batch, count), (batch, count), (batch,)]


def patches(c: ShapeContext) -> Shapes:
    """[batch, *spatial, c] -> [batch, *windows, k * ... * c], of the patches that `ksizes`,
    `strides` and `rates` describe.
    """
    rank = 5 if c.op == "ExtractVolumePatches" else 4
    shape = c.with_rank(0, rank)
    sizes, strides = c.attr("ksizes"), c.attr("strides")
    rates = c.attrs.get("rates") or [1] * rank
    names = "ksizes", "strides", "rates"
    for name, values in zip(names, (sizes, strides, rates)):
        if len(values) != rank:
            raise fail(
                f"{c.op} requires the {name} attribute to contain {rank} values, but got: "
                f"{len(values)}"
            )
    padding = c.attr("padding").decode()
    depth = shape[-1]
    for axis in range(1, rank - 1):
        depth = c.multiply(depth, sizes[axis])
    windows: list[int | None] = [None] * (rank - 2)
    if None not in shape[1:-1]:
        windows = [
            window_size(c, shape[i], sizes[i], rates[i], strides[i], padding)
            for i in range(1, rank - 1)
        ]
    return [(shape[0], *windows, depth)]


def spectrogram(c: ShapeContext) -> Shapes:
    """input [samples, channels] -> [channels, windows, bins], of windows of `window_size` samples a
    `stride` apart.
    """
    samples, channels = c.with_rank(0, 2)
    window, stride = c.attr("window_size"), c.attr("stride")
    if window <= 1:
        raise fail(f"window size must be > 1, got {window}")
    if stride <= 0:
        raise fail(f"stride must be strictly positive, got {stride}")
    count = None
    if samples is not None:
        count = 0 if samples - window < 0 else 1 + (samples - window) // stride
    bins = 1 + (1 << max(0, (window - 1).bit_length())) // 2
    return [(channels, count, bins)]


def mfcc(c: ShapeContext) -> Shapes:
    """spectrogram [channels, windows, bins], sample_rate [] -> [channels, windows,
    dct_coefficient_count].
    """
    shape = c.with_rank(0, 3)
    _scalars(c, 1)
    return [(shape[0], shape[1], c.attr("dct_coefficient_count"))]
