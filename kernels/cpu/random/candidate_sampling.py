"""Build candidate samplers with fixed probabilities on TensorFlow's Philox streams.

They give the reference's values exactly.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from tfjit.kernels.cpu.random.stateful_random import FUNCTIONS
from tfjit.kernels.cpu.template.cost_model import FIXED_NS
from tfjit.kernels.cpu.template.hashing import GOLDEN
from tfjit.kernels.random_stream import BLOCKS_PER_CANDIDATE
from tfjit.kernels.registry import Launch, NativeCall, NodeSpec, Pointer, Unsupported, Word, native
from tfjit.kernels.source import KernelSource

_CANDIDATE_NS: Final = 90.0
_TRUE_NS: Final = 40.0

# op -> (a value of two draws, its probability)
SAMPLERS: Final = {
    "UniformCandidateSampler": (
        "int64(((second << HALF) | first) % uint64(size))",
        "1.0 / float64(size)",
    ),
    "LogUniformCandidateSampler": (
        "(int64(math.exp(unit_f64(first, second) * log_range)) - 1) % size",
        "math.log((float64(value) + 2.0) / (float64(value) + 1.0)) / log_range",
    ),
}
_DISTINCT: Final = """\
at = ((value * ({golden})) >> (64 - bits)) & mask
entry = ld_any(table, at)
while entry >= 0 and entry != value:
    at = (at + 1) & mask
    entry = ld_any(table, at)
if entry < 0:
    st_any(table, at, value)
    st_any(found, have, value)
    have += 1
"""
_ANY: Final = """\
st_any(found, have, value)
have += 1
"""
_TEXT: Final = """\
from numba import int64

from tfjit.kernels.codegen.intrinsics import f64_word, fail, ld, ld_any, ptr_f32, ptr_i64
from tfjit.kernels.codegen.intrinsics import st_any, store_word, word


@njit(error_model="numpy", forceinline=True)
def expected(value, size, log_range, count, tries):
    p = float32({probability})
    if tries == count:
        return p * float32(count)
    return -math.expm1(float32(tries) * math.log1p(-p))


def kernel(args, chunk, nchunks):
    position = word(args, 2)
    reserved = word(args, 3)
    count = word(args, 4)
    size = word(args, 5)
    trues = word(args, 6)
    bits = word(args, 7)
    log_range = f64_word(args, 8)
    table = ptr_i64(word(args, 9))
    true = ptr_i64(word(args, 10))
    found = ptr_i64(word(args, 11))
    true_counts = ptr_f32(word(args, 12))
    counts = ptr_f32(word(args, 13))
    for u in range(trues):
        value = ld(true, u)
        if value < 0 or value >= size:
            fail(args, 1, value)
            return
    mask = (1 << bits) - 1
    for e in range(mask + 1):
        st_any(table, e, -1)
    have = 0
    tries = 0
    while have < count:
        c0, c1, c2, c3 = philox(position, tries >> 1)
        first = c2 if tries & 1 else c0
        second = c3 if tries & 1 else c1
        value = {sample}
        tries += 1
{insert}
    for u in range(trues):
        st_any(true_counts, u, expected(ld(true, u), size, log_range, count, tries))
    for u in range(count):
        st_any(counts, u, expected(ld_any(found, u), size, log_range, count, tries))
    begin = uint64(load_word(position))
    end = begin + uint64(reserved)
    store_word(position, end)
    if end < begin:
        store_word(position + 8, uint64(load_word(position + 8)) + uint64(1))
"""


def sampler_source(op: str, unique: bool) -> KernelSource:
    """Write a sampler.

    Words: address of the stream's position, blocks to reserve, candidates, classes, true classes,
    bits of the hash table, log(classes + 1), the table's memory, true classes, candidates, expected
    counts of both.
    """
    sample, probability = SAMPLERS[op]
    insert = _DISTINCT.format(golden=GOLDEN) if unique else _ANY
    text = FUNCTIONS + _TEXT.format(
        sample=sample,
        probability=probability,
        insert="".join(f"        {line}\n" for line in insert.splitlines()),
    )
    return KernelSource(text, title=op, module=__name__)


@native(*SAMPLERS)
def _sampler(node: NodeSpec) -> NativeCall:
    (classes,) = node.inputs
    size, unique = int(node.attrs["range_max"]), bool(node.attrs["unique"])
    count = int(node.attrs["num_sampled"])
    if len(classes.shape) != 2 or classes.shape[1] != int(node.attrs["num_true"]):
        raise Unsupported("shapes do not fit")
    if unique and size < count:
        raise Unsupported("there are fewer classes than candidates: the reference raises it")
    bits = max((2 * count - 1).bit_length(), 1) if unique else 1
    log_range = int(np.float64(math.log1p(size)).view(np.int64))
    words: tuple[Word, ...] = (
        Pointer("state"), BLOCKS_PER_CANDIDATE * count, count, size, classes.size, bits, log_range,
        Pointer("temp"), Pointer("in"), Pointer("out", 0), Pointer("out", 1), Pointer("out", 2),
    )  # fmt: skip
    message = f"`true_candidate` out of range [0, {size}), received {{detail}}"
    launch = Launch(
        sampler_source(node.op, unique),
        words,
        cost_ns=FIXED_NS + _CANDIDATE_NS * count + _TRUE_NS * classes.size,
        errors={1: ("InvalidArgumentError", message)},
    )
    return NativeCall((launch,), temp_bytes=(8 << bits,), bytes_moved=12 * (count + classes.size))
