"""Reading models: which kind a file holds, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from google.protobuf import text_format
from google.protobuf.message import Message

from tfjit.client.session.model_file import read_model
from tfjit.framework import errors
from tfjit.protos import GraphDef, MetaGraphDef, SavedModel


@pytest.fixture
def digits(demo_dir: Path) -> Path:
    return demo_dir / "digits_cnn.pb"


def test_read_model_tells_the_kinds_apart(data_dir: Path, digits: Path) -> None:
    assert read_model(digits).kind == "GraphDef"
    assert read_model(data_dir / "mobilenet_v2.pb").kind == "GraphDef"
    meta = read_model(data_dir / "digits_train.meta")
    assert (
        meta.kind == "MetaGraphDef"
        and isinstance(meta.message, MetaGraphDef)
        and len(meta.graph_def.node) == 300
    )
    saved = read_model(data_dir / "lstm_saved_model")
    assert saved.kind == "SavedModel" and "serving_default" in saved.signatures
    assert (
        read_model(data_dir / "lstm_saved_model" / "saved_model.pb").size_bytes == saved.size_bytes
    )


def test_read_model_goes_by_content_not_by_name(data_dir: Path, tmp_path: Path) -> None:
    for name, kind in (
        ("digits_train.meta", "MetaGraphDef"),
        ("mandelbrot_v1_loop.pb", "GraphDef"),
        ("lstm_saved_model/saved_model.pb", "SavedModel"),
    ):
        copy = tmp_path / "model.bin"
        copy.write_bytes((data_dir / name).read_bytes())
        assert read_model(copy).kind == kind


def test_read_model_takes_text(data_dir: Path, demo_dir: Path, tmp_path: Path) -> None:
    sources: dict[Path, Message] = {
        demo_dir / "digits_cnn.pb": GraphDef(),
        data_dir / "digits_train.meta": MetaGraphDef(),
        data_dir / "lstm_saved_model" / "saved_model.pb": SavedModel(),
    }
    for source, message in sources.items():
        message.ParseFromString(source.read_bytes())
        if isinstance(message, SavedModel):
            # may hold an Any, whose text names a message of TensorFlow's package
            message.meta_graphs[0].ClearField("object_graph_def")
        text = tmp_path / "model.pbtxt"
        text.write_text(text_format.MessageToString(message), encoding="utf-8")
        assert read_model(text).kind == message.DESCRIPTOR.name


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00",
        b"not a model",
        b"\xff" * 100,
        b"\n\x00",
        GraphDef().SerializeToString(deterministic=True),
    ],
)
def test_read_model_refuses_other_files(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x.pb"
    path.write_bytes(content)
    with pytest.raises(errors.InvalidArgumentError, match="x.pb"):
        read_model(path)


def test_read_model_refuses_a_truncated_graph(digits: Path, tmp_path: Path) -> None:
    path = tmp_path / "cut.pb"
    path.write_bytes(digits.read_bytes()[:20_000])
    with pytest.raises(
        errors.InvalidArgumentError, match=r"cut.pb \(20000 bytes\) cannot be parsed as a GraphDef"
    ):
        read_model(path)


def test_read_model_refuses_a_folder_without_model(tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="saved_model.pb"):
        read_model(tmp_path)


def test_read_model_refuses_bad_text(tmp_path: Path) -> None:
    path = tmp_path / "x.pbtxt"
    path.write_text("node { nam: 'x' }", encoding="utf-8")
    with pytest.raises(errors.InvalidArgumentError, match='no field named "nam"'):
        read_model(path)
