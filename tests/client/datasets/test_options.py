"""Options of datasets."""

from __future__ import annotations

import pytest

import tfjit


def test_options_are_merged_along_a_pipeline() -> None:
    first, second = tfjit.data.Options(), tfjit.data.Options()
    first.deterministic, first.threading.private_threadpool_size = False, 3
    second.experimental_optimization.map_fusion = True
    with tfjit.Graph().as_default():
        dataset = tfjit.data.Dataset.range(3).with_options(first).map(lambda x: x)
        found = dataset.with_options(second).batch(2).options()
        assert tfjit.data.Dataset.range(3).options() == tfjit.data.Options()
        with pytest.raises(ValueError, match="Expected tf.data.Options"):
            dataset.with_options(3)
    assert found.deterministic is False and found.threading.private_threadpool_size == 3
    assert found.experimental_optimization.map_fusion


def test_unknown_options_are_refused() -> None:
    with pytest.raises(AttributeError, match="Cannot set the property detrministic"):
        tfjit.data.Options().detrministic = True
