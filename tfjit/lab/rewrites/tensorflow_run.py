"""Ask TensorFlow for the values of a run, in another process."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from tfjit.client.session.model_file import ModelFile, read_model
from tfjit.framework.errors import FailedPreconditionError, UnimplementedError
from tfjit.framework.graphs.graph import Graph

if TYPE_CHECKING:
    from tfjit.framework.graphs.typing import Message

_PROGRAM: Final = """
import json, sys
import numpy as np
import tensorflow as tf
tf1 = tf.compat.v1
tf1.disable_eager_execution()
folder, fetches, first, tags, model = json.loads(sys.argv[1])
feeds = dict(np.load(folder + "/feeds.npz", allow_pickle=False))
names = json.load(open(folder + "/names.json"))
with tf1.Graph().as_default(), tf1.Session() as session:
    if tags is not None:
        tf1.saved_model.load(session, tags, model)
    else:
        graph_def = tf1.GraphDef()
        graph_def.ParseFromString(open(folder + "/graph.pb", "rb").read())
        tf1.import_graph_def(graph_def, name="")
    for name in first:
        session.run(name)
    fed = {name: feeds[key] for key, name in names.items()}
    values = session.run(fetches, fed)
made = {f"v{k}": value for k, value in enumerate(values) if value is not None}
np.savez(folder + "/values.npz", **made)
"""
_TIME_LIMIT_S: Final = 600


def tensorflow_values(
    subject: object, fetches: Sequence[str], feeds: Mapping[str, object], first: Sequence[str]
) -> list[np.ndarray | None]:
    """Return TensorFlow's values of fetches, None for operations.

    Raises FailedPreconditionError with its last lines where TensorFlow is missing or fails,
    UnimplementedError for values that no file holds, such as strings of various lengths.
    """
    import json

    if isinstance(subject, (str, Path)):
        subject = read_model(subject)
    tags, model = None, ""
    if isinstance(subject, ModelFile) and subject.kind == "SavedModel":
        tags, model = subject.tags, str(subject.path.parent)
    arrays = {f"a{k}": np.asarray(value) for k, value in enumerate(feeds.values())}
    if any(array.dtype == object for array in arrays.values()):
        raise UnimplementedError(None, None, "strings are not fed to TensorFlow for a comparison")
    with tempfile.TemporaryDirectory() as folder:
        at = Path(folder)
        if tags is None:
            (at / "graph.pb").write_bytes(_graph_def(subject).SerializeToString())
        np.savez(at / "feeds.npz", **arrays)  # type: ignore[arg-type]
        (at / "names.json").write_text(json.dumps(dict(zip(arrays, feeds, strict=True))))
        given = json.dumps([folder, list(fetches), list(first), tags, model])
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM, given],
            capture_output=True,
            text=True,
            timeout=_TIME_LIMIT_S,
            check=False,
        )
        if done.returncode:
            last = "\n".join(done.stderr.splitlines()[-4:])
            raise FailedPreconditionError(None, None, f"TensorFlow does not run this: {last}")
        with np.load(at / "values.npz", allow_pickle=False) as values:
            return [values.get(f"v{k}") for k in range(len(fetches))]


def _graph_def(subject: object) -> Message:
    if isinstance(subject, ModelFile):
        return subject.graph_def
    if isinstance(subject, Graph):
        return subject.as_graph_def()
    return getattr(subject, "graph_def", subject)


__all__ = ["tensorflow_values"]
