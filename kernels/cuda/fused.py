"""Build the launches of fused groups by their kind."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Final

import numpy as np

from tfjit.kernels.cuda.template.registry import device_native
from tfjit.kernels.ir.fused_group import FusedGroup
from tfjit.kernels.registry import NativeCall, NodeSpec, Unsupported

TEMPLATES: Final = {
    "loop": ("elementwise.loop", "loop_call"),
    "matmul": ("gemm.fused", "matmul_group_call"),
    "attention": ("gemm.attention", "attention_group_call"),
    "conv2d": ("conv.fused", "convolution_group_call"),
    "depthwise": ("conv.fused", "depthwise_group_call"),
    "rows": ("reduction.row_reduction", "rows_call"),
    "reduce": ("reduction.reduction", "reduce_call"),
}
"""Module and function of a group's template, by kind.

It is imported when a group comes up.
"""
_USES_KNOWN: Final = frozenset({"conv2d", "matmul"})
"""Kinds whose templates look at known values."""


def group_call(group: FusedGroup, known: Mapping[int, np.ndarray]) -> NativeCall:
    """Return a group's launches through the template of its kind.

    known: values of external inputs. Raises Unsupported.
    """
    found = TEMPLATES.get(group.kind)
    if found is None:
        raise Unsupported(f"the GPU has no kernel for a group of kind {group.kind}")
    module, name = found
    template = getattr(importlib.import_module(f"tfjit.kernels.cuda.{module}"), name)
    call: NativeCall = template(group, known) if group.kind in _USES_KNOWN else template(group)
    return call


@device_native("_Fused")
def _fused(spec: NodeSpec) -> NativeCall:
    return group_call(spec.attrs["group"].for_inputs(spec.inputs), spec.constants)
