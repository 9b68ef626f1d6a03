"""Build 2-D convolutions and their gradients as products of tiles.

Nothing is unfolded in memory: the loads of the tiles find each term of a patch (patches.py).
Large ones have the forms of a vendor's library beside (library_forms.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tfjit.kernels.cpu.conv.nchw import channels_last_call
from tfjit.kernels.cpu.conv.window import Layout, Window, node_layout
from tfjit.kernels.cpu.data_movement.strided_copy import copies_by
from tfjit.kernels.cpu.fused import remap_inputs
from tfjit.kernels.cpu.gemm.operands import operand_pointers
from tfjit.kernels.cuda.conv.library_forms import (
    filter_gradient_forms,
    forward_forms,
    input_gradient_forms,
    problem_of,
)
from tfjit.kernels.cuda.conv.patches import (
    Axis,
    FilterTaps,
    PatchColumns,
    PatchRows,
    PlanePatches,
    axis_of,
    image_layout,
    window_words,
)
from tfjit.kernels.cuda.data_movement.strided_copy import copy_launch
from tfjit.kernels.cuda.gemm.finish_text import finish_of
from tfjit.kernels.cuda.gemm.matmul import matmul_call, traffic
from tfjit.kernels.cuda.gemm.product_text import Product, product_call
from tfjit.kernels.cuda.gemm.slabs import MatrixOperand, widest
from tfjit.kernels.cuda.gemm.tiles import Plan, accumulator, choose
from tfjit.kernels.cuda.template.registry import device_native
from tfjit.kernels.registry import Builder, NativeCall, NodeSpec, Pointer, TensorSpec, Unsupported

if TYPE_CHECKING:
    from tfjit.kernels.cpu.template.epilogue import Epilogue


def require_one_dtype(*specs: TensorSpec) -> None:
    """Raise Unsupported unless all tensors have one dtype.

    GPUs have to multiply it.
    """
    accumulator(specs[0].dtype)
    for spec in specs[1:]:
        if spec.dtype is not specs[0].dtype:
            raise Unsupported(f"convolution of {specs[0].dtype.name} and {spec.dtype.name}")


def sizes_of(shape: Sequence[int], layout: Layout) -> tuple[int, int, int, int]:
    """Return batch, height, width and channels of images."""
    if layout.channels_last:
        batch, height, width, channels = shape
    else:
        batch, channels, height, width = shape
    return batch, height, width, channels


def convolution_call(
    inputs: Sequence[TensorSpec],
    layout: Layout,
    epilogue: Epilogue | None = None,
    plan: Plan | None = None,
) -> NativeCall:
    """Return a 2-D convolution with an epilogue.

    x [b, h, w, in_c] or [b, in_c, h, w], filter [k_h, k_w, in_c, out_c], operands... -> images of
    out_c channels. plan: instead of the chosen one. Raises Unsupported for groups of channels and
    for dtypes without products.
    """
    x, w = inputs[:2]
    require_one_dtype(x, w)
    batch, height, width, channels = sizes_of(x.shape, layout)
    k_h, k_w, in_c, out_c = w.shape
    if in_c != channels:
        raise Unsupported(f"groups of {in_c} of {channels} channels")
    rows, columns = layout.windows(height, width, (k_h, k_w))
    pixels = rows.out * columns.out
    if batch * pixels * out_c == 0:
        return NativeCall(())
    if layout.channels_last and is_pointwise(rows, columns):
        matrices = TensorSpec(x.dtype, (batch * pixels, in_c)), TensorSpec(w.dtype, (in_c, out_c))
        return matmul_call((*matrices, *inputs[2:]), epilogue=epilogue, plan=plan)
    words = window_words(
        Pointer("in", 0), axis_of(rows), axis_of(columns), channels,
        image_layout(height, width, channels, layout.channels_last),
    )  # fmt: skip
    depth = k_h * k_w * in_c
    operands = operand_pointers(inputs)
    filter_words = (Pointer("in", 1), out_c, 0)
    if layout.channels_last:
        m, n = batch * pixels, out_c
        plan = plan or choose(x.dtype, 1, m, n, depth)
        tile = plan.tile
        vector = widest(tile, tile.rows, x.dtype, in_c)
        left = PatchRows(x.dtype, vector, in_c >= tile.depth)
        right = MatrixOperand(w.dtype, "extent", widest(tile, tile.columns, w.dtype, out_c))
        finish = finish_of(x.dtype, epilogue, n)
        product = Product(1, m, n, depth, left, words, right, filter_words, finish, operands)
    else:
        m, n = out_c, pixels
        plan = plan or choose(x.dtype, batch, m, n, depth)
        tile = plan.tile
        filters = MatrixOperand(w.dtype, "extent", widest(tile, tile.rows, w.dtype, out_c))
        finish = finish_of(x.dtype, epilogue, n)
        product = Product(
            batch,
            m,
            n,
            depth,
            filters,
            filter_words,
            PlanePatches(x.dtype),
            words,
            finish,
            operands,
        )
    return product_call(product, plan, (), traffic(inputs, finish, batch * pixels * out_c))


def is_pointwise(rows: Window, columns: Window) -> bool:
    """Return whether every position reads its own pixel alone."""
    return all(
        window.size == window.stride == 1 and window.before == window.after == 0
        for window in (rows, columns)
    )


@device_native("Conv2D")
def _convolution(node: NodeSpec) -> NativeCall:
    x, w = node.inputs[:2]
    layout = node_layout(node)
    call = convolution_call((x, w), layout)
    _, height, width, _ = sizes_of(x.shape, layout)
    windows = layout.windows(height, width, (w.shape[0], w.shape[1]))
    if not call.launches or (layout.channels_last and is_pointwise(*windows)):
        return call
    problem = problem_of("forward", x, w, layout, windows)
    return replace(call, library_forms=forward_forms(problem, w, node.constants.get(1)))


def gradient_in_planes(
    node: NodeSpec, builder: Builder, images: Sequence[int], makes_images: bool = True
) -> NativeCall | None:
    """Return the launches of a gradient for NCHW; None for NHWC.

    They are those for NHWC between transposes. images: the inputs that are images. makes_images:
    whether the output is.
    """
    if node_layout(node).channels_last:
        return None
    with copies_by(copy_launch):
        return channels_last_call(node, builder, images, makes_images)


def filter_gradient_call(node: NodeSpec, plan: Plan | None = None) -> NativeCall:
    """Return the filter gradient: transposed patches times out_backprop.

    The sum runs over the pixels of all images, and is split among blocks. Raises Unsupported.
    """
    moved = gradient_in_planes(node, lambda own: filter_gradient_call(own, plan), (0, 2), False)
    if moved is not None:
        return moved
    x, _, dy = node.inputs
    dw = node.outputs[0]
    require_one_dtype(x, dy)
    batch, height, width, channels = x.shape
    k_h, k_w, in_c, out_c = dw.shape
    if in_c != channels:
        raise Unsupported(f"groups of {in_c} of {channels} channels")
    rows, columns = node_layout(node).windows(height, width, (k_h, k_w))
    if dw.size == 0:
        return NativeCall(())
    m, n, depth = k_h * k_w * in_c, out_c, batch * rows.out * columns.out
    plan = plan or choose(x.dtype, 1, m, n, depth)
    tile = plan.tile
    left = PatchColumns(x.dtype, widest(tile, tile.rows, x.dtype, in_c))
    right = MatrixOperand(dy.dtype, "extent", widest(tile, tile.columns, dy.dtype, out_c))
    words = window_words(
        Pointer("in", 0), axis_of(rows), axis_of(columns), channels,
        image_layout(height, width, channels),
    )  # fmt: skip
    finish = finish_of(dw.dtype, None, n)
    product = Product(1, m, n, depth, left, words, right, (Pointer("in", 2), out_c, 0), finish)
    return product_call(product, plan, (), x.nbytes + dy.nbytes + dw.nbytes)


@device_native("Conv2DBackpropFilter")
def _filter_gradient(node: NodeSpec) -> NativeCall:
    x, _, dy = node.inputs
    (dw,) = node.outputs
    layout = node_layout(node)
    _, height, width, _ = sizes_of(x.shape, layout)
    windows = layout.windows(height, width, (dw.shape[0], dw.shape[1]))
    if layout.channels_last and dw.shape[2] == x.shape[3] and _is_product(windows, x, dy, dw):
        # x^T dy, over all pixels
        matrices = _as_matrix(x), _as_matrix(dy)
        return remap_inputs(matmul_call(matrices, transpose_a=True), (0, 2))
    call = filter_gradient_call(node)
    problem = problem_of("filter gradient", x, dw, layout, windows)
    return replace(call, library_forms=filter_gradient_forms(problem, dw))


def _is_product(windows: tuple[Window, Window], *specs: TensorSpec) -> bool:
    """Return whether a gradient is a product of whole images as matrices."""
    return is_pointwise(*windows) and all(s.size and s.dtype is specs[0].dtype for s in specs)


def _as_matrix(spec: TensorSpec) -> TensorSpec:
    return TensorSpec(spec.dtype, (spec.size // spec.shape[-1], spec.shape[-1]))


def input_gradient_call(node: NodeSpec, plan: Plan | None = None) -> NativeCall:
    """Return the input gradient: patches of out_backprop times the rotated filter.

    With strides, input pixels of equal rest by the strides read the same taps: each class of pixels
    is a separate product. Raises Unsupported.
    """
    moved = gradient_in_planes(node, lambda own: input_gradient_call(own, plan), (2,))
    if moved is not None:
        return moved
    _, w, dy = node.inputs
    dx = node.outputs[0]
    require_one_dtype(dy, w)
    _, height, width, channels = dx.shape
    k_h, k_w, in_c, _ = w.shape
    if in_c != channels:
        raise Unsupported(f"groups of {in_c} of {channels} channels")
    rows, columns = node_layout(node).windows(height, width, (k_h, k_w))
    if dx.size == 0:
        return NativeCall(())
    calls = [
        _class_call(node, row, column, plan)
        for row in _classes(rows)
        for column in _classes(columns)
    ]
    return _one_after_another(calls, dy.nbytes + w.nbytes + dx.nbytes)


def _classes(window: Window) -> list[tuple[Axis, int, int]]:
    """Return the classes of input positions of one axis by their rest.

    A class is the axis over out_backprop, its first tap, and its first input position.
    """
    if window.stride > 1 and window.dilation > 1:
        raise Unsupported("the input gradient of a convolution with strides and dilations")
    found = []
    for rest in range(min(window.stride, window.length)):
        grid = -(-(window.length - rest) // window.stride)
        first = (rest + window.before) % window.stride
        taps = max(0, -(-(window.size - first) // window.stride))
        before = -((rest + window.before - first) // window.stride)
        axis = Axis(window.out, taps, grid, 1, -window.dilation, before)
        found.append((axis, first, rest))
    return found


def _class_call(
    node: NodeSpec,
    row: tuple[Axis, int, int],
    column: tuple[Axis, int, int],
    plan: Plan | None,
) -> NativeCall:
    """Return the product of one class of input pixels."""
    _, w, dy = node.inputs
    batch, height, width, channels = node.outputs[0].shape
    _, k_w, in_c, out_c = w.shape
    layout = node_layout(node)
    (rows, first_row, top), (columns, first_column, left_edge) = row, column
    m, n = batch * rows.grid * columns.grid, channels
    depth = rows.taps * columns.taps * out_c
    plan = plan or choose(dy.dtype, 1, m, n, depth)
    tile = plan.tile
    stepwise = out_c >= tile.depth
    left = PatchRows(dy.dtype, widest(tile, tile.rows, dy.dtype, out_c), stepwise)
    right = FilterTaps(w.dtype, widest(tile, tile.columns, w.dtype, out_c), stepwise)
    one = in_c * out_c
    strides = layout.strides
    words = window_words(
        Pointer("in", 2), rows, columns, out_c, image_layout(rows.length, columns.length, out_c)
    )
    filter_words = (
        *(
            Pointer("in", 1),
            max(1, out_c),
            max(1, columns.taps),
            (first_row * k_w + first_column) * one,
        ),
        *(strides[0] * k_w * one, strides[1] * one, out_c),
    )
    whole = strides == (1, 1)
    finish = finish_of(dy.dtype, None, n, strided=not whole)
    places = (
        ()
        if whole
        else (
            *(columns.grid, rows.grid * columns.grid, top * width + left_edge, height * width),
            *(strides[0] * width, strides[1]),
        )
    )
    product = Product(1, m, n, depth, left, words, right, filter_words, finish, places=places)
    return product_call(product, plan)


def _one_after_another(calls: Sequence[NativeCall], bytes_moved: int) -> NativeCall:
    """Return one call of several; they use the same temporary in turn."""
    return NativeCall(
        tuple(launch for call in calls for launch in call.launches),
        temp_bytes=tuple(
            max(sizes) for sizes in [[n for c in calls for n in c.temp_bytes]] if sizes
        ),
        bytes_moved=bytes_moved,
        flops=sum(call.flops for call in calls),
    )


@device_native("Conv2DBackpropInput")
def _input_gradient(node: NodeSpec) -> NativeCall:
    _, w, dy = node.inputs
    (dx,) = node.outputs
    layout = node_layout(node)
    _, height, width, channels = sizes_of(dx.shape, layout)
    windows = layout.windows(height, width, (w.shape[0], w.shape[1]))
    if layout.channels_last and w.shape[2] == channels and _is_product(windows, dy, w, dx):
        # dy w^T, pixel by pixel
        matrices = _as_matrix(dy), _as_matrix(w)
        return remap_inputs(matmul_call(matrices, transpose_b=True), (2, 1))
    call = input_gradient_call(node)
    problem = problem_of("input gradient", dx, w, layout, windows)
    forms = input_gradient_forms(problem, w, node.constants.get(1))
    return replace(call, library_forms=forms)
