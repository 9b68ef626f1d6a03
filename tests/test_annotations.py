"""Hold limits on annotations with `Any` that only ever fall.

A change that lowers a count lowers its limit here. Instead of Any: a precise type, an alias of
`tfjit/framework/graphs/typing.py`, `object` for a value that is only passed on.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator

import pytest

from tests.prose_counts import source_files

# Layer -> annotations of arguments, results and names that mention Any.
LIMITS = {
    "framework": 543,
    "kernels": 829,
    "passes": 120,
    "runtime": 774,
    "ops": 261,
    "client": 659,
    "lab": 13,
}


def annotations(tree: ast.Module) -> Iterator[ast.expr]:
    """Yield the annotations of arguments, results and names."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            found = node.returns
        elif isinstance(node, (ast.arg, ast.AnnAssign)):
            found = node.annotation
        else:
            continue
        if found is not None:
            yield found


def has_any(annotation: ast.expr) -> bool:
    """Return whether an annotation mentions Any."""
    return any(isinstance(node, ast.Name) and node.id == "Any" for node in ast.walk(annotation))


def count(layer: str) -> int:
    """Return the number of a layer's annotations that mention Any."""
    trees = (ast.parse(path.read_text("utf-8"), str(path)) for path in source_files(layer))
    return sum(has_any(annotation) for tree in trees for annotation in annotations(tree))


@pytest.mark.parametrize("layer", LIMITS)
def test_annotations_with_any(layer: str) -> None:
    found, limit = count(layer), LIMITS[layer]
    assert found <= limit, (
        f"{layer}: {found} annotations mention Any, the limit is {limit}. Use a precise type, an "
        "alias of framework/graphs/typing.py, or object for a value that is only passed on."
    )
    if found < 0.9 * limit:
        warnings.warn(f"{layer}: lower the limit from {limit} to {found}", stacklevel=2)


def test_what_is_counted() -> None:
    source = "def f(a: Any, *b: list[Any], c: int, **d: object) -> Any | None:\n    x: Any = 1\n"
    found = [has_any(annotation) for annotation in annotations(ast.parse(source))]
    assert sorted(found) == [False, False, True, True, True, True]
