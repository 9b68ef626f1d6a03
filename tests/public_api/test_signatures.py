"""Every public function and class takes the arguments that TensorFlow 1's takes, by name and by
place.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterator
from typing import Any

import pytest
import tensorflow
from tensorflow.python.util import tf_decorator

import tfjit

tf1 = tensorflow.compat.v1

SPACES = (
    *(
        "",
        "app",
        "bitwise",
        "debugging",
        "dtypes",
        "errors",
        "flags",
        "gfile",
        "image",
        "initializers",
        "io",
        "linalg",
        "logging",
        "lookup",
        "losses",
        "manip",
        "metrics",
        "queue",
        "graph_util",
        "nest",
        "resource_loader",
        "sets",
        "test",
    ),
    *(
        "lookup.experimental",
        "math",
        "nn",
        "nn.rnn_cell",
        "python_io",
        "random",
        "signal",
        "spectral",
        "audio",
        "quantization",
        "saved_model",
        "saved_model.builder",
    ),
    *(
        "saved_model.loader",
        "saved_model.signature_def_utils",
        "saved_model.utils",
        "sparse",
        "strings",
        "summary",
        "train",
    ),
)
EXCEPTIONS = {
    "DType": "programs take dtypes by name or from as_dtype, never by their constructor",
}
KINDS = inspect.Parameter


def part(root: Any, path: str) -> Any:
    for name in path.split(".") if path else ():
        root = getattr(root, name, None)
    return root


def parameters(thing: Any) -> list[inspect.Parameter] | None:
    """Of a function, or of a class's constructor; None where there is no signature to see."""
    function = tf_decorator.unwrap(thing)[1]
    if inspect.isclass(function):
        function = tf_decorator.unwrap(inspect.unwrap(function.__init__))[1]
        if not inspect.isfunction(function):
            return None
        return list(inspect.signature(function).parameters.values())[1:]
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return None


def pairs() -> Iterator[tuple[str, list[inspect.Parameter], list[inspect.Parameter]]]:
    for space in SPACES:
        theirs, ours = part(tf1, space), part(tfjit, space)
        for name in dir(ours):
            path = f"{space}.{name}".strip(".")
            pair = getattr(theirs, name, None), getattr(ours, name)
            if (
                name.startswith("_")
                or name in EXCEPTIONS
                or pair[0] is None
                or not isinstance(pair[1], (types.FunctionType, type))
            ):
                continue
            if isinstance(pair[1], type) and issubclass(pair[1], Exception):
                continue
            found = parameters(pair[0]), parameters(pair[1])
            if found[0] is not None and found[1] is not None:
                yield path, found[0], found[1]


def by_place(all_of_them: list[inspect.Parameter]) -> list[str]:
    return [
        p.name
        for p in all_of_them
        if p.kind in (KINDS.POSITIONAL_OR_KEYWORD, KINDS.POSITIONAL_ONLY)
    ]


def test_every_argument_is_there() -> None:
    """With nothing left to a `**kwargs` that swallows what it does not know."""
    missing, compared = {}, 0
    for path, theirs, ours in pairs():
        compared += 1
        names = {p.name for p in ours}
        lacking = [
            p.name
            for p in theirs
            if p.kind not in (KINDS.VAR_KEYWORD, KINDS.VAR_POSITIONAL) and p.name not in names
        ]
        if lacking:
            missing[path] = lacking
    assert compared > 800
    assert not missing


def test_arguments_stand_in_tensorflows_order() -> None:
    wrong = {}
    for path, theirs, ours in pairs():
        if any(p.kind is KINDS.VAR_POSITIONAL for p in (*theirs, *ours)):
            continue
        expected = by_place(theirs)
        if by_place(ours)[: len(expected)] != expected:
            wrong[path] = (expected, by_place(ours))
    assert not wrong


def test_required_arguments_are_required_there_too() -> None:
    """What TensorFlow gives a default may be left out here."""
    wrong = {}
    for path, theirs, ours in pairs():
        optional = {p.name for p in theirs if p.default is not KINDS.empty}
        required = {
            p.name
            for p in ours
            if p.default is KINDS.empty and p.kind is KINDS.POSITIONAL_OR_KEYWORD
        }
        if optional & required:
            wrong[path] = sorted(optional & required)
    assert not wrong


@pytest.mark.parametrize("name", ["exp", "atan2", "betainc"])
def test_generated_functions_show_their_arguments(name: str) -> None:
    assert by_place(list(inspect.signature(getattr(tfjit, name)).parameters.values())) == by_place(
        parameters(getattr(tf1, name)) or []
    )
