"""Measure a card's limits: copies within it, from and to the host, and multiply-adds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from benchmarks.gpu.clock import DeviceClock
from tfjit.kernels.cuda.template.kernel_text import KernelText
from tfjit.kernels.ir.accelerator import Copy, KernelLaunch
from tfjit.kernels.jit.store import store
from tfjit.kernels.source import KernelSource

_CHAINS: Final = 8
_THREADS: Final = 256


@dataclass(frozen=True, slots=True)
class CardLimits:
    """Hold a card's name and its measured limits.

    copy_gbs: of a copy within the card, reads and writes. in_gbs, out_gbs: from and to page-locked
    memory of the host. product_tfs: of float32 multiply-adds, each two operations.
    """

    name: str
    copy_gbs: float
    in_gbs: float
    out_gbs: float
    product_tfs: float

    def __str__(self) -> str:
        return (
            f"{self.name}: copy {self.copy_gbs:.0f} GB/s, in {self.in_gbs:.1f} and out "
            f"{self.out_gbs:.1f} GB/s, float32 multiply-adds {self.product_tfs:.1f} TF/s"
        )


def multiply_adds() -> KernelSource:
    """Return a kernel (target, count) of independent chains of multiply-adds.

    The sum of the chains is stored, so that none is dropped.
    """
    text = KernelText()
    text.argument("target", 0)
    text.argument("count", 0)
    text.line("x = float32(thread()) * float32(1e-6)")
    for k in range(_CHAINS):
        text.line(f"c{k} = float32({k})")
    text.line("for i in range(count):")
    for k in range(_CHAINS):
        text.line(f"    c{k} = fma(c{k}, x, x)")
    total = " + ".join(f"c{k}" for k in range(_CHAINS))
    text.line(f"st(ptr_f32(target), block() * {_THREADS} + thread(), {total})")
    return text.source("float32 multiply-adds", "multiply-adds", __name__)


def measure_card(device: Any, tiny: bool = False) -> CardLimits:
    """Return the limits of a device; it takes less than a second."""
    clock = DeviceClock(device)
    nbytes = 1 << 16 if tiny else 1 << 30
    source, target = device.allocate(nbytes), device.allocate(nbytes)
    host = device.pinned(nbytes)
    address = host.ctypes.data

    def rate(copy: Copy, moved: int) -> float:
        program = device.program([copy])

        def queue(times: int) -> None:
            for _ in range(times):
                program.start()

        seconds = clock.each(queue)
        program.close()
        return moved / seconds / 1e9

    copy = rate(Copy("within", target, source, nbytes), 2 * nbytes)
    into = rate(Copy("in", target, address, nbytes), nbytes)
    out = rate(Copy("out", address, target, nbytes), nbytes)
    products = _products(device, clock, target, tiny)
    for place in (source, target):
        device.free(place)
    return CardLimits(device.name, copy, into, out, products)


def _products(device: Any, clock: DeviceClock, target: int, tiny: bool) -> float:
    blocks, count = (1, 2) if tiny else (132 * 16, 20_000)
    kernel = multiply_adds()
    store.compile([kernel])
    found = store.lookup(kernel)
    if found is None:
        raise RuntimeError(f"the kernel of multiply-adds is refused: {store.refused(kernel)}")
    launch = KernelLaunch(found["kernel"], (target, count), (blocks, 1, 1), (_THREADS, 1, 1))
    program = device.program([launch])

    def queue(times: int) -> None:
        for _ in range(times):
            program.start()

    seconds = clock.each(queue, 0.05)
    program.close()
    return 2 * _CHAINS * count * blocks * _THREADS / seconds / 1e12


__all__ = ["CardLimits", "measure_card", "multiply_adds"]
