"""Build LRN and its gradient: sums over the channels around each channel."""

from __future__ import annotations

from typing import Final

from tfjit.framework.types import dtypes as d
from tfjit.framework.types.dtypes import DType
from tfjit.kernels.codegen import expressions
from tfjit.kernels.cuda.template import element_kinds
from tfjit.kernels.cuda.template.kernel_text import KernelText, fits_32_bits, grid_stride
from tfjit.kernels.cuda.template.launches import CudaLaunch, grid_for
from tfjit.kernels.cuda.template.registry import device_native
from tfjit.kernels.registry import NativeCall, NodeSpec, Pointer, TensorSpec, Unsupported

_TYPES: Final = frozenset({"float32", "float16", "bfloat16"})


def _text(spec: NodeSpec) -> KernelText:
    """Return a text with the sizes of the images and the window."""
    x = spec.outputs[0]
    if x.dtype.name not in _TYPES or len(x.shape) != 4:
        raise Unsupported(f"{spec.op} of {x.dtype.name}{list(x.shape)}")
    text = KernelText(fits_32_bits([x.size]))
    text.argument("count", x.size)
    text.argument("depth", x.shape[3])
    text.argument("radius", int(spec.attrs.get("depth_radius", 5)))
    return text


def _number(spec: NodeSpec, name: str, default: float) -> str:
    return expressions.literal(float(spec.attrs.get(name, default)), d.float32)


def _pointer(text: KernelText, name: str, dtype: DType, place: Pointer) -> None:
    text.line(f"{name}_p = {element_kinds.pointer(dtype, text.argument(f'{name}_at', place))}")


def _write_window(text: KernelText) -> None:
    """Append the loop over the channels around channel `k` of element `u`."""
    text.split("u", "above", "k", "depth")
    text.line("first = u - min(k, radius)")
    text.line("last = u + min(depth - 1 - k, radius)")
    text.line("total = float32(0)")


def _write_norm(text: KernelText, spec: NodeSpec, dtype: DType) -> None:
    """Define `norm`: bias + alpha * the sum of squares."""
    _write_window(text)
    with text.block("for j in range(first, last + 1):"):
        text.line(f"v = {expressions.loaded(dtype, 'ld_ro(x_p, j)')}")
        text.line("total += v * v")
    bias, alpha = _number(spec, "bias", 1.0), _number(spec, "alpha", 1.0)
    text.line(f"norm = {bias} + {alpha} * total")


def _launch(text: KernelText, title: str, x: TensorSpec) -> CudaLaunch:
    return text.launch(title, title, __name__, grid_for(x.size))


@device_native("LRN", without=("float64",))
def _normalized(spec: NodeSpec) -> NativeCall:
    x = spec.inputs[0]
    text = _text(spec)
    if not x.size:
        return NativeCall(())
    _pointer(text, "x", x.dtype, Pointer("in", 0))
    _pointer(text, "y", x.dtype, Pointer("out", 0))
    with grid_stride(text, "u", "count"):
        _write_norm(text, spec, x.dtype)
        text.line(f"v = {expressions.loaded(x.dtype, 'ld_ro(x_p, u)')}")
        text.line(f"found = v * vm.pow_f32(norm, -{_number(spec, 'beta', 0.5)})")
        text.line(f"st(y_p, u, {expressions.stored(x.dtype, 'found')})")
    title = f"local response normalization of {x.dtype.name}"
    return NativeCall((_launch(text, title, x),), bytes_moved=2 * x.nbytes)


@device_native("LRNGrad", without=("float64",))
def _gradient(spec: NodeSpec) -> NativeCall:
    """Return the launches for each channel's share and for the sums.

    The share of a channel is dy * y / norm, which all channels around it need.
    """
    x = spec.inputs[1]
    first, second = _text(spec), _text(spec)
    if not x.size:
        return NativeCall(())
    for k, name in enumerate(("dy", "x", "y")):
        _pointer(first, name, x.dtype, Pointer("in", k))
    for text in (first, second):
        for k, name in enumerate(("own", "share")):
            _pointer(text, name, d.float32, Pointer("temp", k))
    with grid_stride(first, "u", "count"):
        _write_norm(first, spec, x.dtype)
        for name in ("dy", "y"):
            first.line(f"{name} = {expressions.loaded(x.dtype, f'ld_ro({name}_p, u)')}")
        first.line(f"st(own_p, u, dy * vm.pow_f32(norm, -{_number(spec, 'beta', 0.5)}))")
        first.line("st(share_p, u, dy * y / norm)")
    _pointer(second, "x", x.dtype, Pointer("in", 1))
    _pointer(second, "dx", x.dtype, Pointer("out", 0))
    factor = 2 * float(spec.attrs.get("alpha", 1.0)) * float(spec.attrs.get("beta", 0.5))
    with grid_stride(second, "u", "count"):
        _write_window(second)
        with second.block("for j in range(first, last + 1):"):
            second.line("total += ld(share_p, j)")
        second.line(f"v = {expressions.loaded(x.dtype, 'ld_ro(x_p, u)')}")
        weight = expressions.literal(factor, d.float32)
        second.line(f"found = ld(own_p, u) - {weight} * v * total")
        second.line(f"st(dx_p, u, {expressions.stored(x.dtype, 'found')})")
    what = f"of the gradient of LRN of {x.dtype.name}"
    launches = _launch(first, f"norms {what}", x), _launch(second, f"sums {what}", x)
    return NativeCall(launches, temp_bytes=(4 * x.size, 4 * x.size), bytes_moved=8 * x.nbytes)
