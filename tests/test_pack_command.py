"""The arguments of `tfjit pack`, and packs in the other commands."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tfjit import pack_command
from tfjit.arguments import UsageError, read_model_of
from tfjit.cli import main
from tfjit.client.packing.packer import _content
from tfjit.client.packing.recorder import RunRequest
from tfjit.client.session.pack_file import write_pack
from tfjit.kernels.jit import target

DIGITS = Path(__file__).resolve().parent.parent / "tfjit" / "demo" / "digits_cnn.pb"


def requests(
    model: Path, feeds: list[str], fetches: list[str], signature: str = ""
) -> list[RunRequest]:
    return pack_command._requests(read_model_of(str(model)), feeds, fetches, signature)


def test_shapes_of_one_feed_are_plans() -> None:
    found = requests(DIGITS, ["images=1,8,8,1", "images:0=16,8,8,1"], ["probs:0", "probs:0"])
    assert found == [
        RunRequest({"images:0": (1, 8, 8, 1)}, ("probs:0",)),
        RunRequest({"images:0": (16, 8, 8, 1)}, ("probs:0",)),
    ]
    assert str(found[0]) == "probs:0 for images:0=[1, 8, 8, 1]"


def test_feeds_are_combined_by_position(tmp_path: Path) -> None:
    np.save(tmp_path / "b.npy", np.arange(3))
    first, second = requests(
        DIGITS, ["a=1", "a=2", f"b={tmp_path / 'b.npy'}", "c=scalar"], ["probs:0"]
    )
    assert (first.feeds["a:0"], second.feeds["a:0"], first.feeds["c:0"]) == ((1,), (2,), ())
    for found in (first, second):
        assert np.array_equal(found.feeds["b:0"], np.arange(3))
    with pytest.raises(UsageError, match=r"--feed b:0: 2 shapes, and another feed has 3"):
        requests(DIGITS, ["a=1", "a=2", "a=3", "b=1", "b=2"], ["probs:0"])


def test_names_of_a_signature(data_dir: Path) -> None:
    model = data_dir / "lstm_saved_model"
    (found,) = requests(model, ["keras_tensor_156=2,20,8"], [])
    assert found.fetches == ("StatefulPartitionedCall_1:0",)
    assert found.feeds == {"serving_default_keras_tensor_156:0": (2, 20, 8)}
    (found,) = requests(model, ["keras_tensor_156=2,20,8"], ["output_0"], "serve")
    assert found.fetches == ("StatefulPartitionedCall:0",)
    assert found.feeds == {"serve_keras_tensor_156:0": (2, 20, 8)}
    with pytest.raises(UsageError, match="--signature other: the model has __saved_model_init_op"):
        requests(model, [], [], "other")


def test_levels() -> None:
    assert pack_command._levels(["v3", "x86-64-v4", "v3"]) == ["x86-64-v3", "x86-64-v4"]
    if target.levels_here():
        assert pack_command._levels([]) == [target.levels_here()[0]]
    with pytest.raises(UsageError, match="--cpu avx2: expected one of x86-64-v2, x86-64-v3"):
        pack_command._levels(["avx2"])


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ([], "nothing to fetch: name at least one tensor"),
        (["--fetch", "probs:0", "--feed", "images"], "--feed images: expected NAME=SIZES"),
        (["--fetch", "probs:0", "--feed", "images=no.npy"], "there is no file no.npy"),
        (["--fetch", "probs:0", "--processes", "-1"], "expected a positive number"),
        (["--fetch", "probs:0", "--cpu", "v9"], "--cpu v9: expected one of"),
        (["--fetch", "probs:0", "-o", "/no/such/folder/x"], "in a folder that exists"),
    ],
)
def test_wrong_arguments(
    arguments: list[str], reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["pack", str(DIGITS), "-o", str(tmp_path / "out"), *arguments]
    assert main(given) == 2
    assert reason in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_other_commands_take_packs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "digits.tfjit"
    manifest, entries = _content(read_model_of(str(DIGITS)))
    write_pack(path, manifest, entries)
    assert main(["inspect", str(path)]) == 0
    out = capsys.readouterr().out
    assert f"{path}: pack of a GraphDef, " in out and "no kernels serve: there are none" in out
    assert "1 entries match their digests" in out and "images:0  float32" in out
    images = f"images={DIGITS.parent / 'digits.npz'}:test_images"
    assert main(["run", str(path), "--feed", images, "--fetch", "probs:0"]) == 0
    assert "probs:0: float32 [297, 10]" in capsys.readouterr().out
    assert main(["pack", str(path), "--fetch", "probs:0", "-o", str(tmp_path / "again")]) == 2
    assert "is a pack already" in capsys.readouterr().err
    path.write_bytes(path.read_bytes()[:-5])
    assert main(["inspect", str(path)]) == 1
    assert "damaged or truncated pack" in capsys.readouterr().err
