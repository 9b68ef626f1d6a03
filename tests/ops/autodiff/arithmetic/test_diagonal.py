"""Test gradients of bands of diagonals against TensorFlow's."""

from __future__ import annotations

from typing import Any

import pytest

from tests.ops.autodiff.against_tensorflow import compare, signed

ALIGNMENTS = ["LEFT_RIGHT", "RIGHT_LEFT", "LEFT_LEFT", "RIGHT_RIGHT"]
WEIGHTS = signed(2, 4, 5)


@pytest.mark.parametrize("align", ALIGNMENTS)
@pytest.mark.parametrize("k", [0, 1, (-1, 2)])
def test_the_third_version(align: str, k: Any) -> None:
    count = 1 if isinstance(k, int) else k[1] - k[0] + 1
    diagonals = (2, 4) if count == 1 else (2, count, 4)

    def program(m: Any, x: Any, d: Any) -> Any:
        part = m.linalg.diag_part(x * x, k=k, align=align)
        put = m.linalg.set_diag(x, d * d, k=k, align=align)
        matrix = m.linalg.diag(d * d, k=k, num_rows=4, num_cols=5, align=align)
        return [part**2, put * WEIGHTS, matrix * WEIGHTS]

    compare(program, [signed(2, 4, 5), signed(*diagonals)])


def test_the_second_version() -> None:
    def program(m: Any, x: Any, d: Any) -> Any:
        raw = m.raw_ops
        size = {"num_rows": 4, "num_cols": 5, "padding_value": 0.0}
        part = raw.MatrixDiagPartV2(input=x, k=[-1, 0], padding_value=0.0)
        put = raw.MatrixSetDiagV2(input=x, diagonal=d, k=[-1, 0])
        matrix = raw.MatrixDiagV2(diagonal=d, k=[-1, 0], **size)
        return [part**2, put**2, matrix * WEIGHTS]

    compare(program, [signed(2, 4, 5), signed(2, 2, 4)])
