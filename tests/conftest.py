"""Provide fixtures that all tests share.

The folders of real graphs, and an environment that does not depend on the user's.
"""

from __future__ import annotations

import functools
import gc
import importlib.util
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

ROOT = Path(__file__).resolve().parent.parent

# TensorFlow, tfjit and the processes that tests start read these once, so they are set before
# either is imported. TensorFlow's mode would depend on the CPU (tests/oracle.py). The compiled
# kernels stay in the tree: a test run neither depends on the user's cache nor fills it.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
os.environ.setdefault("TFJIT_CACHE_DIR", str(ROOT / "build" / "test-cache"))
# Tests of the compiler count the kernels that it compiled, archives in the tree or not.
os.environ.setdefault("TFJIT_PRECOMPILED", "0")
# Tests look at passes and builders, and replace parts of them.
os.environ.setdefault("TFJIT_STORED_PLANS", "0")
# No test leaves a process behind that builds an archive.
os.environ.setdefault("TFJIT_BUILD_ARCHIVE", "0")
# Bytecode is kept, also where the environment says that Python keeps none: each of the processes
# that tests start would compile each module of the tree again, which takes half of its time.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

from tests import hardware, oracle  # noqa: E402
from tests.forked_processes import LIBRARY, Processes, processes  # noqa: E402
from tfjit.kernels.jit.compiler import numba_target  # noqa: E402

# Tests that compile with Numba in their own process do so for the CPU that kernels are made for.
os.environ.update(numba_target())


# The same examples are drawn each time, so that a change passes or fails for its own sake; others
# with `--hypothesis-profile=random`. On a busy machine a strategy or an example may be slow: that is
# no fault of a test.
for _profile, _same in (("tests", True), ("random", False)):
    hypothesis.settings.register_profile(
        _profile,
        derandomize=_same,
        deadline=None,
        suppress_health_check=[hypothesis.HealthCheck.too_slow],
    )
