"""Build slices of known size with run-time begins.

Blocks of rows are copied; each dimension is checked first.
"""

from __future__ import annotations

from math import prod

from tfjit.kernels.cpu.template import cost_model
from tfjit.kernels.registry import Launch, NativeCall, NodeSpec, Pointer, Unsupported
from tfjit.kernels.source import KernelSource, Source

# bits of a detail word for the place; the dimension and the kind of error are above them
_BITS = 48
_WORDS = {1: "u8", 2: "u16", 4: "i32", 8: "i64"}


class _OutOfBounds(str):
    """TensorFlow's message for a begin or a size.

    Dimension and place are packed in one detail word.
    """

    def __new__(cls, text: str, shape: tuple[int, ...], sizes: tuple[int, ...]) -> _OutOfBounds:
        made = super().__new__(cls, text)
        made.shape, made.sizes = shape, sizes
        return made

    shape: tuple[int, ...]
    sizes: tuple[int, ...]

    def format(self, *args: object, **kwargs: object) -> str:
        """Return the message for `detail`."""
        detail = int(kwargs["detail"])  # type: ignore[call-overload]
        begin, d = (detail & ((1 << _BITS) - 1)) - (1 << (_BITS - 1)), detail >> _BITS
        n = self.shape[d]
        if not 0 <= begin <= n:
            return f"Expected begin[{d}] in [0, {n}], but got {begin}"
        return f"Expected size[{d}] in [0, {n - begin}], but got {self.sizes[d]}"


def _source(index: str, rank: int, loops: int, word: str) -> KernelSource:
    """Write the kernel.

    Words: input, begin, output, bytes of a run; for each dimension the largest begin and the
    input's bytes of one step; for each looped dimension the number of steps, and the bytes of one
    in the input and in the output. word: the type of a run, "" for longer runs.
    """
    s = Source()
    s.line(
        f"# slice of {rank} dimensions by {index} places, {loops} "
        f"walked{f', of {word}' if word else ''}"
    )
    s.line("from tfjit.kernels.codegen.intrinsics import *")
    s.line()
    s.line()
    with s.block("def kernel(args, chunk, nchunks):"):
        for k, name in enumerate(("source", "begin", "out", "run")):
            s.line(f"{name} = word(args, {2 + k})")
        s.line(f"places = ptr_{index}(begin)")
        for d in range(rank):
            s.line(f"b{d} = int(ld(places, {d}))")
            with s.block(f"if b{d} < 0 or b{d} > word(args, {6 + 2 * d}):"):
                limit = 1 << (_BITS - 1)
                s.line(
                    f"fail(args, 1, {d << _BITS} + min(max(b{d}, {-limit}), {limit - 1}) + {limit})"
                )
                s.line("return")
            s.line(f"source += b{d} * word(args, {7 + 2 * d})")
        at = 6 + 2 * rank
        for k in range(loops):
            s.line(f"n{k} = word(args, {at + 3 * k})")
            s.line(f"x{k} = word(args, {at + 3 * k + 1})")
            s.line(f"y{k} = word(args, {at + 3 * k + 2})")

        def emit_loops(k: int, source: str, out: str) -> None:
            if k == loops:
                if word:
                    s.line(f"st(ptr_{word}({out}), 0, ld(ptr_{word}({source}), 0))")
                else:
                    s.line(f"copy_bytes({out}, {source}, run)")
                return
            with s.block(f"for i{k} in range(n{k}):"):
                emit_loops(k + 1, f"{source} + i{k} * x{k}", f"{out} + i{k} * y{k}")

        emit_loops(0, "source", "out")
    return KernelSource(s.text(), title="slice by place", module=__name__)


def block_slice(spec: NodeSpec) -> NativeCall:
    """Return the call of a Slice with unknown begin and known size.

    Raises Unsupported.
    """
    x, begin, out = spec.inputs[0], spec.inputs[1], spec.outputs[0]
    rank, size = len(x.shape), x.dtype.size
    if begin.shape != (rank,) or len(out.shape) != rank or not rank:
        raise Unsupported("its begin does not have the rank of its input")
    if (
        begin.dtype.name not in ("int32", "int64")
        or not x.dtype.is_numpy_compatible
        or x.dtype.name == "string"
        or not out.size
    ):
        raise Unsupported("its elements are no plain words, or there are none")
    if any(n > whole for n, whole in zip(out.shape, x.shape)):
        raise Unsupported("the slice leaves its input")
    strides = [size * prod(x.shape[d + 1 :]) for d in range(rank)]
    targets = [size * prod(out.shape[d + 1 :]) for d in range(rank)]
    # the dims after the last sliced one are taken whole
    last = max((d for d in range(rank) if out.shape[d] != x.shape[d]), default=0)
    run = out.shape[last] * strides[last]
    looped = [d for d in range(last) if out.shape[d] != 1]
    words: list[int] = []
    for d in range(rank):
        words += [x.shape[d] - out.shape[d], strides[d]]
    for d in looped:
        words += [out.shape[d], strides[d], targets[d]]
    word = _WORDS.get(run, "") if size == run else ""
    launch = Launch(
        _source("i32" if begin.dtype.size == 4 else "i64", rank, len(looped), word),
        (Pointer("in", 0), Pointer("in", 1), Pointer("out", 0), run, *words),
        cost_ns=cost_model.FIXED_NS
        + cost_model.traffic_ns(2 * out.nbytes)
        + 2.0 * prod(out.shape[d] for d in looped),
        errors={
            1: (
                "InvalidArgumentError",
                _OutOfBounds("a slice leaves its input ({detail})", x.shape, out.shape),
            )
        },
    )
    return NativeCall((launch,), bytes_moved=2 * out.nbytes)
