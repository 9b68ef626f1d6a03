"""Error classes against TensorFlow's."""

from __future__ import annotations

import pickle

import pytest
import tensorflow as tf

from tfjit.framework import errors
from tfjit.framework.graphs.graph import Graph
from tfjit.framework.op_defs.op_registry import register_op, registry
from tfjit.framework.types import dtypes

NAMES = sorted(
    name
    for name in dir(tf.errors)
    if isinstance(getattr(tf.errors, name), type)
    and issubclass(getattr(tf.errors, name), tf.errors.OpError)
)


def test_all_seventeen_are_here() -> None:
    assert len(NAMES) == 17


@pytest.mark.parametrize("name", [n for n in NAMES if n != "OpError"])
def test_class_and_code(name: str) -> None:
    ours, theirs = getattr(errors, name), getattr(tf.errors, name)
    mine, other = ours(None, None, "what"), theirs(None, None, "what")
    assert isinstance(mine, errors.OpError)
    assert (mine.error_code, mine.message, mine.op, mine.node_def) == (
        other.error_code,
        other.message,
        None,
        None,
    )
    assert str(mine) == str(other) == "what"
    assert errors.exception_type_from_error_code(mine.error_code) is ours
    assert errors.error_code_from_exception_type(ours) == mine.error_code
    again = pickle.loads(pickle.dumps(mine))
    assert type(again) is type(mine) and again.message == "what"
    # TensorFlow's, from the first session on that this process makes beside TensorFlow
    assert type(mine) in (ours, theirs) and isinstance(mine, ours)


@pytest.mark.parametrize(
    "name", [n for n in dir(tf.errors) if isinstance(getattr(tf.errors, n), int) and n.isupper()]
)
def test_codes(name: str) -> None:
    assert getattr(errors, name) == getattr(tf.errors, name)


def test_building_errors_are_value_errors_too() -> None:
    assert issubclass(errors.InvalidGraphError, ValueError)
    assert (
        errors.error_code_from_exception_type(errors.InvalidGraphError) == errors.INVALID_ARGUMENT
    )
    assert issubclass(errors.InvalidDtypeError, TypeError)


def test_unknown_codes() -> None:
    with pytest.raises(KeyError):
        errors.exception_type_from_error_code(99)
    with pytest.raises(KeyError):
        errors.error_code_from_exception_type(ValueError)  # type: ignore[arg-type]
    assert isinstance(errors.make_error(99, "x"), errors.UnknownError)
    assert isinstance(errors.make_error(5, "x"), errors.NotFoundError)


def test_text_says_where_the_op_was_built() -> None:
    if "NoOp" not in registry:
        register_op("NoOp")
    op = Graph().create_op("NoOp", name="here")
    error = errors.OpError(None, op, "failed", errors.INTERNAL)
    assert str(error).startswith("failed\n\nBuilt at ") and "test_errors.py:" in str(error)
    assert str(error).endswith(" in test_text_says_where_the_op_was_built")
    assert error.node_def.name == "here"
    theirs = tf.errors.InternalError(None, op, "failed")  # type: ignore[arg-type]
    assert "Original stack trace for 'here'" in str(theirs)
    assert ", in test_text_says_where_the_op_was_built" in str(theirs)
    assert dtypes.float32 is not None
