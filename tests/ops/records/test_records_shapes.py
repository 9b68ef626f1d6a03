"""Shape rules of strings, sparse tensors, candidate samplers and records against TensorFlow's
static shape inference.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.ops.shape_cases import Case, expand, ours, theirs

F, I32, I64, TEXT = "float32", "int32", "int64", "string"
SPARSE = [(3, 2), (3,), (2,)]
KINDS = [I64, F, I64]
SHAPE = np.array([3, 4])


def _sparse() -> Iterator[Case]:
    yield from expand("SparseToDense", [(3, 2), SHAPE, (3,), ()], [I64, I64, F, F])
    yield from expand("SparseToDense", [(3, 2), (2,), (3,), ()], [I64, I64, F, F])
    yield from expand("SparseReorder", SPARSE, KINDS)
    yield from expand("SparseReshape", [(3, 2), (2,), (4,)], I64)
    for op in ("SparseReduceSum", "SparseReduceMax"):
        for keep in (False, True):
            yield from expand(
                op, [(3, 2), (3,), SHAPE, np.array([1], np.int32)], KINDS, keep_dims=keep
            )
            yield from expand(op, [(3, 2), (3,), (2,), (1,)], [*KINDS, I32], keep_dims=keep)
    yield from expand("SparseReduceSumSparse", [*SPARSE, (1,)], [*KINDS, I32])
    yield from expand("SparseSoftmax", SPARSE, KINDS)
    yield from expand("SparseAdd", [*SPARSE, (4, 2), (4,), (2,), ()], [*KINDS, *KINDS, F])
    yield from expand("SparseAddGrad", [(5,), (3, 2), (4, 2), (5, 2)], [F, I64, I64, I64])
    yield from expand("SparseSparseMaximum", [*SPARSE, (4, 2), (4,), (2,)], [*KINDS, *KINDS])
    yield from expand(
        "SparseConcat",
        [(3, 2), (4, 2), (3,), (4,), (2,), (2,)],
        [I64, I64, F, F, I64, I64],
        concat_dim=1,
    )
    yield from expand("SparseSplit", [(), *SPARSE], [I64, *KINDS], num_split=2)
    yield from expand("SparseSlice", [*SPARSE, (2,), (2,)], [*KINDS, I64, I64])
    yield from expand("SparseSliceGrad", [(2,), (3, 2), (2,), (2, 2)], [F, I64, I64, I64])
    yield from expand("SparseFillEmptyRows", [*SPARSE, ()], [*KINDS, F])
    yield from expand("SparseFillEmptyRows", [(3, 2), (3,), SHAPE, ()], [*KINDS, F])
    yield from expand("SparseFillEmptyRowsGrad", [(3,), (4,)], [I64, F])
    yield from expand("SparseTensorDenseAdd", [*SPARSE, (3, 4)], [*KINDS, F])
    yield from expand("SparseDenseCwiseMul", [*SPARSE, (3, 4)], [*KINDS, F])
    for a in (False, True):
        for b in (False, True):
            right = (4 if a == b else 3, 5) if not a else (3, 5)
            right = ((3 if a else 4), 5)
            yield from expand(
                "SparseTensorDenseMatMul",
                [(3, 2), (3,), SHAPE, right[::-1] if b else right],
                [*KINDS, F],
                adjoint_a=a,
                adjoint_b=b,
            )
            yield from expand(
                "SparseTensorDenseMatMul", [*SPARSE, (4, 5)], [*KINDS, F], adjoint_a=a, adjoint_b=b
            )
            yield from expand(
                "SparseMatMul",
                [(4, 4), (4, 5) if not b else (5, 4)],
                F,
                transpose_a=a,
                transpose_b=b,
            )
    yield from expand("SerializeSparse", SPARSE, KINDS)
    yield from expand("SerializeManySparse", SPARSE, KINDS)
    yield from expand("DenseToDenseSetOperation", [(2, 3), (2, 4)], I64, set_operation="union")
    yield from expand("AddManySparseToTensorsMap", SPARSE, KINDS)


def _strings() -> Iterator[Case]:
    for op in (
        "AsString",
        "StringLower",
        "StringStrip",
        "StringLength",
        "EncodeBase64",
        "DecodeBase64",
        "DecodeCompressed",
    ):
        yield from expand(op, [(2, 3)], TEXT)
    yield from expand("StringFormat", [(2,)], F, template="%s")
    yield from expand("RegexFullMatch", [(2, 3), ()], TEXT)
    yield from expand("RegexReplace", [(2, 3), (), ()], TEXT)
    yield from expand("StringSplit", [(2,), ()], TEXT)
    yield from expand("StringSplitV2", [(2,), ()], TEXT)
    for place in ((), (2,), (2, 1)):
        yield from expand("Substr", [(2, 3), place, place], [TEXT, I32, I32])
    attrs: dict[str, Any] = {
        "separator": "",
        "ngram_widths": [2],
        "left_pad": "",
        "right_pad": "",
        "pad_width": 0,
    }
    yield from expand(
        "StringNGrams", [(7,), (3,)], [TEXT, I64], preserve_short_sequences=False, **attrs
    )
    for op in ("UnicodeDecode", "UnicodeDecodeWithOffsets"):
        yield from expand(op, [(2, 3)], TEXT, input_encoding="UTF-8")
    yield from expand("UnicodeEncode", [(7,), (4,)], [I32, I64], output_encoding="UTF-8")
    yield from expand("SerializeTensor", [(2, 3)], F)
    for length in (np.array(8, np.int32), np.array(3, np.int32)):
        yield from expand("DecodePaddedRaw", [(2,), length], [TEXT, I32], out_type=17)
    yield from expand("DecodePaddedRaw", [(2,), ()], [TEXT, I32], out_type=17)


def _others() -> Iterator[Case]:
    for op in ("Uniform", "LogUniform", "LearnedUnigram"):
        yield from expand(
            op + "CandidateSampler",
            [(4, 2)],
            I64,
            num_true=2,
            num_sampled=5,
            unique=True,
            range_max=9,
        )
    yield from expand("ComputeAccidentalHits", [(4, 2), (5,)], I64, num_true=2)
    yield from expand("DecodePng", [()], TEXT, channels=3)
    yield from expand("EncodePng", [(4, 5, 3)], "uint8")
    yield from expand("DecodeWav", [()], TEXT, desired_channels=2)
    yield from expand("EncodeWav", [(9, 2), ()], [F, I32])
    yield from expand("CTCGreedyDecoder", [(5, 2, 4), (2,)], [F, I32])
    yield from expand(
        "CTCBeamSearchDecoder", [(5, 2, 4), (2,)], [F, I32], beam_width=4, top_paths=2
    )


def test_shapes_equal_tensorflow() -> None:
    wrong, count = [], 0
    for case in (*_sparse(), *_strings(), *_others()):
        attrs, expected, reason = theirs(case)
        found, message = ours(case, attrs)
        count += 1
        if found != expected:
            wrong.append(f"{case}: TensorFlow {expected or reason}, here {found or message}")
    assert not wrong, f"{len(wrong)} of {count}:\n" + "\n".join(wrong[:60])
