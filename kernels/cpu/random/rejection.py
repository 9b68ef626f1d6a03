"""Build samplers of gamma and Poisson values, which reject draws.

Each output has its own stream. The streams of all samples of one parameter follow one another.
Methods and their sources: `reference/random_values/distributions.py`.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from tfjit.framework.types import dtypes as d
from tfjit.framework.types.dtypes import DType
from tfjit.kernels.cpu.random.stateful_random import FUNCTIONS, advance_text
from tfjit.kernels.cpu.template.cost_model import FIXED_NS, chunks_for
from tfjit.kernels.ir.symbolic_size import predicted
from tfjit.kernels.random_stream import BLOCKS_PER_OUTPUT
from tfjit.kernels.registry import Launch, NativeCall, NodeSpec, Pointer, Unsupported, native
from tfjit.kernels.source import KernelSource

_KINDS: Final = {d.float32: "f32", d.float64: "f64", d.int32: "i32", d.int64: "i64"}
_VALUE_NS: Final = 90.0

# A stream's state is its next block and the kept value of the last one.
# Of the two values of a block the second comes first.
_STREAMS: Final = """\
from tfjit.kernels import vmath as vm
from tfjit.kernels.codegen.intrinsics import ld, ptr_f32, ptr_f64, ptr_i32, ptr_i64, st
from tfjit.kernels.codegen.intrinsics import store_word, word


@njit(error_model="numpy", forceinline=True)
def uniform(position, block, kept, is_kept):
    if is_kept:
        return kept, block, kept, False
    c0, c1, c2, c3 = philox(position, block)
    return unit_f64(c2, c3), block + uint64(1), unit_f64(c0, c1), True


@njit(error_model="numpy", forceinline=True)
def normal(position, block, kept, is_kept):
    if is_kept:
        return kept, block, kept, False
    c0, c1, c2, c3 = philox(position, block)
    first, second = normal_f64(c0, c1, c2, c3)
    return second, block + uint64(1), first, True


"""

_GAMMA: Final = """\
@njit(error_model="numpy")
def sample(position, block, alpha):
    u0 = n0 = 0.0
    has_u = has_n = False
    if alpha == 1.0:
        u, block, u0, has_u = uniform(position, block, u0, has_u)
        return -math.log1p(-u)
    d = (alpha + 1.0 if alpha < 1.0 else alpha) - 1.0 / 3.0
    if not d > 0.0:
        return math.nan
    c = 1.0 / 3.0 / math.sqrt(d)
    while True:
        x, block, n0, has_n = normal(position, block, n0, has_n)
        v = 1.0 + c * x
        if v <= 0.0:
            continue
        v = v * v * v
        u, block, u0, has_u = uniform(position, block, u0, has_u)
        if u < 1.0 - 0.0331 * (x * x) * (x * x):
            break
        if math.log(u) < 0.5 * x * x + d * (1.0 - v + math.log(v)):
            break
    value = d * v
    if alpha < 1.0:
        u, block, u0, has_u = uniform(position, block, u0, has_u)
        value *= u ** (1.0 / alpha)
    return value


"""

_POISSON: Final = """\
@njit(error_model="numpy")
def sample(position, block, rate):
    u0 = 0.0
    has_u = False
    if not (rate >= 0.0 and rate < math.inf):
        return math.nan
    if rate < 10.0:
        limit = math.exp(-rate)
        product = 1.0
        count = 0.0
        while True:
            u, block, u0, has_u = uniform(position, block, u0, has_u)
            product *= u
            if product <= limit and count <= {most}:
                return count
            count += 1.0
    b = 0.931 + 2.53 * math.sqrt(rate)
    a = -0.059 + 0.02483 * b
    inverse = 1.1239 + 1.1328 / (b - 3.4)
    log_rate = math.log(rate)
    while True:
        u, block, u0, has_u = uniform(position, block, u0, has_u)
        v, block, u0, has_u = uniform(position, block, u0, has_u)
        u -= 0.5
        edge = 0.5 - abs(u)
        k = math.floor((2.0 * a / edge + b) * u + rate + 0.43)
        if k > {most}:
            continue
        if edge >= 0.07 and v <= 0.9277 - 3.6224 / (b - 2.0):
            return k
        if k < 0.0 or (edge < 0.013 and v > edge):
            continue
        left = math.log(v * inverse / (a / (edge * edge) + b))
        if left <= -rate + k * log_rate - vm.lgamma_f64(k + 1.0):
            return k


"""

_ENTRY: Final = """\
def kernel(args, chunk, nchunks):
    total = word(args, 2)
    position = word(args, 3)
    out = ptr_{out}(word(args, 4))
    parameter = ptr_{kind}(word(args, 5))
    parameters = word(args, 6)
    samples = word(args, 7)
    first = total * chunk // nchunks
    last = total * (chunk + 1) // nchunks
    for step in range(last - first):
        stream = first + step
        p = stream // samples
        value = sample(position, uint64(stream) * uint64({apart}), float64(ld(parameter, p)))
        st(out, (stream - p * samples) * parameters + p, {stored})
"""


def sampler_source(method: str, parameter: DType, out: DType) -> KernelSource:
    """Write the sampler of gamma or Poisson values.

    Words: outputs, address of the stream's position, output, parameters, their number, and the
    samples of each.
    """
    whole = not out.is_floating
    most = float(np.iinfo(out.as_numpy_dtype).max if whole else np.finfo(out.as_numpy_dtype).max)
    stored = f"{'int64' if whole else out.name}(value)"
    if whole:  # a value without a distribution becomes the lowest integer, as a conversion makes it
        lowest = int(np.iinfo(out.as_numpy_dtype).min)
        stored = f"int64(value) if value >= 0.0 else int64({lowest})"
    body = _GAMMA if method == "gamma" else _POISSON.format(most=repr(most))
    entry = _ENTRY.format(
        out=_KINDS[out], kind=_KINDS[parameter], apart=BLOCKS_PER_OUTPUT, stored=stored
    )
    text = "from numba import int64\n" + FUNCTIONS + _STREAMS + body + entry + advance_text()
    title = f"{method} values of {out.name} by {parameter.name}"
    return KernelSource(text, ("kernel", "advance"), title=title, module=__name__)


@native("RandomGamma", "RandomPoisson", "RandomPoissonV2")
def _sampled(spec: NodeSpec) -> NativeCall:
    parameter, out = spec.inputs[1], spec.outputs[0]
    method = "gamma" if spec.op == "RandomGamma" else "poisson"
    if parameter.dtype not in (d.float32, d.float64) or out.dtype not in _KINDS:
        raise Unsupported(f"{method} values of {out.dtype.name}")
    count = math.prod(parameter.shape)
    if not isinstance(count, int) or not isinstance(out.size, int) or not count or not out.size:
        raise Unsupported("no values, or sizes that are not known while planning")
    source = sampler_source(method, parameter.dtype, out.dtype)
    cost = FIXED_NS + _VALUE_NS * predicted(out.size)
    words = (out.size, Pointer("state"), Pointer("out", 0), Pointer("in", 1), count,
             out.size // count)  # fmt: skip
    launch = Launch(source, words, chunks=chunks_for(cost, out.size), cost_ns=cost)
    advance = Launch(source, words, entry="advance", cost_ns=FIXED_NS)
    return NativeCall((launch, advance), bytes_moved=out.nbytes)
