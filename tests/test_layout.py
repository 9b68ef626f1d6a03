"""Tests stand in the rooms of the modules that they test, and share helper modules only."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests"

# The folder of tests and the folder of the source that they test.
LAYERS = {
    "client": ROOT / "tfjit" / "client",
    "demo": ROOT / "tfjit" / "demo",
    "distributed": ROOT / "tfjit" / "distributed",
    "framework": ROOT / "tfjit" / "framework",
    "kernels": ROOT / "kernels",
    "lab": ROOT / "tfjit" / "lab",
    "ops": ROOT / "tfjit" / "ops",
    "passes": ROOT / "passes",
    "protos": ROOT / "protos",
    "runtime": ROOT / "tfjit" / "runtime",
}

# Tests of a room as a whole, which no one module stands for.
OF_A_ROOM = {
    "distributed/test_all_pairs.py": "client, master and worker of both libraries, combined",
    "distributed/test_hostile_peers.py": "a whole server and what any peer may send it",
    "distributed/test_kills.py": "training while a task or the client is killed",
    "distributed/test_many_sessions.py": "the footprint of clients and servers",
    "kernels/cpu/conv/test_random_windows.py": "one drawn window through every kernel of the room",
    "kernels/cpu/test_templates_against_tensorflow.py": "the same special values, every template",
    "kernels/cpu/test_vector_code_of_templates.py": "the machine code of every template",
}


def room_tests() -> list[Path]:
    """Return the test files of all layers."""
    return sorted(path for layer in LAYERS for path in (TESTS / layer).rglob("test_*.py"))


def names_a_module(path: Path) -> bool:
    """Return whether `test_<module>.py` or `test_<module>_<subject>.py` names a module beside it.

    The room itself may stand for the module: `client/rnn/test_rnn.py`.
    """
    layer, *rooms = path.parent.relative_to(TESTS).parts
    source = LAYERS[layer].joinpath(*rooms)
    if not source.is_dir():
        return False
    modules = {file.stem for file in source.glob("*.py")} | {source.name}
    subject = path.stem.removeprefix("test_")
    return any(subject == module or subject.startswith(f"{module}_") for module in modules)


def test_each_test_of_a_room_names_a_module_of_the_room() -> None:
    lost = {path.relative_to(TESTS).as_posix() for path in room_tests() if not names_a_module(path)}
    assert lost == set(OF_A_ROOM)


@pytest.mark.parametrize("layer", LAYERS)
def test_every_layer_has_tests(layer: str) -> None:
    """The test above would pass on folders that were moved away."""
    assert any(path.is_relative_to(TESTS / layer) for path in room_tests())


def test_nothing_is_imported_from_a_test_module() -> None:
    """Text that tests hand to other processes counts, too."""
    wrong = [
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for path in sorted(TESTS.rglob("*.py"))
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.match(
            r"\s*(from tests[.\w]*\.test_\w+ import|from tests[.\w]* import .*\btest_)", line
        )
        or re.match(r"\s*import (tests[.\w]*\.)?test_\w+", line)
    ]
    assert not wrong, "\n".join(wrong)


def test_a_helper_holds_no_tests() -> None:
    """pytest collects `test_*.py` only: a test elsewhere would never run."""
    for path in TESTS.rglob("*.py"):
        if not path.name.startswith("test_") and path.name != "conftest.py":
            tree = ast.parse(path.read_text(encoding="utf-8"))
            tests = [n.name for n in tree.body if isinstance(n, ast.FunctionDef)]
            assert not [name for name in tests if name.startswith("test_")], path
