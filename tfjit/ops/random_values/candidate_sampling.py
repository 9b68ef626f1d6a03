"""Declare candidate samplers and sampled crops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from tfjit.framework.graphs.random_seed import get_seed
from tfjit.framework.op_defs.shape_context import ShapeContext
from tfjit.ops.core.apply import call
from tfjit.ops.core.declare import register_op
from tfjit.ops.core.shape_rules import Shapes

if TYPE_CHECKING:
    from tfjit.framework.graphs.operation import Tensor
    from tfjit.framework.graphs.typing import TensorLike


_SAMPLED: Final = (
    "sampled_candidates: int64",
    "true_expected_count: float",
    "sampled_expected_count: float",
)
_COUNTS: Final = ("num_true: int >= 1", "num_sampled: int >= 1", "unique: bool")
_SEEDS: Final = ("seed: int = 0", "seed2: int = 0")


def _candidates(c: ShapeContext) -> Shapes:
    count = int(c.attr("num_sampled"))
    rows = c.with_rank(0, 2)[0]
    return [(count,), (rows, int(c.attr("num_true"))), (count,)]


register_op(
    "AllCandidateSampler",
    inputs=("true_classes: int64",),
    outputs=_SAMPLED,
    attrs=(
        *_COUNTS,
        *_SEEDS,
    ),
    stateful=True,
    shape=_candidates,
)
register_op(
    "FixedUnigramCandidateSampler",
    inputs=("true_classes: int64",),
    outputs=_SAMPLED,
    attrs=(
        *_COUNTS,
        "range_max: int >= 1",
        "vocab_file: string = ''",
        "distortion: float = 1.0",
        "num_reserved_ids: int = 0",
        "num_shards: int >= 1 = 1",
        "shard: int >= 0 = 0",
        "unigrams: list(float) = []",
        *_SEEDS,
    ),
    stateful=True,
    shape=_candidates,
)
for _op_type in (
    "LearnedUnigramCandidateSampler",
    "LogUniformCandidateSampler",
    "ThreadUnsafeUnigramCandidateSampler",
    "UniformCandidateSampler",
):
    register_op(
        _op_type,
        inputs=("true_classes: int64",),
        outputs=_SAMPLED,
        attrs=(
            *_COUNTS,
            "range_max: int >= 1",
            *_SEEDS,
        ),
        stateful=True,
        shape=_candidates,
    )
register_op(
    "RandomCrop",
    inputs=("image: T", "size: int64"),
    outputs=("output: T",),
    attrs=(
        "T: {uint8, int8, int16, int32, int64, float, double}",
        *_SEEDS,
    ),
    stateful=True,
    deprecated=(8, "Random crop is now pure Python"),
)
register_op(
    "SobolSample",
    inputs=("dim: int32", "num_results: int32", "skip: int32"),
    outputs=("samples: dtype",),
    attrs=("dtype: {float, double} = DT_FLOAT",),
)


def _seeds(seed: int | None) -> dict[str, int]:
    """Return the attrs of a seed."""
    first, second = get_seed(seed)
    return {"seed": first or 0, "seed2": second or 0}


def _sampled(
    op: str,
    true_classes: TensorLike,
    num_true: int,
    num_sampled: int,
    unique: bool,
    seed: int | None,
    name: str | None,
    **more: object,
) -> tuple[Tensor, Tensor, Tensor]:
    return call(
        op,
        name,
        true_classes=true_classes,
        num_true=num_true,
        num_sampled=num_sampled,
        unique=unique,
        **_seeds(seed),
        **more,
    )


def uniform_candidate_sampler(
    true_classes: TensorLike,
    num_true: int,
    num_sampled: int,
    unique: bool,
    range_max: int,
    seed: int | None = None,
    name: str | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Sample candidates; all classes are as likely.

    Returns (candidates [num_sampled], expected counts of the true classes [batch, num_true], of the
    candidates).
    """
    return _sampled(
        "UniformCandidateSampler",
        true_classes,
        num_true,
        num_sampled,
        unique,
        seed,
        name,
        range_max=range_max,
    )


def log_uniform_candidate_sampler(
    true_classes: TensorLike,
    num_true: int,
    num_sampled: int,
    unique: bool,
    range_max: int,
    seed: int | None = None,
    name: str | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Sample candidates log-uniformly.

    As `uniform_candidate_sampler`; class k has the chance log((k + 2) / (k + 1)) / log(range_max +
    1).
    """
    return _sampled(
        "LogUniformCandidateSampler",
        true_classes,
        num_true,
        num_sampled,
        unique,
        seed,
        name,
        range_max=range_max,
    )


def learned_unigram_candidate_sampler(
    true_classes: TensorLike,
    num_true: int,
    num_sampled: int,
    unique: bool,
    range_max: int,
    seed: int | None = None,
    name: str | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Sample candidates by the frequency of true classes in earlier runs.

    As `uniform_candidate_sampler`.
    """
    return _sampled(
        "LearnedUnigramCandidateSampler",
        true_classes,
        num_true,
        num_sampled,
        unique,
        seed,
        name,
        range_max=range_max,
    )


def fixed_unigram_candidate_sampler(
    true_classes: TensorLike,
    num_true: int,
    num_sampled: int,
    unique: bool,
    range_max: int,
    vocab_file: str = "",
    distortion: float = 1.0,
    num_reserved_ids: int = 0,
    num_shards: int = 1,
    shard: int = 0,
    unigrams: Sequence[float] = (),
    seed: int | None = None,
    name: str | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Sample candidates by given weights.

    As `uniform_candidate_sampler`; classes are as likely as the unigrams, or the file's weights, to
    the power `distortion`.
    """
    more = {
        "vocab_file": vocab_file,
        "distortion": distortion,
        "num_reserved_ids": num_reserved_ids,
        "num_shards": num_shards,
    }
    more |= {"shard": shard, "unigrams": list(unigrams), "range_max": range_max}
    return _sampled(
        "FixedUnigramCandidateSampler",
        true_classes,
        num_true,
        num_sampled,
        unique,
        seed,
        name,
        **more,
    )


def all_candidate_sampler(
    true_classes: TensorLike,
    num_true: int,
    num_sampled: int,
    unique: bool,
    seed: int | None = None,
    name: str | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return all classes; tests use this for another sampler."""
    return _sampled("AllCandidateSampler", true_classes, num_true, num_sampled, unique, seed, name)


def compute_accidental_hits(
    true_classes: TensorLike,
    sampled_candidates: TensorLike,
    num_true: int,
    seed: int | None = None,
    name: str | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the true classes that were drawn.

    Returns (rows, positions among the candidates, lowest float32).
    """
    op = "ComputeAccidentalHits"
    found = call(
        op,
        name,
        true_classes=true_classes,
        sampled_candidates=sampled_candidates,
        num_true=num_true,
        **_seeds(seed),
    )
    return tuple(found)


def _hits(c: ShapeContext) -> Shapes:
    c.with_rank(0, 2)
    c.with_rank(1, 1)
    return [(None,), (None,), (None,)]


register_op(
    "ComputeAccidentalHits",
    inputs=("true_classes: int64", "sampled_candidates: int64"),
    outputs=("indices: int32", "ids: int64", "weights: float"),
    attrs=("num_true: int", *_SEEDS),
    shape=_hits,
)
