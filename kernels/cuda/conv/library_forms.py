"""Build the forms of convolutions that cuDNN computes.

cuDNN takes filters with the out channels first, TensorFlow's have them last: a known filter is
transposed while planning, any other by a kernel before the routine, and a filter's gradient by one
behind it. The texts of tfjit serve small convolutions and all that the library has no plan for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Final

import numpy as np

from tfjit.kernels.cpu.conv.window import Layout, Window
from tfjit.kernels.cuda.conv.launch_chain import LaunchChain
from tfjit.kernels.cuda.elementwise.loop import loop_call
from tfjit.kernels.cuda.gemm.library_epilogue import library_epilogue
from tfjit.kernels.cuda.gemm.library_products import pays
from tfjit.kernels.cuda.gemm.tiles import ACCUMULATORS
from tfjit.kernels.cuda.libraries.convolution_problem import (
    IMAGES,
    RESULTS,
    ConvolutionProblem,
    Kind,
    Member,
    has_to_repeat,
)
from tfjit.kernels.cuda.libraries.library_files import CUDNN, is_installed
from tfjit.kernels.cuda.libraries.product_problem import allows_tf32
from tfjit.kernels.ir.fused_group import INPUT, FusedGroup, Ref
from tfjit.kernels.ir.fused_group import Member as GroupMember
from tfjit.kernels.registry import (
    LibraryForm,
    Pointer,
    TensorSpec,
    Unsupported,
)

if TYPE_CHECKING:
    from tfjit.kernels.cpu.template.epilogue import Epilogue

_LEAST_WORK: Final = 1 << 24
"""Multiply-adds from which on cuDNN is asked.

