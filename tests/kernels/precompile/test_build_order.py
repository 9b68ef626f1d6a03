"""The kernels that most programs need come first."""

from __future__ import annotations

from tfjit.kernels.precompile.build_order import by_use
from tfjit.kernels.source import KernelSource


def test_the_order() -> None:
    titles = (
        *("loop mul float64", "loop lgamma float32", "loop cast int64", "loop mul float32"),
        *("matmul f64", "AdaMax update f32", "gather_nd", "scatter segmentmax"),
        *("matmul f32", "Adam update f32", "copy strided", "sparse Ftrl update f32"),
    )
    usual = ["loop mul float32", "matmul f32", "Adam update f32", "copy strided"]
    usual.append("sparse Ftrl update f32")
    last = ["loop mul float64", "matmul f64"]
    middle = [title for title in titles if title not in (*usual, *last)]
    ordered = by_use(KernelSource("", title=title) for title in titles)
    assert [source.title for source in ordered] == [*usual, *middle, *last]
