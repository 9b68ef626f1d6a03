"""The namespace `tfjit.test`.

Its modules are loaded when a program asks for their names.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Structure

_HOMES: Final = {
    "benchmark": "Benchmark benchmark_config",
    "environment": (
        "create_local_cluster disable_with_predicate get_temp_dir gpu_device_name "
        "is_built_with_cuda is_built_with_gpu_support is_built_with_rocm is_built_with_xla "
        "is_gpu_available test_src_dir_path"
    ),
    "gradient_checker": "compute_gradient compute_gradient_error",
    "message_assertions": "assert_equal_graph_def",
    "stubs": "StubOutForTesting",
    "test_case": "TestCase",
}
_NAMES: Final = {name: home for home, names in _HOMES.items() for name in names.split()}


def main(argv: Sequence[str] | None = None) -> None:
    """Run the tests of the program's module and exit.

    With --benchmark_filter=PATTERN its benchmarks run instead.

    argv: the command line, by default that of the process. Flags of the program are read first.
    """
    import sys
    import unittest

    from tfjit.client.flags import FLAGS
    from tfjit.client.testing.benchmark import run_benchmarks

    words = list(sys.argv if argv is None else argv)
    chosen = [word for word in words if word.lstrip("-").startswith("benchmark_filter=")]
    rest = FLAGS([word for word in words if word not in chosen], known_only=True)
    if chosen:
        run_benchmarks(chosen[0].partition("=")[2])
        sys.exit(0)
    unittest.main(module="__main__", argv=rest)


def __getattr__(name: str) -> Structure:
    if name == "mock":
        value: Structure = importlib.import_module("unittest.mock")
    elif name in _NAMES:
        module = importlib.import_module(f"tfjit.client.testing.{_NAMES[name]}")
        value = getattr(module, name)
    else:
        raise AttributeError(f"module 'tfjit.test' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*_NAMES, "main", "mock"})
