"""Build non-max suppression: the best boxes without an overlap.

Candidates come from a heap, best first, so that only those which are looked at are put in order.
Each is compared with all boxes chosen so far: corners and areas of these lie in separate arrays,
and the loop over them is vectorised.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from tfjit.framework.types import dtypes as d
from tfjit.kernels.cpu.template import cost_model
from tfjit.kernels.registry import (
    BoundedCall,
    Launch,
    NodeSpec,
    Pointer,
    TensorSpec,
    Unsupported,
    Word,
    bounded,
)
from tfjit.kernels.source import KernelSource

_BOX_NS: Final = 60.0
_MOST_BOXES: Final = 1 << 24
# The heap holds (key of the score, complement of the index), so that of equal scores the first
# comes first. Keys are integers in the order of the scores, in which both zeros are the same. Areas
# that are NaN or infinite are left to the reference: overlaps of such boxes may be NaN.
_TEXT: Final = """\
# non-max suppression, threshold {threshold}, least score {least}
from numba import float32, int32
from tfjit.kernels.codegen.intrinsics import *


def kernel(args, chunk, nchunks):
    n = word(args, 2)
    boxes = ptr_f32(word(args, 3))
    scores = ptr_f32(word(args, 4))
    most = int(ld(ptr_i32(word(args, 5)), 0))
    threshold = {threshold}
    least = {least}
    out = ptr_i32(word(args, 8))
    heap = ptr_i64(word(args, 9))
    tops = ptr_f32(word(args, 10))
    lefts = ptr_f32(word(args, 10) + 4 * n)
    bottoms = ptr_f32(word(args, 10) + 8 * n)
    rights = ptr_f32(word(args, 10) + 12 * n)
    areas = ptr_f32(word(args, 10) + 16 * n)
    left_over = 0
    for i in range(n):
        x = ld(scores, i)
        raw = f32_bits(x)
        raw = select(iand(raw, int32(0x7FFFFFFF)) < int32(0x00800000), int32(0), raw)
        key = ixor(raw, iand(ishr(raw, int32(31)), int32(0x7FFFFFFF)))
        st_any(heap, left_over, (int(key) << 32) | (0xFFFFFFFF - i))
        left_over += int(x > least)
    start = left_over // 2
    chosen = 0
    going = threshold >= float32(0) and threshold <= float32(1) and most >= 0
    valid = going
    while going:
        # In the first rounds the heap is built, from its last parent to its root.
        at = 0
        if start > 0:
            start -= 1
            at = start
            moved = int(ld_any(heap, at))
        elif left_over == 0 or chosen >= most:
            going = False
        else:
            i = 0xFFFFFFFF - (int(ld_any(heap, 0)) & 0xFFFFFFFF)
            left_over -= 1
            moved = int(ld_any(heap, left_over))
            y1 = ld(boxes, 4 * i)
            x1 = ld(boxes, 4 * i + 1)
            y2 = ld(boxes, 4 * i + 2)
            x2 = ld(boxes, 4 * i + 3)
            top = select(y1 < y2, y1, y2)
            bottom = select(y1 < y2, y2, y1)
            left = select(x1 < x2, x1, x2)
            right = select(x1 < x2, x2, x1)
            area = (bottom - top) * (right - left)
            if area - area != float32(0):
                going = False
                valid = False
            hits = int32(0)
            for c in range(chosen):
                low = ld(bottoms, c)
                high = ld(tops, c)
                far = ld(rights, c)
                near = ld(lefts, c)
                size = ld(areas, c)
                tall = select(bottom < low, bottom, low) - select(top > high, top, high)
                wide = select(right < far, right, far) - select(left > near, left, near)
                tall = select(tall > float32(0), tall, float32(0))
                wide = select(wide > float32(0), wide, float32(0))
                shared = tall * wide
                share = shared / (size + area - shared)
                hit = (size > float32(0)) & (area > float32(0)) & (share > threshold)
                hits += select(hit, int32(1), int32(0))
            if hits == int32(0):
                st_any(out, chosen, i)
                st_any(tops, chosen, top)
                st_any(lefts, chosen, left)
                st_any(bottoms, chosen, bottom)
                st_any(rights, chosen, right)
                st_any(areas, chosen, area)
                chosen += 1
        # Let the number that came to `at` sink below larger ones.
        child = 2 * at + 1
        while going and child < left_over:
            if child + 1 < left_over and int(ld_any(heap, child + 1)) > int(ld_any(heap, child)):
                child += 1
            value = int(ld_any(heap, child))
            if value <= moved:
                break
            st_any(heap, at, value)
            at = child
            child = 2 * at + 1
        if going and at < left_over:
            st_any(heap, at, moved)
    store_word(args + 8, chosen if valid else -1)
"""
_LEAST: Final = int(np.float64(np.finfo(np.float32).min).view(np.int64))


def suppression_source(limits: int) -> KernelSource:
    """Write the kernel for a number of limits that are inputs.

    Words: boxes, their corners and scores, the greatest number of chosen ones, overlap threshold
    and least score (the addresses of inputs, or the bits of float64 values), indices of chosen
    boxes, heap, and five arrays of corners and areas. The detail is the number of chosen boxes, -1
    where the reference has to choose: limits that are an error, areas that are not finite.
    """
    threshold, least = (
        f"ld(ptr_f32(word(args, {6 + k})), 0)"
        if k < limits
        else f"float32(f64_word(args, {6 + k}))"
        for k in range(2)
    )
    text = _TEXT.format(threshold=threshold, least=least)
    return KernelSource(text, title="non-max suppression", module=__name__)


@bounded("NonMaxSuppression", "NonMaxSuppressionV2", "NonMaxSuppressionV3")
def _suppression(spec: NodeSpec) -> BoundedCall:
    boxes, scores, size, *limits = spec.inputs
    count = scores.shape[0] if len(scores.shape) == 1 else -1
    if boxes.dtype is not d.float32 or boxes.shape != (count, 4) or count > _MOST_BOXES:
        raise Unsupported(f"boxes of {boxes.dtype.name} and shape {boxes.shape}")
    if any(t.shape != () or t.dtype is not d.float32 for t in limits) or size.shape != ():
        raise Unsupported("shapes do not fit: the reference tells")
    given = int(np.float64(np.float32(spec.attrs.get("iou_threshold", 0.0))).view(np.int64))
    words: list[Word] = [count, Pointer("in", 0), Pointer("in", 1), Pointer("in", 2)]
    words += [Pointer("in", 3 + k) for k in range(len(limits))]
    words += [given, _LEAST][len(limits) :]
    words += [Pointer("out", 0), Pointer("temp", 0), Pointer("temp", 1)]
    cost = cost_model.FIXED_NS + _BOX_NS * count
    return BoundedCall(
        Launch(suppression_source(len(limits)), tuple(words), cost_ns=cost),
        (TensorSpec(d.int32, (count,)),),
        counted=(0,),
        temp_bytes=(8 * count + 8, 20 * count),
    )
