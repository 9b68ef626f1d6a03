"""Names that programs use in passing: printing, versions, files beside a module, constants."""

from __future__ import annotations

import sys
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
import tensorflow

import tfjit
from tests.client.variables.same_graphs import nodes

tf1 = tensorflow.compat.v1


def printed(tf: Any, path: str) -> list[Any]:
    """Return operations that print."""
    x, text = tf.constant([[1, 2, 3, 4], [5, 6, 7, 8]]), tf.constant("text")
    sparse = tf.SparseTensor([[0, 1]], [2.5], [1, 3])
    file = {"output_stream": f"file://{path}"}
    return [
        tf.print(text, **file),
        tf.print("x:", x, "{} and", 2.5, sep="|", summarize=1, name="named", **file),
        tf.print({"b": x, "a": [text, (1, "s")]}, sparse, end="!\n", **file),
        tf.print(OrderedDict([("z", text), ("y", x)]), **file),
        tf.print("nothing", output_stream=sys.stdout),
        tf.print(x, output_stream=tf.logging.info),
    ]


def test_print(tmp_path: Path) -> None:
    found: list[Any] = []
    for tf in (tf1, tfjit):
        path = tmp_path / "out"
        with tf.Graph().as_default() as graph, tf.Session() as session:
            for operation in printed(tf, str(path))[:4]:
                session.run(operation)
            found.append((nodes(graph), path.read_text()))
        path.unlink()
        raised = []
        for arguments in ({"output_stream": 3}, {"stream": 3}):
            with tf.Graph().as_default(), pytest.raises(ValueError) as error:
                tf.print("x", **arguments)
            raised.append(str(error.value).partition("Supported")[0])
        found[-1] += (raised,)
    assert found[1] == found[0]


def test_versions_and_constants() -> None:
    assert tfjit.VERSION == tfjit.version.VERSION == tfjit.__version__
    for name in ("GRAPH_DEF_VERSION", "GRAPH_DEF_VERSION_MIN_CONSUMER"):
        assert getattr(tfjit, name) == getattr(tf1, name)
    for kind in ("constants", "tag_constants", "signature_constants"):
        theirs = getattr(tf1.saved_model, kind)
        for name in dir(theirs):
            if not name.startswith("_"):
                ours = getattr(getattr(tfjit.saved_model, kind), name)
                assert ours == getattr(theirs, name), name
    for name in ("bytes_or_text_types", "integral_types", "real_types", "complex_types"):
        assert getattr(tfjit.compat, name) == getattr(tf1.compat, name)
    assert tfjit.get_logger() is tf1.get_logger()


def test_files_beside_a_module() -> None:
    folder = str(Path(__file__).parent)
    loader = tfjit.resource_loader
    assert loader.get_data_files_path() == folder
    assert loader.get_path_to_datafile("a") == tf1.resource_loader.get_path_to_datafile("a")
    assert loader.load_resource(Path(__file__).name).startswith(b'"""Names')
    assert loader.get_root_dir_with_all_resources() == folder
    assert loader.readahead_file_path("a") == "a"


def structures(tf: Any) -> list[Any]:
    """Return results and errors of `tf.nest`."""
    nest = tf.nest
    nested = {"b": [1, (2, 3)], "a": 4}
    found = [nest.flatten(nested), nest.is_nested(nested), nest.is_nested("a")]
    found.append(nest.map_structure(lambda x, y: x + y, nested, nested))
    found.append(nest.pack_sequence_as(nested, [4, 1, 2, 3]))
    nest.assert_same_structure([1, 2], (1, 2), check_types=False)
    sparse = tf.SparseTensor([[0]], [1.0], [3])
    parts = nest.flatten([sparse, 1], expand_composites=True)
    made = nest.pack_sequence_as([sparse, 1], parts, expand_composites=True)
    found += [len(parts), type(made[0]).__name__, made[1]]
    doubled = nest.map_structure(tf.identity, [sparse], expand_composites=True)
    found.append(type(doubled[0]).__name__)
    for case in (
        lambda: nest.pack_sequence_as([1, 2], [1]),
        lambda: nest.pack_sequence_as([1, 2], 1),
        lambda: nest.assert_same_structure([1, 2], (1, 2)),
        lambda: nest.assert_same_structure([1, 2], [1]),
        lambda: nest.map_structure(abs),
        lambda: nest.map_structure(3, [1]),
        lambda: nest.map_structure(abs, [1], other=1),
    ):
        with pytest.raises((TypeError, ValueError)) as error:
            case()
        found.append(type(error.value))
    return found


def test_nest() -> None:
    found = []
    for tf in (tf1, tfjit):
        with tf.Graph().as_default():
            found.append(structures(tf))
    assert found[1] == found[0]
