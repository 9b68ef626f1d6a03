"""Format results as lines of text.

The wide table of all candidates, and the compact one of the wanted figures.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from benchmarks.harness import Result

COLUMNS = (
    "tfjit",
    "unfused",
    "tf",
    "tf other",
    "tf inline",
    "tfjit call",
    "tf call",
    "xla",
    "jax",
    "ort",
    "numpy",
)
_NAME = 50


def _us(value: float) -> str:
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 1000 else f"{value:.0f}"


def _verdict(ratio: float | None, wanted: float | None) -> str:
    """The wanted ratio and whether it was met."""
    if wanted is None or ratio is None:
        return f"{'':>7} {'':<6}"
    return f"{wanted:>7.3g} {'met' if ratio <= wanted else 'MISSED':<6}"


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}" if value < 0.1 else f"{value:.3f}"


class WideTable:
    """Yield the wide table.

    A column a candidate, in µs; then tfjit's ratios to TensorFlow's default and to the fastest
    peer.
    """

    def heading(self) -> Iterator[str]:
        """Lines above the rows."""
        yield "µs a run, median of the rounds; ±: half the quartile range of tfjit's; ÷tf, ÷best peer: median of the rounds' ratios;"
        yield "of limit: the least time the graph's bytes and flops take here, over tfjit's; seconds to the first result and to full speed"
        columns = "".join(f"{name:>11}" for name in COLUMNS)
        yield "tf, tf other: TensorFlow's default session in this process's mode and in the other; ÷tf: to the faster of the two"
        yield f"{'':<{_NAME}}{columns}    ±     ÷tf  wanted          ÷best peer            GB/s    GF/s of limit   first   ready"

    def row(self, result: Result) -> Iterator[str]:
        """Yield one workload's line, first results if any, and notes."""
        cells = "".join(
            f"{_us(result.timings[n].us) if n in result.timings else '-':>11}" for n in COLUMNS
        )
        mine = result.timings.get("tfjit")
        line = f"{result.name:<{_NAME}}{cells}"
        if mine is not None:
            theirs, best = result.tensorflow(), result.best_peer()
            ratio = result.ratios[theirs] if theirs else None
            peer = f"{best} {_ratio(result.ratios[best])}" if best else ""
            share = f"{result.limit_us / mine.us:.0%}" if result.limit_us else ""
            rates = f"{result.bytes_moved / mine.us / 1e3:>8.1f}{f'{result.flops / mine.us / 1e3:.1f}' if result.flops else '':>8}"
            line += f" {mine.spread / 2:>4.0%} {_ratio(ratio):>7} {_verdict(ratio, result.wanted)} {peer:<20}{rates} {share:>8}"
            line += f" {mine.first_s:>7.2f} {mine.ready_s:>7.2f}"
        yield line
        if result.first_s:
            seconds = ", ".join(
                f"{name} {statistics.median(s):.3f} s" for name, s in result.first_s.items()
            )
            ratio = result.first_ratio
            verdict = _verdict(ratio, result.wanted_first).strip()
            yield f"{'  first result in fresh sessions':<{_NAME}} {seconds}; ÷tf {_ratio(ratio)}, wanted {verdict}"
        for name, note in result.notes.items():
            yield f"{'':<4}{name}: {note}"


class TargetTable:
    """Rows that a ratio is wanted of."""

    def heading(self) -> Iterator[str]:
        """Lines above the rows."""
        yield f"{'':<{_NAME}}   tfjit µs      TF µs    ratio  wanted        TF best  best peer"

    def row(self, result: Result) -> Iterator[str]:
        """One workload, and its first result."""
        mine, name, best = result.timings.get("tfjit"), result.tensorflow(), result.best_peer()
        if mine is None or name is None:
            yield f"{result.name:<{_NAME}} FAILED"
        else:
            tf_best = max(
                (result.ratios[n], n) for n in ("tf", "tf other", "tf inline") if n in result.ratios
            )
            peer = (
                f"{best} {_us(result.timings[best].us)} ({_ratio(result.ratios[best])})"
                if best
                else ""
            )
            yield (
                f"{result.name:<{_NAME}} {_us(mine.us):>10} {_us(result.timings[name].us):>10} "
                f"{_ratio(result.ratios[name]):>8} "
                f"{_verdict(result.ratios[name], result.wanted)} {_ratio(tf_best[0]):>7}  {peer}"
            )
        if result.first_ratio is not None:
            a, b = (statistics.median(result.first_s[n]) for n in ("tfjit", "tf"))
            verdict = _verdict(result.first_ratio, result.wanted_first)
            yield f"{'  first result, s':<{_NAME}} {a:>10.3f} {b:>10.3f} {_ratio(result.first_ratio):>8} {verdict}"
        for name, note in result.notes.items():
            if result.failed and name in ("tfjit", "unfused", "tfjit call"):
                yield f"{'':<4}{name}: {note}"
