"""Name the intrinsics that texts of CUDA kernels may use.

`intrinsics` defines them for a GPU, `simulated_intrinsics` for host memory; both export this list.
"""

from __future__ import annotations

from typing import Final

KINDS: Final = (
    "f32", "f64", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "b8", "c64", "c128",
)  # fmt: skip
"""Kinds of pointers: `ptr_f32(address)`, `shared_f32(n)`."""

TYPES: Final = (
    "boolean", "complex64", "complex128", "float32", "float64", "int8", "int16", "int32", "int64",
    "uint8", "uint16", "uint32", "uint64",
)  # fmt: skip
"""Types of registers, for casts and literals."""

NAMES: Final = (
    *TYPES,
    *(f"ptr_{kind}" for kind in KINDS),
    *(f"shared_{kind}" for kind in KINDS),
    "advance", "device_function",
    "atomic_add", "atomic_max", "atomic_min", "bits_f32", "bits_f64", "block", "block_y", "block_z",
    "blocks", "div_u32", "div_u64", "f32_bits", "f64_bits", "fma", "iadd", "iand", "imul",
    "ishr", "ixor", "ld", "ld_ro", "ld_ro_vec16", "ld_ro_vec2", "ld_ro_vec4", "ld_ro_vec8",
    "ld_shared", "ld_vec16", "ld_vec2", "ld_vec4", "ld_vec8", "rem_u32", "rem_u64", "select",
    "shuffle_down", "shuffle_xor", "st", "st_shared", "st_vec16", "st_vec2", "st_vec4", "st_vec8",
    "sync_threads", "thread", "thread_y", "threads", "unit", "units",
)  # fmt: skip
