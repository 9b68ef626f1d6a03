"""Kernels that apply an expression to each element."""

from __future__ import annotations

IMPORT = (
    "from numba import float32, int32, uint32\nfrom tfjit.kernels.codegen.intrinsics import *\n\n\n"
)


def element_wise(name: str, inputs: list[str], output: str, value: str) -> str:
    """A function that stores `value` (of x, y, z) at every element."""
    lines = [f"def {name}(args, chunk, nchunks):"]
    names = "xyz"[: len(inputs)]
    for n, (var, kind) in enumerate(zip(names, inputs, strict=True)):
        lines.append(f"    p{var} = {kind}(word(args, {3 + n}))")
    lines.append(f"    o = {output}(word(args, {3 + len(inputs)}))")
    lines.append("    for i in range(word(args, 2)):")
    lines += [f"        {var} = ld(p{var}, i)" for var in names]
    lines.append(f"        st(o, i, {value})")
    return "\n".join(lines) + "\n"
