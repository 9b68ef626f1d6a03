"""Lines of the table of `python -m benchmarks gpu`."""

from __future__ import annotations

from typing import Any, Final

Record = dict[str, Any]

LEGEND: Final = (
    "device: time on the GPU of a step with its values there (tfjit: median of replays between "
    "events; others: steps queued one behind the other);\n"
    "resident: such a step until it is done; run: NumPy in and out; GB/s of the least bytes in a "
    "replay that finds nothing in the L2 cache,\n"
    "TF/s of the least flops in the device's time, with their part of the card's limits\n"
    f"{'':<15}{'workload':<46}{'device µs':>11}{'resident µs':>13}{'run µs':>11}{'GB/s':>9}"
    f"{'':>5}{'TF/s':>8}{'':>5}{'launches':>9}{'overhead µs':>12}"
)


def limits_line(record: Record) -> str:
    """Return the card's limits."""
    if "error" in record:
        return f"limits FAILED: {record['error']}"
    return (
        f"{record['name']}: copy {record['copy_gbs']:.0f} GB/s (read and written), in "
        f"{record['in_gbs']:.1f}, out {record['out_gbs']:.1f} GB/s, float32 multiply-adds "
        f"{record['product_tfs']:.1f} TF/s"
    )


def sessions_line(record: Record) -> str:
    """Return the device memory of sessions that were closed."""
    if "error" in record:
        return f"memory of sessions FAILED: {record['error']}"
    return (
        f"memory: a session of {record['workload']} has {record['bytes_of_one'] / 1e6:.1f} MB; "
        f"after {record['sessions']} sessions {record['bytes_after']} bytes are in use, and the "
        f"process has {record['bytes_taken'] / 1e6:.1f} MB more"
    )


def row(record: Record, card: Record) -> str:
    """Return one workload by one candidate."""
    head = f"{record['candidate']:<15}{record['workload']:<46}"
    if "error" in record:
        return f"{head} FAILED: {record['error']}"
    if "absent" in record:
        return f"{head} -  ({record['absent']})"
    device = record["device_us"]
    line = f"{head}{_us(device):>11}{_us(record['resident_us']):>13}{_us(record['wall_us']):>11}"
    if "bytes" not in record:
        return line
    rate = record["bytes"] / record.get("cold_us", device) / 1e3
    flops = record["flops"] / device / 1e6
    line += f"{rate:>9.1f}{_part(rate, card.get('copy_gbs')):>5}"
    line += f"{flops:>8.2f}{_part(flops, card.get('product_tfs')):>5}" if flops else " " * 13
    overhead = record["resident_us"] - device
    line += f"{record['launches']:>9}{_us(overhead):>12}"
    return f"{line}  {record['note']}" if record["note"] else line


def _us(value: float) -> str:
    return f"{value:.1f}" if abs(value) < 1000 else f"{value:.0f}"


def _part(value: float, limit: float | None) -> str:
    return f"{value / limit:.0%}" if limit else ""