hypothesis.settings.load_profile("tests")


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--update-golden` rewrites the kernels that golden tests compare with."""
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="rewrite the golden files instead of comparing with them",
    )


HAS_TENSORFLOW = importlib.util.find_spec("tensorflow") is not None


def pytest_report_header() -> str:
    """Say which GPU the tests use."""
    return hardware.report()


@functools.cache
def needs_tensorflow(path: Path) -> bool:
    """Return whether a test module imports TensorFlow.

    An import through another module of the tests counts, anywhere in its text.
    """
    text = path.read_text(encoding="utf-8")
    if re.search(
        r"\b(import|from) "
        r"tensorflow\b|importorskip\(.tensorflow.\)|\bimport (make_models|tf1_programs)\b|\bbenchmarks\.",
        text,
    ):
        return True
    imported = re.findall(
        r"^ *(?:from|import) (tests(?:\.\w+)*)(?: import \(?([\w, ]+))?", text, re.MULTILINE
    )
    names = {
        name
        for package, members in imported
        for name in (package, *(f"{package}.{m.strip()}" for m in members.split(",")))
    }
    files = [ROOT.joinpath(*name.split(".")).with_suffix(".py") for name in names]
    files += [ROOT.joinpath(*name.split("."), "__init__.py") for name in names]
    return any(needs_tensorflow(file) for file in files if file.is_file() and file != path)


@functools.cache
def imports_tensorflow(path: Path) -> bool:
    """Return whether a test module imports TensorFlow when it is imported itself."""
    text = path.read_text(encoding="utf-8")
    if re.search(r"^(?:import|from) tensorflow\b", text, re.MULTILINE):
        return True
    names = re.findall(r"^from (tests\.[\w.]+) import", text, re.MULTILINE)
    files = [ROOT.joinpath(*name.split(".")).with_suffix(".py") for name in names]
    return any(imports_tensorflow(file) for file in files if file.is_file() and file != path)


def pytest_configure(config: pytest.Config) -> None:
    """With `-m gpu` use the machine's GPU or the simulated one, else none."""
    if config.option.markexpr == "gpu":
        hardware.choose()
    else:
        hardware.hide()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out modules that hold none of the chosen tests, before they import their libraries.

    With `-m "not oracle"` those that need TensorFlow, with `-m gpu` those without tests of GPUs.
    """
    if config.option.markexpr == "gpu" and collection_path.name.startswith("test_"):
        chosen = hardware.has_tests(collection_path)
        if chosen and not HAS_TENSORFLOW:
            # tests of kernels have another oracle, or skip by themselves
            lacks = imports_tensorflow if hardware.simulates(collection_path) else needs_tensorflow
            chosen = not lacks(collection_path)
        return None if chosen else True
    if (
        config.option.markexpr == "not oracle"
        and collection_path.suffix == ".py"
        and needs_tensorflow(collection_path)
    ):
        return True
    return None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect no garbage meanwhile: collecting tests makes many objects, and next to none go."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(tryfirst=True)  # before pytest chooses by marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of modules that import TensorFlow, and those that run on a GPU."""
    for item in items:
        if hardware.gpu_count() and not hardware.is_left_out(item):
            item.add_marker("gpu")
        if needs_tensorflow(item.path):
            item.add_marker("oracle")


def pytest_collection_finish() -> None:
    """Leave modules and collected tests out of garbage collections, which visit them in vain.

    Later collections are rare, too: graphs live until their test ends, and one collection in 700
    new objects walks them again and again, which took a twelfth of the tests' time. A test of what
    is freed collects by itself, one of finalizers at any moment uses `usual_collections`.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 10, 10)


@pytest.fixture
def usual_collections() -> Iterator[None]:
    """Let collections come as often as in a program."""
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)


@pytest.fixture(autouse=True, scope="module")
def oracle_rewrites_no_graph(request: pytest.FixtureRequest) -> None:
    """Let TensorFlow run the nodes that a test made, as it is their kernels that tests ask about.

    In tests of control flow its optimizer took more than half of TensorFlow's time. It stays on
    where whole sessions are compared, and in sessions with a config.
    """
    if HAS_TENSORFLOW and needs_tensorflow(request.path):
        oracle.optimize_graphs(oracle.compares_sessions(request.path))


@pytest.fixture(autouse=True, scope="module")
def conformance_on_a_gpu(request: pytest.FixtureRequest) -> Iterator[None]:
    """With `-m gpu` let sessions of the conformance suite compute on GPU:0."""
    with hardware.on_gpu(request.path):
        yield


@pytest.fixture(autouse=True)
def lost_gpu_ends_the_process() -> Iterator[None]:
    """Let another process run the tests that are left, where a kernel has cost the context."""
    yield
    hardware.end_if_lost()


@pytest.fixture(scope="session")
def update_golden(request: pytest.FixtureRequest) -> bool:
    """Return whether golden files are to be rewritten."""
    return bool(request.config.getoption("--update-golden"))


@pytest.fixture(scope="session")
def root() -> Path:
    """The root of the source tree."""
    return ROOT


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Return the folder of real graphs made by TensorFlow.

    Its README describes the graphs.
    """
    return ROOT / "tests" / "data"


@pytest.fixture(scope="session")
def tensorflow_processes() -> Iterator[Processes]:
    """Processes that have imported TensorFlow, and done nothing with it."""
    with processes("tensorflow") as made:
        yield made


@pytest.fixture(scope="session")
def library() -> Iterator[Processes]:
    """Processes that have imported tfjit, started no thread and loaded no kernel."""
    with processes(*LIBRARY) as made:
        yield made


@pytest.fixture(scope="session")
def demo_dir() -> Path:
    """The folder that holds digits_cnn.pb and digits.npz, which ship with the package."""
    return ROOT / "tfjit" / "demo"


def _refusals() -> dict[object, str]:
    """Return the kernels that this process failed to compile, with the reasons.

    A process that has not used the store has none.
    """
    module = sys.modules.get("tfjit.kernels.jit.store")
    return dict(module.store.refusals()) if module is not None else {}


@pytest.fixture(autouse=True)
def no_refused_kernel(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test with a kernel that does not compile.

    The reference would hide the failure with the right numbers. A test that provokes a refusal is
    marked `refuses_kernel`.
    """
    before = set(_refusals())
    yield
    refused = {kernel: reason for kernel, reason in _refusals().items() if kernel not in before}
    if refused and request.node.get_closest_marker("refuses_kernel") is None:
        reasons = "\n\n".join(
            f"{getattr(kernel, 'title', kernel)}: {reason}" for kernel, reason in refused.items()
        )
        pytest.fail(f"{len(refused)} kernels were refused:\n{reasons}", pytrace=False)


@pytest.fixture(autouse=True)
def floats_as_they_were() -> Iterator[None]:
    """Check that the thread of a kernel has denormals again afterwards.

    Kernels flush denormals while they run.
    """
    yield
    assert 5e-324 * 1.0 > 0.0, "denormals are flushed to zero in this thread"
