"""Build optimizer updates for GPUs from the host's formulas.

Variable and slots are written in place, in one pass over memory.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from tfjit.kernels.cpu.elementwise.optimizer_updates import (
    UPDATES,
    Update,
    array_names,
    body_lines,
    bytes_moved,
    has_flag,
    has_square_root,
    input_names,
    variable_kind,
    write_scalars,
    written_names,
)
from tfjit.kernels.cuda.template.kernel_text import KernelText
from tfjit.kernels.cuda.template.launch_table import table_text, write_row
from tfjit.kernels.cuda.template.launches import CudaLaunch, grid_for
from tfjit.kernels.cuda.template.registry import device_native
from tfjit.kernels.registry import NativeCall, NodeSpec, Pointer
from tfjit.kernels.source import KernelSource

_WIDTHS: Final = {"f32": 4, "f64": 2}


def update_launch(
    name: str, update: Update, kind: str, size: int, flag: bool, square_root: bool
) -> CudaLaunch:
    """Return the launch of one rule over a variable of `size` elements.

    square_root: the meaning of root(x) in the rule.
    """
    width = _WIDTHS[kind] if size >= _WIDTHS[kind] else 1
    text = KernelText()
    text.argument("n", size)
    for k, plain in enumerate(input_names(update)):
        text.argument(f"{plain}_at", Pointer("in", k))
    text.line("first = unit()")
    # rules have names such as `step` of their own
    text.line("grid_step = units()")
    _write_update(text, update, kind, body_lines(update, kind, flag, square_root), width)
    title = f"{name} update {kind}{' ' + update.flag if flag and update.flag else ''}"
    launch = text.launch(f"{name} update", title, __name__, grid_for(-(-size // width)))
    return replace(launch, table_form=_table_form(name, update, kind, flag, square_root, title))


@functools.cache
def _table_form(
    name: str, update: Update, kind: str, flag: bool, square_root: bool, title: str
) -> KernelSource:
    """Return the kernel of one rule over several variables."""
    text = table_text()
    write_row(text, ["n", *(f"{plain}_at" for plain in input_names(update))])
    text.line("first = row_unit")
    text.line("grid_step = row_units")
    lines = body_lines(update, kind, flag, square_root)
    _write_update(text, update, kind, lines, _WIDTHS[kind])
    return text.source(f"{name} update of several variables", f"{title} of several", __name__)


def _write_update(
    text: KernelText, update: Update, kind: str, lines: Sequence[str], width: int
) -> None:
    """Append the loop over a variable of n elements.

    `first` and `grid_step` are defined before: the thread's first unit, and the threads.
    """
    addresses = {plain: f"{plain}_at" for plain in input_names(update)}
    for plain in array_names(update):
        text.line(f"{plain}_p = ptr_{kind}({addresses[plain]})")
    write_scalars(text, update, kind, addresses)
    text.line(f"count = n >> {width.bit_length() - 1}" if width > 1 else "count = n")
    text.line("u = first")
    with text.block("while u < count:"):
        _write_elements(text, update, lines, width, f"u * {width}")
        text.line("u = advance(u, grid_step)")
    if width > 1:
        text.line(f"i = count * {width} + first")
        with text.block("if i < n:"):
            _write_elements(text, update, lines, 1, "i")


def _write_elements(
    text: KernelText, update: Update, lines: Sequence[str], width: int, index: str
) -> None:
    """Append the rule for `width` neighbouring elements."""
    changed = [
        name for name in written_names(update) if any(x.split(" = ")[0] == name for x in lines)
    ]
    text.line(f"at = {index}")
    for name in array_names(update):
        if width > 1:
            text.line(f"{name}_v = ld_vec{width}({name}_p, at)")
    for k in range(width):
        for name in array_names(update):
            value = f"{name}_v[{k}]" if width > 1 else f"ld({name}_p, at)"
            text.line(f"{name} = {value}")
        for line in lines:
            text.line(line)
        for name in changed:
            text.line(f"{name}_{k} = {name}")
    for name in changed:
        values = ", ".join(f"{name}_{k}" for k in range(width))
        store = f"st_vec{width}" if width > 1 else "st"
        text.line(f"{store}({name}_p, at, {values})")


def _builder(name: str, update: Update) -> Callable[[NodeSpec], NativeCall]:
    def build(node: NodeSpec) -> NativeCall:
        var, kind = node.inputs[0], variable_kind(update, node)
        if var.size == 0:
            return NativeCall(())
        flag, square_root = has_flag(update, node), has_square_root(update, node)
        launch = update_launch(name, update, kind, var.size, flag, square_root)
        return NativeCall((launch,), bytes_moved=bytes_moved(update, var), flops=8 * var.size)

    return build


for _name, _update in UPDATES.items():
    if _name != "KerasMomentum":
        device_native(f"Apply{_name}")(_builder(_name, _update))
    device_native(f"ResourceApply{_name}")(_builder(_name, _update))
