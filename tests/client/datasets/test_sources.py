"""Datasets of tensors, numbers and other datasets."""

from __future__ import annotations

from collections import namedtuple
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfjit
from tests.client.datasets.pipelines import check_pipelines

Dataset = tfjit.data.Dataset
Pair = namedtuple("Pair", "x y")
COLUMNS = {"b": [1, 2, 3], "a": np.array([b"x", b"y", b"z"])}
CHOICES = np.array([0, 1, 1, 0, 0, 0, 1], np.int64)


def numbers(tf: Any) -> list[Any]:
    return [tf.data.Dataset.range(30), tf.data.Dataset.range(100, 130)]


def test_elements_are_tensorflows() -> None:
    check_pipelines(
        {
            "range": lambda tf: tf.data.Dataset.range(2, 9, 3),
            "slices": lambda tf: tf.data.Dataset.from_tensor_slices(
                (np.arange(6.0).reshape(3, 2), COLUMNS)
            ),
            "a list is a tensor": lambda tf: tf.data.Dataset.from_tensors(
                Pair(np.int32(3), [1, 2])
            ),
            "zip": lambda tf: tf.data.Dataset.zip(
                (tf.data.Dataset.range(3), {"a": tf.data.Dataset.range(5)})
            ),
            "zip of arguments": lambda tf: tf.data.Dataset.zip(*numbers(tf)),
            "counter": lambda tf: tf.data.Dataset.counter(5, -2).take(4),
            "random": lambda tf: tf.data.Dataset.random(seed=4).take(5),
            "choices": lambda tf: tf.data.Dataset.choose_from_datasets(
                numbers(tf), tf.data.Dataset.from_tensor_slices(CHOICES)
            ),
            "samples": lambda tf: tf.data.Dataset.sample_from_datasets(
                numbers(tf), [0.3, 0.7], seed=5
            ).take(20),
            "samples of equal weight": lambda tf: tf.data.Dataset.sample_from_datasets(
                numbers(tf), seed=5
            ).take(20),
        }
    )


def test_files_by_pattern(tmp_path: Path) -> None:
    for name in ("b.txt", "a.txt", "c.csv"):
        (tmp_path / name).write_text(name)
    pattern = str(tmp_path / "*.txt")
    check_pipelines(
        {
            "sorted": lambda tf: tf.data.Dataset.list_files(pattern, shuffle=False),
            "shuffled": lambda tf: tf.data.Dataset.list_files(pattern, seed=1),
        }
    )


def test_faulty_arguments() -> None:
    with tfjit.Graph().as_default():
        with pytest.raises(ValueError, match="rank >= 1"):
            Dataset.from_tensor_slices(3)
        with pytest.raises(ValueError, match="should not be empty"):
            Dataset.from_tensor_slices(())
        with pytest.raises(ValueError, match="Dimension"):
            Dataset.from_tensor_slices(([1, 2], [1, 2, 3]))
        with pytest.raises(ValueError, match="between 1 and 3"):
            Dataset.range()
        with pytest.raises(TypeError, match="at least one dataset"):
            Dataset.zip()
        with pytest.raises(TypeError, match="encountered object of type <class 'int'>"):
            Dataset.zip((Dataset.range(3), 4))
        with pytest.raises(TypeError, match="must be scalar"):
            Dataset.choose_from_datasets(numbers(tfjit), Dataset.from_tensors([1.0]))
        with pytest.raises(tfjit.errors.UnimplementedError, match="snapshot"):
            Dataset.range(3).snapshot("folder")
