"""The host CPU: name, instruction sets, vector width, register count, cache sizes. Decides tiles and is part of cache keys."""

from __future__ import annotations

import functools
import os
import platform
from dataclasses import dataclass
from pathlib import Path

_SYS_CACHE = Path("/sys/devices/system/cpu/cpu0/cache")


@dataclass(frozen=True, slots=True)
class CpuFeatures:
    """name: LLVM's name of the CPU. flags: LLVM's feature string. isa: "avx512", "avx2", "neon" or "generic".

    vector_bytes: of one register. vector_registers: architectural count. l1_bytes, l2_bytes: data caches of one core;
    l3_bytes: of the whole chip, shared (0 when there is none).
    """

    name: str
    flags: str
    isa: str
    vector_bytes: int
    vector_registers: int
    l1_bytes: int
    l2_bytes: int
    l3_bytes: int

    def lanes(self, itemsize: int) -> int:
        """Elements of `itemsize` bytes in one vector register."""
        return self.vector_bytes // itemsize


def classify(machine: str, enabled: frozenset[str]) -> tuple[str, int, int]:
    """(isa, vector bytes, vector registers) from the architecture's name and LLVM's enabled features."""
    if machine in ("x86_64", "amd64"):
        if {"avx512f", "avx512vl"} <= enabled:
            return "avx512", 64, 32
        if {"avx2", "fma"} <= enabled:
            return "avx2", 32, 16
        return "generic", 16, 16
    if machine in ("aarch64", "arm64"):
        return "neon", 16, 32
    return "generic", 16, 16


def _size(text: str) -> int:
    text = text.strip().upper()
    scale = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}.get(text[-1:], 1)
    return int(text.rstrip("KMG")) * scale


def cache_sizes(root: Path = _SYS_CACHE) -> tuple[int, int, int]:
    """(L1 data, L2, L3) bytes; common sizes where the system does not tell (L3 0 when others are told and it is not)."""
    sizes = {1: 0, 2: 0, 3: 0}
    try:
        for entry in sorted(root.glob("index*")):
            if (entry / "type").read_text().strip() in ("Data", "Unified"):
                sizes[int((entry / "level").read_text())] = _size((entry / "size").read_text())
    except (OSError, ValueError, KeyError):
        pass
    if not sizes[1]:
        return 32 << 10, 512 << 10, 8 << 20
    return sizes[1], sizes[2] or 256 << 10, sizes[3]


@functools.cache
def host() -> CpuFeatures:
    """The CPU this process runs on. Imports llvmlite."""
    import llvmlite.binding as llvm

    from tfjit.kernels.loader import fork_lock

    with fork_lock():
        features, name = llvm.get_host_cpu_features(), llvm.get_host_cpu_name()
    isa, width, registers = classify(platform.machine().lower(), frozenset(feature for feature, on in features.items() if on))
    l1, l2, l3 = cache_sizes()
    return CpuFeatures(name, features.flatten(), isa, width, registers, l1, l2, l3)


def available_cpus() -> int:
    """Cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
