"""Collect the launches that a process builds for GPUs, run or not.

As a plugin of pytest: `-p tests.kernels.cuda.launch_collection`, with TESTS_GPU_LAUNCHES naming a
folder. Each process writes a file of its own there, a line of JSON for each new form of a launch.
`compile_all` compiles the texts.
"""

from __future__ import annotations

import ast
import json
import os
from pathlib import Path
from typing import Any, Final

import pytest

from tfjit.kernels.cuda.device import simulator
from tfjit.kernels.cuda.template import launches
from tfjit.kernels.cuda.template.launches import CudaLaunch
from tfjit.kernels.jit.store import KernelStore
from tfjit.kernels.source import KernelSource
from tfjit.runtime.op_kernels.control_flow import offload_ops
from tfjit.runtime.session import session_config

FOLDER: Final = "TESTS_GPU_LAUNCHES"
_OF_A_TEST: Final = "of a test"
"""Title of the texts that the tests' harness runs without a builder."""
_SIMULATED: Final = "device.simulator"
"""Part of the texts that use the simulator itself."""


class LaunchCollection:
    """Write a line for each form of a launch that is built while it is installed.

    origin: the test module or program that builds launches now, "" for one that is left out.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.origin = ""
        self._file = (folder / f"{os.getpid()}.jsonl").open("a", encoding="utf-8")
        self._texts: set[str] = set()
        self._forms: set[tuple[object, ...]] = set()

    @property
    def count(self) -> int:
        """Return the number of forms so far."""
        return len(self._forms)

    def install(self) -> None:
        """Note each launch from now on, and the texts that tests run without one."""
        make, load = CudaLaunch.__init__, simulator.load

        def noted(launch: CudaLaunch, *args: Any, **kwargs: Any) -> None:
            make(launch, *args, **kwargs)
            self._note(launch.source, launch)
            if launch.table_form is not None:
                self._note(launch.table_form, launch)

        def loaded(text: str, entries: Any, title: str) -> dict[str, int]:
            if title == _OF_A_TEST:
                source = launches.source(text, _arity(text, entries[0]), title, "")
                if text not in self._texts:
                    self._note(source, CudaLaunch(source, (), block=(1, 1, 1)))
            return load(text, entries, title)

        CudaLaunch.__init__ = noted  # type: ignore[method-assign]
        simulator.load = loaded

    def _note(self, source: KernelSource, launch: CudaLaunch) -> None:
        text = source.text
        is_kernel = source.target == launches.TARGET and "\ndef " in text
        if not self.origin or not is_kernel or _SIMULATED in text:
            return
        form = (text, self.origin, launch.grid[1:], launch.block, launch.shared_bytes)
        if form in self._forms:
            return
        self._forms.add(form)
        line = {
            "text": text if text not in self._texts else "",
            "digest": source.digest,
            "entries": source.entries,
            "arity": source.arity,
            "title": source.title,
            "writer": source.writer,
            "origin": self.origin,
            "grid": launch.grid,
            "block": launch.block,
            "shared_bytes": launch.shared_bytes,
        }
        self._texts.add(text)
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()


def _arity(text: str, entry: str) -> int:
    """Return the number of a function's arguments."""
    (function,) = (
        node
        for node in ast.parse(text).body
        if isinstance(node, ast.FunctionDef) and node.name == entry
    )
    return len(function.args.args)


def build_only() -> None:
    """Let the host's references compute all that programs of a GPU are built for.

    Programs are made in the first run, and their kernels are loaded by the simulator and never
    launched. Nothing is compiled for the host.
    """
    load_or_queue = KernelStore._load_or_queue

    def of_gpus(self: KernelStore, sources: list[KernelSource]) -> None:
        for source in sources:
            if source.target:
                load_or_queue(self, [source])
            else:
                self._refuse(source, "launches are collected", quiet=True)

    KernelStore._load_or_queue = of_gpus  # type: ignore[method-assign]
    KernelStore.refusals = lambda self: {}  # type: ignore[method-assign]
    session_config.jit_mode = lambda config: "eager"
    offload_ops._are_loaded = lambda program, kernels: False


class _Plugin:
    """Tell a collection the running test."""

    def __init__(self, collection: LaunchCollection) -> None:
        self._collection = collection

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        refused = item.get_closest_marker("refuses_kernel") is not None
        path = item.path.relative_to(item.config.rootpath)
        self._collection.origin = "" if refused else path.as_posix()


def pytest_configure(config: pytest.Config) -> None:
    """Collect in this process: pytest's own, or a worker of pytest-xdist."""
    folder = os.environ.get(FOLDER)
    if folder:
        collection = LaunchCollection(Path(folder))
        collection.install()
        if config.option.markexpr == "gpu":
            build_only()
        config.pluginmanager.register(_Plugin(collection))


__all__ = ["FOLDER", "LaunchCollection", "build_only"]
