"""Write the state of a reduction: a total, perhaps around a mean.

Squared distances from a mean are summed up in the pass that computes the mean, by Welford's step;
states are merged as Chan, Golub and LeVeque do (Updating formulae and a pairwise algorithm for
computing sample variances, 1979).
"""

from __future__ import annotations

from collections.abc import Sequence

from tfjit.kernels.codegen import expressions
from tfjit.kernels.cpu.reduction.reduce_plan import Head
from tfjit.kernels.cuda.reduction import steps
from tfjit.kernels.cuda.reduction.steps import WARP
from tfjit.kernels.cuda.template import element_kinds
from tfjit.kernels.source import Source


def state_names(head: Head, number: int, suffix: str = "") -> list[str]:
    """Return the variables of a head's state.

    They are its total, and a central one's mean and count.
    """
    parts = ("t", "m", "n") if head.central else ("t",)
    return [f"{part}{number}{suffix}" for part in parts]


def write_start(s: Source, head: Head, names: Sequence[str]) -> None:
    """Append the state of an empty range."""
    for name in names:
        s.line(f"{name} = {steps.start(head.kind, head.dtype)}")


def write_element(s: Source, head: Head, names: Sequence[str], value: str) -> None:
    """Append a state's step to one more element."""
    if not head.central:
        s.line(f"{names[0]} = {steps.step(head.kind, head.dtype, names[0], value)}")
        return
    total, mean, count = names
    one = expressions.literal(1, head.dtype)
    s.line(f"{count} = {count} + {one}")
    s.line(f"apart = {value} - {mean}")
    s.line(f"{mean} = {mean} + apart / {count}")
    s.line(f"{total} = {total} + apart * ({value} - {mean})")


def write_merge(s: Source, head: Head, names: Sequence[str], others: Sequence[str]) -> None:
    """Append a state's union with another's elements."""
    if not head.central:
        s.line(f"{names[0]} = {steps.step(head.kind, head.dtype, names[0], others[0])}")
        return
    total, mean, count = names
    suffix, one = element_kinds.math_suffix(head.dtype), expressions.literal(1, head.dtype)
    s.line(f"whole = {count} + {others[2]}")
    # both may be empty
    s.line(f"share = {others[2]} / vm.maximum_{suffix}(whole, {one})")
    s.line(f"apart = {others[1]} - {mean}")
    s.line(f"{total} = {total} + {others[0]} + apart * apart * {count} * share")
    s.line(f"{mean} = {mean} + apart * share")
    s.line(f"{count} = whole")


def write_shared(s: Source, head: Head, number: int, size: int) -> None:
    """Append the shared arrays of a head's states, of `size` elements each."""
    for name in state_names(head, number):
        s.line(f"shared_{name} = shared_{element_kinds.register_kind(head.dtype)}({size})")


def _write_lanes(s: Source, head: Head, names: Sequence[str], count: int) -> None:
    """Append the union of the states of `count` lanes; all get it."""
    mask = count // 2
    while mask:
        for name in names:
            s.line(f"other_{name} = shuffle_xor({name}, {mask})")
        write_merge(s, head, names, [f"other_{name}" for name in names])
        mask //= 2


def write_neighbours(s: Source, head: Head, number: int, count: int) -> None:
    """Append the union of the states of `count` threads.

    They are a block or lanes of a warp.
    """
    names = state_names(head, number)
    _write_lanes(s, head, names, min(count, WARP))
    if count > WARP:
        with s.block(f"if thread() & {WARP - 1} == 0:"):
            for name in names:
                s.line(f"st_shared(shared_{name}, thread() >> 5, {name})")
        s.line("sync_threads()")
        for name in names:
            s.line(f"{name} = ld_shared(shared_{name}, thread() & {count // WARP - 1})")
        _write_lanes(s, head, names, count // WARP)


def write_columns(s: Source, head: Head, number: int, count: int, apart: int) -> None:
    """Append the union of the states of `count` threads that are `apart`.

    The first of them gets it.
    """
    names = state_names(head, number)
    half = count // 2
    if half:
        for name in names:
            s.line(f"st_shared(shared_{name}, thread(), {name})")
    while half:
        s.line("sync_threads()")
        with s.block(f"if lane < {half}:"):
            for name in names:
                s.line(f"other_{name} = ld_shared(shared_{name}, thread() + {half * apart})")
            write_merge(s, head, names, [f"other_{name}" for name in names])
            if half > 1:
                for name in names:
                    s.line(f"st_shared(shared_{name}, thread(), {name})")
        half //= 2