A guess that has to be measured, as are the rates that `pays` knows.
"""
_LAST: Final = (3, 0, 1, 2)
_FIRST: Final = (3, 2, 0, 1)
"""The axes of TensorFlow's filter in cuDNN's order, for both layouts."""


def problem_of(
    kind: Kind, x: TensorSpec, w: TensorSpec, layout: Layout, windows: tuple[Window, Window]
) -> ConvolutionProblem | None:
    """Return the problem of a convolution or gradient.

    The answer is None where a text of tfjit serves. x, w: images and filter, or their gradients.
    windows: over the images.
    """
    if x.dtype not in ACCUMULATORS or x.dtype is not w.dtype or not (x.size and w.size):
        return None
    rows, columns = windows
    batch, height, width, channels = (
        x.shape if layout.channels_last else (x.shape[0], *x.shape[2:], x.shape[1])
    )
    k_h, k_w, in_c, out_c = w.shape
    if in_c != channels or not (rows.out and columns.out):
        return None
    problem = ConvolutionProblem(
        kind, x.dtype, batch, channels, out_c, (height, width), (rows.out, columns.out),
        (k_h, k_w), layout.strides, layout.dilations, (rows.before, columns.before),
        (rows.after, columns.after), layout.channels_last,
        tf32=x.dtype.name == "float32" and allows_tf32(), repeats=has_to_repeat(),
    )  # fmt: skip
    if not problem.fits or problem.work < _LEAST_WORK:
        return None
    # known filters would be transposed for nothing
    return problem if is_installed(CUDNN) else None


def _pays(
    problem: ConvolutionProblem,
    w: TensorSpec,
    known: np.ndarray | None,
    launches: int = 0,
    nbytes: int = 0,
) -> bool:
    """Return whether cuDNN saves more time than the kernels beside it take.

    They are that of the filter, unless its value is known, and others. In NCHW, cuDNN has kernels
    of its own that transpose images and results.
    """
    if known is None:
        launches, nbytes = launches + 1, nbytes + 2 * w.nbytes
    if not problem.channels_last:
        elements = prod(problem.sizes(IMAGES)) + prod(problem.sizes(RESULTS))
        launches, nbytes = launches + 2, nbytes + 2 * elements * w.dtype.size
    return pays(problem.dtype, problem.tf32, problem.work, launches, nbytes)


def _axes(problem: ConvolutionProblem) -> tuple[int, ...]:
    return _LAST if problem.channels_last else _FIRST


def forward_forms(
    problem: ConvolutionProblem | None, w: TensorSpec, known: np.ndarray | None
) -> tuple[LibraryForm, ...]:
    """Return the form of a convolution of inputs 0 and 1.

    w: the filter, in TensorFlow's order. known: its value.
    """
    if problem is None or not _pays(problem, w, known):
        return ()
    form = LaunchChain()
    filters = form.in_order(w, _axes(problem), Pointer("in", 1), known)
    form.routine(problem, Pointer("in", 0), filters, Pointer("out", 0))
    return (form.library_form(),)


def input_gradient_forms(
    problem: ConvolutionProblem | None, w: TensorSpec, known: np.ndarray | None
) -> tuple[LibraryForm, ...]:
    """Return the form of an input gradient.

    Filter and out_backprop are inputs 1 and 2. w, known: as in `forward_forms`.
    """
    if problem is None or not _pays(problem, w, known):
        return ()
    form = LaunchChain()
    filters = form.in_order(w, _axes(problem), Pointer("in", 1), known)
    form.routine(problem, filters, Pointer("in", 2), Pointer("out", 0))
    return (form.library_form(),)


def filter_gradient_forms(
    problem: ConvolutionProblem | None, w: TensorSpec
) -> tuple[LibraryForm, ...]:
    """Return the form of a filter gradient.

    Images and out_backprop are inputs 0 and 2. w: the gradient.
    """
    if problem is None or not _pays(problem, w, None):
        return ()
    form = LaunchChain()
    made = form.temp(w.nbytes)
    form.routine(problem, Pointer("in", 0), Pointer("in", 2), made)
    form.from_order(w, _axes(problem), made, Pointer("out", 0))
    return (form.library_form(),)


def group_forms(
    problem: ConvolutionProblem | None,
    group: FusedGroup,
    epilogue: Epilogue,
    order: Sequence[int],
    known: Mapping[int, np.ndarray],
) -> tuple[LibraryForm, ...]:
    """Return the forms of a convolution with an epilogue.

    First that with the epilogue in the routine, where cuDNN has such, then that with an elementwise
    kernel behind it. order: the group's inputs that are images, filter and the epilogue's operands.
    known: values of the group's inputs.
    """
    if problem is None:
        return ()
    forms = []
    w, value = group.inputs[order[1]], known.get(order[1])
    if not _pays(problem, w, value):
        return ()
    images, at = Pointer("in", order[0]), Pointer("in", order[1])
    members = _members(epilogue)
    if members is not None:
        form = LaunchChain()
        operands = [Pointer("in", order[2 + number]) for _, number in members if number is not None]
        own = replace(problem, epilogue=tuple(member for member, _ in members))
        filters = form.in_order(w, _axes(problem), at, value)
        form.routine(own, images, filters, *operands, Pointer("out", 0))
        forms.append(form.library_form())
    spec = group.tensor(Ref(group.anchor))
    try:
        rest, places = _behind(group)
        call = loop_call(rest, "behind a convolution")
    except Unsupported:
        return tuple(forms)
    if not _pays(problem, w, value, 1, 2 * spec.nbytes):
        return tuple(forms)
    form = LaunchChain()
    filters = form.in_order(w, _axes(problem), at, value)
    product = group.outputs.index(Ref(group.anchor)) if Ref(group.anchor) in group.outputs else -1
    results = Pointer("out", product) if product >= 0 else form.temp(spec.nbytes)
    form.routine(problem, images, filters, results)
    ins = [*(Pointer("in", k) for k in range(len(group.inputs))), results]
    form.call(call, ins, [Pointer("out", k) for k in places])
    return (*forms, form.library_form())


def _members(epilogue: Epilogue) -> tuple[tuple[Member, int | None], ...] | None:
    """Return an epilogue in cuDNN's order, or None.

    Each operation has the number of its operand. Without a bias there is none: cuDNN's engines
    that need no compiler at run time have one.
    """
    found = library_epilogue(epilogue, {})
    if found is None or found.name not in ("bias", "bias+relu"):
        return None
    added: list[tuple[Member, int | None]] = [] if found.added is None else [("add", found.added)]
    relu: list[tuple[Member, int | None]] = [("relu", None)] if found.name == "bias+relu" else []
    return (*added, ("bias", found.bias), *relu)


def _behind(group: FusedGroup) -> tuple[FusedGroup, list[int]]:
    """Return the group without its anchor.

    The second result has the numbers of its outputs in the whole group. The anchor's result is its
    last input. Raises Unsupported where nothing is left.
    """
    anchor = group.anchor

    def moved(ref: Ref) -> Ref:
        if ref.member == anchor:
            return Ref(INPUT, len(group.inputs))
        return Ref(ref.member - 1, ref.index) if ref.member > anchor else ref

    members = tuple(
        GroupMember(member.spec, tuple(moved(ref) for ref in member.inputs))
        for number, member in enumerate(group.members)
        if number != anchor
    )
    places = [k for k, ref in enumerate(group.outputs) if ref.member != anchor]
    if not places:
        raise Unsupported("a group of its anchor alone")
    return FusedGroup(
        "loop",
        members,
        (*group.inputs, group.tensor(Ref(anchor))),
        tuple(moved(group.outputs[k]) for k in places),
        group.constants,
    ), places


__all__ = [
    "filter_gradient_forms", "forward_forms", "group_forms",
    "input_gradient_forms", "problem_of",
]  # fmt: skip
