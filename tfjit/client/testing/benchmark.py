"""`Benchmark`: timed runs of operations, which `tf.test.main` finds by their names."""

from __future__ import annotations

import inspect
import json
import os
import re
import statistics
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from tfjit.client.session.default_session import get_default_session
from tfjit.client.session.session import Session
from tfjit.protos import ConfigProto, RewriterConfig

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import FeedDict, Fetches, Structure

_BENCHMARKS: Final[list[type[Benchmark]]] = []


class Benchmark:
    """A class whose methods "benchmark..." measure, and report by `report_benchmark`.

    `tf.test.main` runs them for --benchmark_filter=PATTERN of "module.Class.method", or "all".
    """

    def __init_subclass__(cls, **kwargs: Structure) -> None:
        super().__init_subclass__(**kwargs)
        _BENCHMARKS.append(cls)

    @classmethod
    def is_abstract(cls) -> bool:
        """Return whether this is the base of benchmarks."""
        return cls is Benchmark

    def report_benchmark(
        self,
        iters: int | None = None,
        cpu_time: float | None = None,
        wall_time: float | None = None,
        throughput: float | None = None,
        extras: Mapping[str, object] | None = None,
        name: str | None = None,
        metrics: Structure = None,
    ) -> None:
        """Print a result as a line of JSON.

        It is also written to "<TEST_REPORT_FILE_PREFIX><class>.<name>" where this variable of the
        environment is set. iters: number of runs. Times are in seconds a run, throughput in MB a
        second. extras: further numbers and strings. name: of the calling method by default.
        """
        result = {
            "name": f"{type(self).__name__}.{name or self._caller()}",
            "iters": iters,
            "cpu_time": cpu_time,
            "wall_time": wall_time,
            "throughput": throughput,
            "extras": dict(extras) if extras else None,
            "metrics": metrics,
        }
        line = json.dumps({key: value for key, value in result.items() if value is not None})
        print(line, flush=True)
        prefix = os.environ.get("TEST_REPORT_FILE_PREFIX")
        if prefix:
            path = prefix + str(result["name"]).replace("/", "__")
            with open(path, "x", encoding="utf-8") as file:
                file.write(line + "\n")

    def _caller(self) -> str:
        """Return the name of this object's outermost running method."""
        frames = [f for f in inspect.stack() if f.frame.f_locals.get("self") is self]
        return frames[-1].function

    def run_op_benchmark(
        self,
        sess: Session,
        op_or_tensor: Fetches,
        feed_dict: FeedDict | None = None,
        burn_iters: int = 2,
        min_iters: int = 10,
        store_trace: bool = False,
        store_memory_usage: bool = True,
        name: str | None = None,
        extras: dict[str, object] | None = None,
        mbs: float = 0,
    ) -> dict[str, object]:
        """Run operations again and again and report the median time.

        Returns the numbers.

        burn_iters: runs before those that count. mbs: the MB of a run, for the throughput.
        store_memory_usage: add the peak of each allocator's bytes to `extras`. Raises
        NotImplementedError for store_trace.
        """
        if store_trace:
            raise NotImplementedError(
                "store_trace: use tf.train.ProfilerHook or RunMetadata for traces"
            )
        for _ in range(burn_iters):
            sess.run(op_or_tensor, feed_dict=feed_dict)
        times = []
        for _ in range(min_iters):
            start = time.time()
            sess.run(op_or_tensor, feed_dict=feed_dict)
            times.append(time.time() - start)
        found = dict(extras or {})
        if store_memory_usage:
            found.update(_peaks(sess, op_or_tensor, feed_dict))
        median = statistics.median(times)
        values: dict[str, Structure] = {
            "iters": min_iters,
            "wall_time": median,
            "extras": found,
            "name": name,
            "throughput": mbs / median,
        }
        self.report_benchmark(**values)
        found["wall_time_mean"] = statistics.fmean(times)
        found["wall_time_stdev"] = statistics.stdev(times) if len(times) > 1 else -1
        return values

    def evaluate(self, tensors: Fetches) -> Structure:
        """Return the values of tensors in the default session.

        Raises ValueError without one.
        """
        session = get_default_session()
        if session is None:
            raise ValueError("evaluate needs a default session")
        return session.run(tensors)


def _peaks(session: Session, fetches: Fetches, feed_dict: FeedDict | None) -> dict[str, int]:
    """Return the peak bytes of each allocator in one run."""
    from tfjit.protos import RunMetadata, RunOptions

    metadata = RunMetadata()
    session.run(
        fetches,
        feed_dict=feed_dict,
        options=RunOptions(trace_level=RunOptions.FULL_TRACE),
        run_metadata=metadata,
    )
    peaks: dict[str, int] = {}
    for device in metadata.step_stats.dev_stats:
        for node in device.node_stats:
            for memory in node.memory:
                key = f"allocator_maximum_num_bytes_{memory.allocator_name}"
                peaks[key] = max(peaks.get(key, 0), memory.peak_bytes)
    return peaks


def benchmark_config() -> ConfigProto:
    """Return a ConfigProto that leaves the graph's control dependencies as they are."""
    config = ConfigProto()
    rewriter = config.graph_options.rewrite_options
    rewriter.dependency_optimization = RewriterConfig.OFF
    return config


def run_benchmarks(pattern: str) -> None:
    """Run the methods of benchmarks whose full names have the pattern.

    Raises ValueError without any.
    """
    found = False
    for kind in list(_BENCHMARKS):
        methods = [name for name in dir(kind) if name.startswith("benchmark")]
        names = {name: f"{kind.__module__}.{kind.__name__}.{name}" for name in methods}
        chosen = [n for n in methods if pattern == "all" or re.search(pattern, names[n])]
        if chosen:
            found = True
            instance = kind()
            for name in chosen:
                getattr(instance, name)()
    if not found:
        raise ValueError(f"No benchmarks matched the pattern: '{pattern}'")
