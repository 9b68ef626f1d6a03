"""Run input pipelines of one graph by both libraries and compare all elements."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

import tfjit
from tests.runtime.error_texts import cause

tf1 = tf.compat.v1
D = tf1.data.Dataset

MOST = 80


def drained(session: Any, fetches: Any, most: int = MOST) -> list[Any]:
    """All elements; errors as (class, text), up to the end of the sequence."""
    found: list[Any] = []
    while len(found) < most:
        try:
            found.append(session.run(fetches))
        except Exception as error:
            found.append((type(error).__name__, _text(error)))
            if type(error).__name__ == "OutOfRangeError":
                break
    return found


def _text(error: Exception) -> str:
    # TensorFlow names the iterator's stages of a failing function before the error itself
    text = cause(error)
    return text.partition("Iterator::")[2].partition(": ")[2] if "Iterator::" in text else text


def compare(pipelines: Mapping[str, Callable[[], Any]], passes: int = 2) -> None:
    """Compare the elements of several passes over each of the datasets."""
    graph = tf1.Graph()
    with graph.as_default():
        made = {}
        for name, make in pipelines.items():
            iterator = tf1.data.make_initializable_iterator(make())
            made[name] = iterator.initializer, iterator.get_next()
    found: list[dict[str, Any]] = []
    for kind in (tf1.Session, tfjit.Session):
        with kind(graph=graph) as session:
            of_session: dict[str, Any] = {}
            for name, (initializer, fetches) in made.items():
                of_session[name] = []
                for _ in range(passes):
                    try:
                        session.run(initializer)
                    except Exception as error:
                        of_session[name].append((type(error).__name__, _text(error)))
                        continue
                    of_session[name].append(drained(session, fetches))
            found.append(of_session)
    for name in pipelines:
        np.testing.assert_equal(found[1][name], found[0][name], name)
        _check_dtypes(found[1][name], found[0][name])


def _check_dtypes(ours: Any, theirs: Any) -> None:
    if isinstance(theirs, (list, tuple)):
        for one, other in zip(ours, theirs, strict=True):
            _check_dtypes(one, other)
    elif isinstance(theirs, (np.ndarray, np.generic)):
        assert ours.dtype == theirs.dtype


def variant(make: Callable[..., Any], *inputs: Any, spec: Any = None, **attrs: Any) -> Any:
    """The dataset of a raw op over datasets, of int64 scalars by default."""
    from tensorflow.python.data.ops import dataset_ops

    spec = tf.TensorSpec([], tf.int64) if spec is None else spec
    specs = tf.nest.flatten(spec)
    return dataset_ops._VariantDataset(
        make(
            *inputs,
            output_types=[one.dtype for one in specs],
            output_shapes=[one.shape for one in specs],
            **attrs,
        ),
        spec,
    )
