"""Checkpoints beside TensorFlow's: the same bytes written, TensorFlow's files read,
damage found.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from tfjit.framework import errors
from tfjit.framework.files.bundle import BundleReader, BundleWriter, merge_bundles
from tfjit.framework.files.crc32c import crc32c, numpy_crc32c
from tfjit.framework.files.slices import FULL, parse_slice_spec, slice_key
from tfjit.framework.files.sorted_table import read_table, write_table
from tfjit.framework.types.dtypes import as_dtype

tf1 = tf.compat.v1
SUFFIXES = (".data-00000-of-00001", ".index")


def tensorflow_saves(prefix: Path, values: list[tuple[str, str, Any]]) -> None:
    with tf1.Graph().as_default(), tf1.Session() as session:
        constants = {
            id(value): tf.constant(value)
            for value in {id(value): value for _, _, value in values}.values()
        }
        save = tf.raw_ops.SaveV2(
            prefix=str(prefix),
            tensor_names=[name for name, _, _ in values],
            shape_and_slices=[spec for _, spec, _ in values],
            tensors=[constants[id(value)] for _, _, value in values],
        )
        session.run(save)


def tfjit_saves(prefix: Path, values: list[tuple[str, str, Any]]) -> None:
    with BundleWriter(str(prefix)) as writer:
        for name, spec, value in values:
            if spec:
                writer.add_slice(name, *parse_slice_spec(spec), value)
            else:
                writer.add(name, value)
        writer.finish()


def assert_same_files(a: Path, b: Path) -> None:
    for suffix in SUFFIXES:
        assert (
            a.with_name(a.name + suffix).read_bytes() == b.with_name(b.name + suffix).read_bytes()
        ), suffix


def every_dtype() -> list[tuple[str, str, Any]]:
    rng = np.random.default_rng(0)
    kinds = [
        np.float32,
        np.float64,
        np.int8,
        np.int16,
        np.int32,
        np.int64,
        np.uint8,
        np.uint16,
        np.complex64,
        np.complex128,
        np.float16,
    ]
    values = [
        (f"of/{np.dtype(k).name}", "", (rng.standard_normal((3, 5)) * 10).astype(k)) for k in kinds
    ]
    values += [
        ("bfloat16", "", np.arange(7).astype(tf.bfloat16.as_numpy_dtype)),
        ("bool", "", np.array([True, False])),
        ("empty", "", np.zeros((0, 3), np.int32)),
        ("scalar", "", np.array(3.5)),
        ("string", "", np.array([[b"x", b""], [b"hello" * 100, b"\xff\0"]], object)),
        ("string/scalar", "", np.array(b"one", object)),
        ("umlaut/ä\x7f", "", np.ones(2, np.float32)),
    ]
    return values


def test_the_bytes_are_tensorflows(tmp_path: Path) -> None:
    values = every_dtype()
    tensorflow_saves(tmp_path / "tf", values)
    tfjit_saves(tmp_path / "own", values)
    assert_same_files(tmp_path / "tf", tmp_path / "own")
    reader = BundleReader(str(tmp_path / "tf"))
    assert reader.names() == sorted(name for name, _, _ in values)
    for name, _, value in values:
        np.testing.assert_array_equal(reader.read(name), value)
        assert reader.dtype_and_shape(name)[1] == value.shape
    names = [name for name, _, _ in values]
    dtypes = [reader.dtype_and_shape(name)[0] for name in names]
    small = reader.read_small(names, dtypes)
    for dtype, (_, _, value), found in zip(dtypes, values, small, strict=True):
        if dtype.name == "string":
            assert found is None
        else:
            assert found is not None
            assert found.dtype == value.dtype
            np.testing.assert_array_equal(found, value)
    assert reader.read_small(["scalar", "none"], [dtypes[0]] * 2) == [None, None]


def test_an_index_of_many_blocks(tmp_path: Path) -> None:
    arrays = [np.full(i % 5, i, np.float32) for i in range(35)]
    values = [(f"layer_{i:05d}/a/long/name/of/weights", "", arrays[i % 35]) for i in range(6000)]
    tensorflow_saves(tmp_path / "tf", values)
    tfjit_saves(tmp_path / "own", values)
    assert_same_files(tmp_path / "tf", tmp_path / "own")
    reader = BundleReader(str(tmp_path / "own"))
    assert len(reader.names()) == 6000
    assert reader.read("layer_05999/a/long/name/of/weights").tolist() == [14.0] * 4


def test_slices(tmp_path: Path) -> None:
    x = np.random.default_rng(1).standard_normal((300, 6)).astype(np.float32)
    values = [
        ("p", "300 6 0,200:-", x[:200]),
        ("p", "300 6 200,100:0,6", x[200:]),
        ("whole", "300 6 -:0,6", x),
    ]
    tensorflow_saves(tmp_path / "tf", values)
    tfjit_saves(tmp_path / "own", values)
    assert_same_files(tmp_path / "tf", tmp_path / "own")
    reader = BundleReader(str(tmp_path / "own"))
    assert reader.names() == ["p", "whole"]
    np.testing.assert_array_equal(reader.read("p"), x)
    for extents in (
        ((150, 100), (0, FULL)),
        ((0, 1), (5, 1)),
        ((0, FULL), (2, 3)),
        ((299, 1), (0, 6)),
    ):
        wanted = x[tuple(slice(a, None if n == FULL else a + n) for a, n in extents)]
        np.testing.assert_array_equal(reader.read_slice("p", (300, 6), extents), wanted)
        np.testing.assert_array_equal(reader.read_slice("whole", (300, 6), extents), wanted)
    with pytest.raises(
        errors.InvalidArgumentError,
        match=r"\[300,5\] does not match the shape stored in checkpoint: \[300,6\]",
    ):
        reader.read_slice("p", (300, 5), ((0, 1), (0, 5)))


@given(
    st.lists(st.tuples(st.integers(0, 1 << 40), st.integers(-1, 1 << 62)), max_size=4),
    st.text(max_size=8),
)
def test_keys_of_slices_sort_as_their_numbers(extents: list[tuple[int, int]], name: str) -> None:
    shifted = [(a + 1, b) for a, b in extents[:1]] + extents[1:]
    first, second = slice_key(name, tuple(extents)), slice_key(name, tuple(shifted))
    assert (first < second) is bool(extents)
    assert first[0] == 0


@settings(max_examples=30, deadline=None)
@given(st.dictionaries(st.binary(min_size=1, max_size=20), st.binary(max_size=200), max_size=60))
def test_a_table_gives_back_its_entries(entries: dict[bytes, bytes]) -> None:
    pairs = sorted(entries.items())
    assert list(read_table(write_table(pairs), "t")) == pairs


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_damaged_byte_is_an_error(tmp_path: Path, suffix: str) -> None:
    values = [
        ("a", "", np.arange(6, dtype=np.float32)),
        ("s", "", np.array([b"text", b""], object)),
    ]
    tfjit_saves(tmp_path / "c", values)
    path = tmp_path / ("c" + suffix)
    whole = path.read_bytes()
    # padding of the footer may differ
    unused = range(len(whole) - 48, len(whole) - 8) if suffix == ".index" else range(0)
    for at in range(len(whole)):
        if at in unused:
            continue
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        with pytest.raises(errors.OpError):
            reader = BundleReader(str(tmp_path / "c"))
            (a,) = reader.read_small(["a"], [as_dtype(np.float32)])
            assert a is None or a.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
            for name in ("a", "s"):
                reader.read(name)
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        with pytest.raises(errors.OpError):
            reader = BundleReader(str(tmp_path / "c"))
            for name in ("a", "s"):
                reader.read(name)


def test_merging(tmp_path: Path) -> None:
    x = np.arange(12, dtype=np.float32).reshape(4, 3)
    shards: list[list[tuple[str, str, Any]]] = [
        [("a", "", np.arange(3)), ("p", "4 3 0,2:-", x[:2])],
        [("b", "", np.array([b"x"], object)), ("p", "4 3 2,2:-", x[2:])],
    ]
    for by, saves in (("tf", tensorflow_saves), ("own", tfjit_saves)):
        for i, values in enumerate(shards):
            (tmp_path / by / f"part{i}").mkdir(parents=True)
            saves(tmp_path / by / f"part{i}" / "c", values)
    parts = {by: [str(tmp_path / by / f"part{i}" / "c") for i in range(2)] for by in ("tf", "own")}
    with tf1.Graph().as_default(), tf1.Session() as session:
        session.run(
            tf.raw_ops.MergeV2Checkpoints(
                checkpoint_prefixes=parts["tf"],
                destination_prefix=str(tmp_path / "tf" / "all"),
                delete_old_dirs=False,
            )
        )
    merge_bundles(parts["own"], str(tmp_path / "own" / "all"))
    for name in ("all.data-00000-of-00002", "all.data-00001-of-00002"):
        assert (tmp_path / "tf" / name).read_bytes() == (tmp_path / "own" / name).read_bytes()
    for by in ("tf", "own"):
        reader = BundleReader(str(tmp_path / by / "all"))
        assert reader.names() == ["a", "b", "p"]
        np.testing.assert_array_equal(reader.read("p"), x)
        assert reader.read("b").tolist() == [b"x"]
        assert np.array_equal(
            tf1.train.NewCheckpointReader(str(tmp_path / by / "all")).get_tensor("a"), np.arange(3)
        )


def test_a_failed_save_leaves_what_was_there(tmp_path: Path) -> None:
    tfjit_saves(tmp_path / "c", [("a", "", np.ones(2))])
    with pytest.raises(errors.InvalidArgumentError, match="duplicate key: a"):
        tfjit_saves(tmp_path / "c", [("a", "", np.zeros(2)), ("a", "", np.zeros(2))])
    assert BundleReader(str(tmp_path / "c")).read("a").tolist() == [1, 1]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["c" + s for s in SUFFIXES]


def test_crc32c() -> None:
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(b"") == 0
    data = np.random.default_rng(0).integers(0, 256, 700_001, np.uint8).tobytes()
    whole = numpy_crc32c(memoryview(data))
    for cut in (0, 1, 13, 262_143, 262_144, 262_145, 700_001):
        assert numpy_crc32c(memoryview(data[cut:]), numpy_crc32c(memoryview(data[:cut]))) == whole
    assert crc32c(data) == whole
