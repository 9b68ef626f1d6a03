"""Assertions on protocol buffer messages, and on graphs."""

from __future__ import annotations

import difflib
import unittest
from typing import TYPE_CHECKING

from google.protobuf import json_format, text_format

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Message


class MessageAssertions(unittest.TestCase):
    """Assertions on protocol buffer messages."""

    def assertProtoEquals(
        self,
        expected_message_maybe_ascii: Message,
        validate_message: Message,
        msg: str | None = None,
        relative_tolerance: float | None = None,
    ) -> None:
        """Assert that a message equals another, or one in text format.

        relative_tolerance: of floating-point fields.
        """
        expected = expected_message_maybe_ascii
        if isinstance(expected, (str, bytes)):
            expected = text_format.Parse(expected, type(validate_message)())
        elif not isinstance(expected, type(validate_message)):
            raise AssertionError(
                f"Can't compare protos of type {type(expected)} and {type(validate_message)}."
            )
        if _same(expected, validate_message, relative_tolerance):
            return
        lines = difflib.unified_diff(
            text_format.MessageToString(expected).splitlines(True),
            text_format.MessageToString(validate_message).splitlines(True),
            "expected",
            "actual",
        )
        self.fail(self._formatMessage(msg, "The messages differ:\n" + "".join(lines)))

    def assertProtoEqualsVersion(
        self,
        expected: str,
        actual: Message,
        producer: int | None = None,
        min_consumer: int = 0,
        msg: str | None = None,
    ) -> None:
        """Assert that a graph equals one in text format of a version.

        producer: by default the version that graphs are made with.
        """
        from tfjit.framework.graphs.graph import PRODUCER

        made_by = PRODUCER if producer is None else producer
        versions = f"versions {{ producer: {made_by} min_consumer: {min_consumer} }};\n"
        self.assertProtoEquals(versions + expected, actual, msg=msg)


def _same(expected: Message, actual: Message, tolerance: float | None) -> bool:
    if tolerance is None:
        return bool(expected == actual)
    return _close(json_format.MessageToDict(expected), json_format.MessageToDict(actual), tolerance)


def _close(a: object, b: object, tolerance: float) -> bool:
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_close(a[key], b[key], tolerance) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(lambda x, y: _close(x, y, tolerance), a, b))
    if isinstance(a, float) and isinstance(b, float):
        return abs(a - b) <= tolerance * max(abs(a), abs(b))
    return a == b


def assert_equal_graph_def(
    actual: Message,
    expected: Message,
    checkpoint_v2: bool = False,
    hash_table_shared_name: bool = False,
) -> None:
    """Assert that two GraphDefs have the same nodes, in any order.

    checkpoint_v2: leave out names of temporary files of savers. hash_table_shared_name: leave out
    the shared names of tables. Versions and functions are not compared. Raises TypeError for other
    messages.
    """
    nodes = []
    for name, graph in (("actual", actual), ("expected", expected)):
        if type(graph).__name__ != "GraphDef":
            raise TypeError(f"Expected tf.GraphDef for {name}, got {type(graph).__name__}")
        nodes.append(
            {
                node.name: _stripped(node, checkpoint_v2, hash_table_shared_name)
                for node in graph.node
            }
        )
    ours, theirs = nodes
    for name in theirs:
        if name not in ours:
            raise AssertionError(f"Did not find expected node '{name}'")
    for name, node in ours.items():
        if name not in theirs:
            raise AssertionError(f"Found unexpected node '{name}'")
        if node != theirs[name]:
            raise AssertionError(
                f"Node named '{name}' differs: expected\n{theirs[name]}\nactual\n{node}"
            )


def _stripped(node: Message, checkpoint_v2: bool, hash_table_shared_name: bool) -> Message:
    copy = type(node)()
    copy.CopyFrom(node)
    if hash_table_shared_name and node.op in ("HashTable", "HashTableV2"):
        copy.attr.pop("shared_name", None)
    if (
        checkpoint_v2
        and node.op == "Const"
        and "_temp_" in str(node.attr["value"].tensor.string_val)
    ):
        copy.attr.pop("value", None)
    control = sorted(name for name in node.input if name.startswith("^"))
    data = [name for name in node.input if not name.startswith("^")]
    del copy.input[:]
    copy.input.extend([*data, *control])
    return copy
