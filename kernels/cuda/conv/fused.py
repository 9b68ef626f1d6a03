"""Build convolutions with their epilogues from fused groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tfjit.kernels.cpu.conv.window import Layout, node_layout
from tfjit.kernels.cuda.conv.conv import convolution_call, is_pointwise, sizes_of
from tfjit.kernels.cuda.conv.depthwise import depthwise_call
from tfjit.kernels.cuda.conv.library_forms import group_forms, problem_of
from tfjit.kernels.cuda.gemm.fused import AnchoredGroup, anchored
from tfjit.kernels.registry import NativeCall, Unsupported

if TYPE_CHECKING:
    from tfjit.kernels.ir.fused_group import FusedGroup


def _layout(parts: AnchoredGroup) -> Layout:
    layout = node_layout(parts.anchor)
    if not layout.channels_last:
        # the epilogue's vectors run along the last axis, which is no channel
        raise Unsupported("an epilogue of a convolution in NCHW")
    return layout


def convolution_group_call(
    group: FusedGroup, known: Mapping[int, np.ndarray] | None = None
) -> NativeCall:
    """Return a convolution with its epilogue.

    known: values of the group's inputs. Raises Unsupported.
    """
    parts = anchored(group)
    layout = _layout(parts)
    call = parts.placed(convolution_call(parts.inputs, layout, parts.epilogue))
    x, w = parts.inputs[:2]
    _, height, width, _ = sizes_of(x.shape, layout)
    windows = layout.windows(height, width, (w.shape[0], w.shape[1]))
    if is_pointwise(*windows):  # a product of matrices
        return call
    problem = problem_of("forward", x, w, layout, windows)
    forms = group_forms(problem, group, parts.epilogue, parts.order, known or {})
    return replace(call, library_forms=forms)


def depthwise_group_call(
    group: FusedGroup, known: Mapping[int, np.ndarray] | None = None
) -> NativeCall:
    """Return a depthwise convolution with its epilogue. Raises Unsupported."""
    parts = anchored(group)
    return parts.placed(depthwise_call(parts.inputs, _layout(parts), parts.epilogue))
