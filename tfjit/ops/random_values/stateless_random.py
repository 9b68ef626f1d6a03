"""Define random ops with their stream as an input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tfjit.framework.graphs.default_graph import name_scope
from tfjit.framework.graphs.operation import Tensor
from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.framework.types import dtypes
from tfjit.framework.types.dtypes import as_dtype
from tfjit.framework.types.shape import format_shape
from tfjit.ops.core.apply import create, tensor
from tfjit.ops.core.convert import convert_to_tensor
from tfjit.ops.core.declare import register_op
from tfjit.ops.core.shape_rules import Shapes, fail, int_constant, scalar, unchanged
from tfjit.ops.core.type_lists import HALF_TO_DOUBLE, INDEX

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import DTypeLike, ShapeLike, TensorLike


def _seeded(c: ShapeContext) -> Shapes:
    (seed,) = c.with_rank(1, 1)
    if seed is not None:
        c.with_value(seed, 2)
    return [c.constant_as_shape(0)]


def _seeded_int(c: ShapeContext) -> Shapes:
    c.with_rank(2, 0)
    c.with_rank(3, 0)
    return _seeded(c)


def _keyed(c: ShapeContext) -> Shapes:
    c.with_rank(1, 1)
    c.with_rank(2, 1)
    c.with_rank(3, 0)
    return [c.constant_as_shape(0)]


def _keyed_int(c: ShapeContext) -> Shapes:
    c.with_rank(4, 0)
    c.with_rank(5, 0)
    return _keyed(c)


def _stateless_multinomial(c: ShapeContext) -> Shapes:
    logits = c.with_rank(0, 2)
    c.with_rank(1, 0)
    (seed,) = c.with_rank(2, 1)
    if seed is not None:
        c.with_value(seed, 2)
    return [(logits[0], int_constant(c, 1))]


def _key_counter(c: ShapeContext) -> Shapes:
    (seed,) = c.with_rank(0, 1)
    if seed is not None:
        c.with_value(seed, 2)
    return [(1,), (2,)]


def _key_counter_algorithm(c: ShapeContext) -> Shapes:
    return [*_key_counter(c), ()]


def _shuffled_indices(c: ShapeContext) -> Shapes:
    """Return the common shape of index, seed and max_index."""
    index, seed, largest = c.with_rank_at_most(0, 1), c.inputs[1], c.with_rank_at_most(2, 1)
    if seed is not None:
        if len(seed) not in (1, 2) or seed[-1] not in (None, 3):
            raise fail(f"Seed must have shape [3] or [n, 3] but got {format_shape(seed)}.")
        rows = seed[:-1]
        if index and rows and None not in (index[0], rows[0]) and index != rows:
            raise fail(
                f"Seed has shape {format_shape(seed)} but must have shape [{index[0]}, 3]. since "
                f"index had shape {format_shape(index)}."
            )
    if index is None or index:
        return [index]
    if seed is not None and len(seed) == 2:
        return [seed[:1]]
    return [largest]


register_op(
    "RandomIndexShuffle",
    inputs=("index: dtype", "seed: Tseed", "max_index: dtype"),
    outputs=("output: dtype",),
    attrs=(
        "rounds: int = 4",
        "dtype: {int32, uint32, int64, uint64}",
        "Tseed: {int32, uint32, int64, uint64}",
    ),
    shape=_shuffled_indices,
)
register_op(
    "StatelessMultinomial",
    inputs=("logits: T", "num_samples: int32", "seed: Tseed"),
    outputs=("output: output_dtype",),
    attrs=("T: realnumbertype", f"Tseed: {INDEX} = DT_INT64", f"output_dtype: {INDEX} = DT_INT64"),
    shape=_stateless_multinomial,
)
register_op(
    "StatelessParameterizedTruncatedNormal",
    inputs=(
        "shape: S",
        "seed: Tseed",
        "means: dtype",
        "stddevs: dtype",
        "minvals: dtype",
        "maxvals: dtype",
    ),
    outputs=("output: dtype",),
    attrs=(f"S: {INDEX}", f"Tseed: {INDEX} = DT_INT64", "dtype: {half, float, double}"),
)
register_op(
    "StatelessRandomBinomial",
    inputs=("shape: S", "seed: Tseed", "counts: T", "probs: T"),
    outputs=("output: dtype",),
    attrs=(
        f"S: {INDEX}",
        f"Tseed: {INDEX} = DT_INT64",
        "T: {half, float, double, int32, int64} = DT_DOUBLE",
        "dtype: {half, float, double, int32, int64} = DT_INT64",
    ),
)
register_op(
    "StatelessRandomGammaV2",
    inputs=("shape: T", "seed: Tseed", "alpha: dtype"),
    outputs=("output: dtype",),
    attrs=("dtype: {half, float, double}", f"T: {INDEX}", f"Tseed: {INDEX} = DT_INT64"),
)
register_op(
    "StatelessRandomGammaV3",
    inputs=("shape: shape_dtype", "key: uint64", "counter: uint64", "alg: int32", "alpha: dtype"),
    outputs=("output: dtype",),
    attrs=("dtype: {half, float, double}", f"shape_dtype: {INDEX} = DT_INT32"),
)
register_op("StatelessRandomGetAlg", outputs=("alg: int32",), stateful=True, shape=scalar)
register_op(
    "StatelessRandomGetKeyCounter",
    inputs=("seed: Tseed",),
    outputs=("key: uint64", "counter: uint64"),
    attrs=(f"Tseed: {INDEX} = DT_INT64",),
    shape=_key_counter,
)
register_op(
    "StatelessRandomGetKeyCounterAlg",
    inputs=("seed: Tseed",),
    outputs=("key: uint64", "counter: uint64", "alg: int32"),
    attrs=(f"Tseed: {INDEX} = DT_INT64",),
    shape=_key_counter_algorithm,
)
for _op_type in ("StatelessRandomNormal", "StatelessRandomUniform", "StatelessTruncatedNormal"):
    register_op(
        _op_type,
        inputs=("shape: T", "seed: Tseed"),
        outputs=("output: dtype",),
        attrs=(
            f"dtype: {HALF_TO_DOUBLE} = DT_FLOAT",
            f"T: {INDEX} = DT_INT32",
            f"Tseed: {INDEX} = DT_INT64",
        ),
        shape=_seeded,
    )
for _op_type in (
    "StatelessRandomNormalV2",
    "StatelessRandomUniformV2",
    "StatelessTruncatedNormalV2",
):
    register_op(
        _op_type,
        inputs=("shape: Tshape", "key: uint64", "counter: uint64", "alg: int32"),
        outputs=("output: dtype",),
        attrs=(f"dtype: {HALF_TO_DOUBLE} = DT_FLOAT", f"Tshape: {INDEX} = DT_INT32"),
        shape=_keyed,
    )
register_op(
    "StatelessRandomPoisson",
    inputs=("shape: T", "seed: Tseed", "lam: Rtype"),
    outputs=("output: dtype",),
    attrs=(
        "Rtype: {half, float, double, int32, int64}",
        "dtype: {half, float, double, int32, int64}",
        f"T: {INDEX}",
        f"Tseed: {INDEX} = DT_INT64",
    ),
)
register_op(
    "StatelessRandomUniformFullInt",
    inputs=("shape: T", "seed: Tseed"),
    outputs=("output: dtype",),
    attrs=(
        "dtype: {int32, int64, uint32, uint64} = DT_UINT64",
        f"T: {INDEX} = DT_INT32",
        "Tseed: {int32, int64, uint32, uint64} = DT_INT64",
    ),
    shape=_seeded,
)
register_op(
    "StatelessRandomUniformFullIntV2",
    inputs=("shape: Tshape", "key: uint64", "counter: uint64", "alg: int32"),
    outputs=("output: dtype",),
    attrs=("dtype: {int32, int64, uint32, uint64} = DT_UINT64", f"Tshape: {INDEX} = DT_INT32"),
    shape=_keyed,
)
register_op(
    "StatelessRandomUniformInt",
    inputs=("shape: T", "seed: Tseed", "minval: dtype", "maxval: dtype"),
    outputs=("output: dtype",),
    attrs=(f"dtype: {INDEX}", f"T: {INDEX}", f"Tseed: {INDEX} = DT_INT64"),
    shape=_seeded_int,
)
register_op(
    "StatelessRandomUniformIntV2",
    inputs=(
        "shape: Tshape",
        "key: uint64",
        "counter: uint64",
        "alg: int32",
        "minval: dtype",
        "maxval: dtype",
    ),
    outputs=("output: dtype",),
    attrs=("dtype: {int32, int64, uint32, uint64}", f"Tshape: {INDEX} = DT_INT32"),
    shape=_keyed_int,
)
register_op(
    "StatelessShuffle",
    inputs=("value: T", "key: uint64", "counter: uint64", "alg: int32"),
    outputs=("output: T",),
    attrs=("T: type",),
    shape=unchanged,
)


def shape_tensor(shape: ShapeLike) -> Tensor:
    """Return a shape argument as a tensor."""
    return convert_to_tensor(
        shape,
        dtype=dtypes.int32 if isinstance(shape, (list, tuple)) and not shape else None,
        name="shape",
    )


_DRAWN: Final = (
    dtypes.float16,
    dtypes.bfloat16,
    dtypes.float32,
    dtypes.float64,
    dtypes.int32,
    dtypes.int64,
    dtypes.uint32,
    dtypes.uint64,
)
_ALGORITHMS: Final = {"philox": 1, "threefry": 2, "autoselect": 3}


def _algorithm(alg: object) -> int:
    """Return the number of a random number generator.

    alg: the number, a name, or None for any. Raises ValueError for another number or name,
    TypeError for other types.
    """
    if alg is None:
        return _ALGORITHMS["autoselect"]
    value = getattr(alg, "value", alg)  # of an enum
    if isinstance(value, str):
        found = _ALGORITHMS.get(value.strip().lower().replace("-", "").replace("_", ""))
    elif isinstance(value, int):
        found = value if value in _ALGORITHMS.values() else None
    elif isinstance(value, Tensor):
        found = None
    else:
        raise TypeError(
            f"Can't convert argument `alg` (of value {alg} and type {type(alg)}) to int."
        )
    if found is None:
        raise ValueError(
            f"Argument `alg` got unsupported value {alg}. Supported values are philox (1) for the "
            "Philox algorithm, "
            "threefry (2) for the ThreeFry algorithm, and auto_select (3) for auto-selection."
        )
    return found


def generator_inputs(seed: TensorLike, alg: TensorLike) -> dict[str, object]:
    """Return key, counter and algorithm of a draw.

    They are in the form of the node's inputs.
    """
    number = _algorithm(alg)
    if number == _ALGORITHMS["threefry"]:
        halves = tensor("Cast", None, x=convert_to_tensor(seed), DstT=dtypes.uint32)
        key = tensor(
            "Reshape",
            None,
            tensor=tensor("Bitcast", None, input=halves, type=dtypes.uint64),
            shape=[1],
        )
        return {"key": key, "counter": convert_to_tensor([0], dtypes.uint64), "alg": number}
    key, counter = create("StatelessRandomGetKeyCounter", None, seed=seed).outputs
    return {"key": key, "counter": counter, "alg": number}


def stateless_random_uniform(
    shape: ShapeLike,
    seed: TensorLike,
    minval: object = 0,
    maxval: object = None,
    dtype: DTypeLike = dtypes.float32,
    name: str | None = None,
    alg: TensorLike = "auto_select",
) -> Tensor:
    """Sample as `random_uniform`; two seeds determine the values.

    minval None: integers of the dtype's full range.

    alg: "philox", "auto_select" (which is Philox on a CPU) or "threefry", of which a CPU has no
    kernel.
    """
    kind = as_dtype(dtype)
    if kind not in _DRAWN:
        raise ValueError(
            f"Argument `dtype` got invalid value {kind}. Accepted dtypes are {_DRAWN}."
        )
    if kind.is_integer and (minval is None) != (maxval is None):
        raise ValueError(
            f"For integer `dtype` argument {kind}, argument `minval` and `maxval` must be both "
            "None or not None. "
            f"Got `minval`={minval} and `maxval`={maxval}."
        )
    if minval is not None and kind in (dtypes.uint32, dtypes.uint64):
        raise ValueError(
            f"Argument `dtype` got invalid value {kind} when argument `minval` is not None. "
            "Please don't use unsigned integers in this case."
        )
    with name_scope(name, "stateless_random_uniform", [shape, seed, minval, maxval]) as scope:
        sizes = shape_tensor(shape)
        if minval is None:
            return tensor(
                "StatelessRandomUniformFullIntV2",
                scope,
                shape=sizes,
                dtype=kind,
                **generator_inputs(seed, alg),
            )
        low = convert_to_tensor(minval, dtype=kind, name="min")
        high = convert_to_tensor(1 if maxval is None else maxval, dtype=kind, name="max")
        drawn = generator_inputs(seed, alg)
        if kind.is_integer:
            return tensor(
                "StatelessRandomUniformIntV2", scope, shape=sizes, minval=low, maxval=high, **drawn
            )
        draw = tensor("StatelessRandomUniformV2", None, shape=sizes, dtype=kind, **drawn)
        return tensor(
            "AddV2",
            scope,
            x=tensor("Mul", None, x=draw, y=tensor("Sub", None, x=high, y=low)),
            y=low,
        )


def _scaled(
    op_type: str,
    default: str,
    shape: ShapeLike,
    seed: TensorLike,
    mean: TensorLike,
    stddev: TensorLike,
    dtype: DTypeLike,
    name: str | None,
    alg: TensorLike,
) -> Tensor:
    kind = as_dtype(dtype)
    with name_scope(name, default, [shape, seed, mean, stddev]) as scope:
        sizes = shape_tensor(shape)
        middle, width = (
            convert_to_tensor(mean, dtype=kind, name="mean"),
            convert_to_tensor(stddev, dtype=kind, name="stddev"),
        )
        draw = tensor(op_type, None, shape=sizes, dtype=kind, **generator_inputs(seed, alg))
        return tensor("AddV2", scope, x=tensor("Mul", None, x=draw, y=width), y=middle)


def stateless_random_normal(
    shape: ShapeLike,
    seed: TensorLike,
    mean: TensorLike = 0.0,
    stddev: TensorLike = 1.0,
    dtype: DTypeLike = dtypes.float32,
    name: str | None = None,
    alg: TensorLike = "auto_select",
) -> Tensor:
    """Sample as `random_normal`; two seeds determine the values.

    alg: as of `stateless_random_uniform`.
    """
    return _scaled(
        "StatelessRandomNormalV2",
        "stateless_random_normal",
        shape,
        seed,
        mean,
        stddev,
        dtype,
        name,
        alg,
    )


def stateless_truncated_normal(
    shape: ShapeLike,
    seed: TensorLike,
    mean: TensorLike = 0.0,
    stddev: TensorLike = 1.0,
    dtype: DTypeLike = dtypes.float32,
    name: str | None = None,
    alg: TensorLike = "auto_select",
) -> Tensor:
    """Sample as `truncated_normal`; two seeds determine the values.

    alg: as of `stateless_random_uniform`.
    """
    return _scaled(
        "StatelessTruncatedNormalV2",
        "stateless_truncated_normal",
        shape,
        seed,
        mean,
        stddev,
        dtype,
        name,
        alg,
    )


def stateless_multinomial(
    logits: TensorLike,
    num_samples: TensorLike,
    seed: TensorLike,
    output_dtype: DTypeLike = dtypes.int64,
    name: str | None = None,
) -> Tensor:
    """Draw as `multinomial`; two seeds determine the values."""
    return tensor(
        "StatelessMultinomial",
        name,
        logits=logits,
        num_samples=num_samples,
        seed=seed,
        output_dtype=as_dtype(output_dtype),
    )


def stateless_categorical(
    logits: TensorLike,
    num_samples: TensorLike,
    seed: TensorLike,
    dtype: DTypeLike = dtypes.int64,
    name: str | None = None,
) -> Tensor:
    """Draw as `stateless_multinomial`; its later name."""
    return stateless_multinomial(logits, num_samples, seed, dtype, name)
