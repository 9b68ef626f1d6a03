"""The command line: what each command prints, and how it ends on bad input."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tfjit.cli import main
from tfjit.protos import GraphDef


def call(*argv: str | Path) -> int:
    """The exit code of `tfjit argv`, argparse's own included."""
    try:
        return main([str(argument) for argument in argv])
    except SystemExit as stop:
        return int(stop.code or 0)


@pytest.fixture
def digits(demo_dir: Path) -> Path:
    return demo_dir / "digits_cnn.pb"


@pytest.fixture
def images(demo_dir: Path) -> str:
    return f"images={demo_dir / 'digits.npz'}:test_images"


def test_inspect_digits(digits: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("inspect", digits) == 0
    out = capsys.readouterr().out
    assert "GraphDef, 57.4 kB" in out and "33 nodes" in out
    assert "images:0  float32 [?, 8, 8, 1]" in out
    assert "probs:0  Softmax" in out
    assert "     2  Conv2D\n" in out


def test_inspect_counts_what_is_in_the_graph(
    data_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("inspect", data_dir / "mobilenet_v2.pb") == 0
    out = capsys.readouterr().out
    graph = GraphDef.FromString((data_dir / "mobilenet_v2.pb").read_bytes())
    rows = [line.split() for line in out.split("Ops:\n")[1].splitlines()]
    counts = {op: int(count.replace(",", "")) for count, op in rows}
    assert counts == {
        op: sum(node.op == op for node in graph.node) for op in {node.op for node in graph.node}
    }


def test_inspect_training_graph(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("inspect", data_dir / "digits_train.meta") == 0
    out = capsys.readouterr().out
    assert (
        "MetaGraphDef" in out
        and "  train  AssignAdd" in out
        and "  init  NoOp" in out
        and "  loss:0  Mean" in out
    )
    assert "conv1/w  float32 [3, 3, 1, 16]  (VariableV2)" in out and "... and 15 more" in out


def test_inspect_saved_model(data_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("inspect", data_dir / "lstm_saved_model") == 0
    out = capsys.readouterr().out
    assert "Signature serving_default:" in out and "method tensorflow/serving/predict" in out
    assert "out output_0 = StatefulPartitionedCall_1:0  float32 [?, 5]" in out
    assert "out __saved_model_init_op = NoOp  operation" in out
    assert "Ops (functions included):" in out


def test_inspect_loads_no_kernels_and_no_session(digits: Path) -> None:
    code = (
        f"import sys; from tfjit.cli import main; main(['inspect', {str(digits)!r}]); "
        "print(sorted(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for name in (
        "numba",
        "networkx",
        "tfjit.kernels.jit.store",
        "tfjit.runtime.session.direct_session",
    ):
        assert f"'{name}'" not in done.stderr


def test_run_prints_and_writes(
    digits: Path, images: str, demo_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        call(
            "run",
            digits,
            "--feed",
            images,
            "--fetch",
            "logits:0",
            "probs:0",
            "--out",
            tmp_path / "out",
        )
        == 0
    )
    assert "probs:0 float32 [297, 10]" in capsys.readouterr().out
    data = np.load(demo_dir / "digits.npz")
    logits = np.load(tmp_path / "out" / "logits_0.npy")
    np.testing.assert_allclose(logits, data["test_logits"], atol=1e-4, rtol=0)
    probs = np.load(tmp_path / "out" / "probs_0.npy")
    assert round(float(np.mean(probs.argmax(1) == data["test_labels"])), 4) == 0.9933

    assert call("run", digits, "--feed", images, "--fetch", "probs:0") == 0
    out = capsys.readouterr().out
    assert out.startswith("probs:0: float32 [297, 10], min ") and "\n[[" in out


def test_run_feeds_an_npy_file(
    digits: Path, demo_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(tmp_path / "images.npy", np.load(demo_dir / "digits.npz")["test_images"][:3])
    assert (
        call("run", digits, "--feed", f"images:0={tmp_path / 'images.npy'}", "--fetch", "probs:0")
        == 0
    )
    assert "[3, 10]" in capsys.readouterr().out


def test_run_writes_a_timeline(
    digits: Path, images: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "trace.json"
    assert call("run", digits, "--feed", images, "--fetch", "probs:0", "--trace", trace) == 0
    events = json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]
    assert any(event["ph"] == "X" and event["dur"] > 0 for event in events)
    assert any(
        event["name"] == "process_name" and "CPU:0" in event["args"]["name"] for event in events
    )
    assert "node runs" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "nothing to fetch"),
        (["--fetch", "probs:0", "--feed", "images"], "expected NAME=FILE.npy"),
        (["--fetch", "probs:0", "--feed", "=x.npy"], "expected NAME=FILE.npy"),
        (["--fetch", "probs:0", "--feed", "images=absent.npy"], "there is no file absent.npy"),
        (["--fetch", "probs:0", "--feed", "images={here}"], "is not an array that NumPy wrote"),
        (["--fetch", "probs:0", "--feed", "images={npz}"], "holds several arrays"),
        (["--fetch", "probs:0", "--feed", "images={npz}:absent"], "name one of them"),
        (
            [
                "--fetch",
                "probs:0",
                "--feed",
                "images={npz}:test_images",
                "images:0={npz}:test_images",
            ],
            "images:0 is fed twice",
        ),
        (["--fetch", "probs:0", "--trace", "absent/trace.json"], "there is no folder absent"),
        (["--fetch", "probs:0", "--out", "{here}"], "--out"),
        (["--unknown"], "unrecognized arguments"),
    ],
)
def test_run_refuses_a_wrong_command_line(
    options: list[str],
    message: str,
    digits: Path,
    demo_dir: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    filled = [option.format(here=__file__, npz=demo_dir / "digits.npz") for option in options]
    assert call("run", digits, *filled) == 2
    captured = capsys.readouterr()
    assert message in captured.err and captured.out == ""


def test_run_refuses_pickled_arrays(
    digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(tmp_path / "x.npy", np.array([{}], dtype=object), allow_pickle=True)
    assert call("run", digits, "--fetch", "probs:0", "--feed", f"images={tmp_path / 'x.npy'}") == 2
    assert "allow_pickle" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["run", "explain", "inspect"])
def test_no_such_model(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    fetch = [] if command == "inspect" else ["--fetch", "x:0"]
    assert call(command, "absent.pb", *fetch) == 2
    assert "there is no file or folder absent.pb" in capsys.readouterr().err


def test_a_broken_model_is_a_failure_not_a_usage_error(
    digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cut = tmp_path / "cut.pb"
    cut.write_bytes(digits.read_bytes()[:-10])
    for command in (["inspect"], ["run", "--fetch", "probs:0"], ["explain", "--fetch", "probs:0"]):
        assert call(command[0], cut, *command[1:]) == 1
        assert "InvalidArgumentError" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--fetch", "absent:0"], "absent"),
        (["--fetch", "probs:0"], "images"),
        (["--fetch", "probs:0", "--feed", "absent={npz}:test_images"], "absent"),
        (["--fetch", "probs:0", "--feed", "images={npz}:test_labels"], "images"),
    ],
)
def test_a_run_that_cannot_be_names_the_cause(
    options: list[str],
    message: str,
    digits: Path,
    demo_dir: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert (
        call("run", digits, *[option.format(npz=demo_dir / "digits.npz") for option in options])
        == 1
    )
    captured = capsys.readouterr()
    assert message in captured.err and "Traceback" not in captured.err and captured.out == ""


def test_a_saved_model_runs_by_the_names_of_its_signature(
    data_dir: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from tfjit.client.session.model_file import read_model

    signature = read_model(data_dir / "lstm_saved_model").signatures["serving_default"]
    (given,), (wanted,) = signature.inputs, signature.outputs
    feed = f"{given}={data_dir / 'lstm_saved_model.npz'}:inputs"
    assert (
        call(
            "run",
            data_dir / "lstm_saved_model",
            "--feed",
            feed,
            "--fetch",
            wanted,
            "--out",
            tmp_path,
        )
        == 0
    ), capsys.readouterr().err
    expected = np.load(data_dir / "lstm_saved_model.npz")["outputs"]
    np.testing.assert_allclose(np.load(tmp_path / f"{wanted}.npy"), expected, 1e-4, 1e-5)


def test_explain_names_passes_and_kernels(digits: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("explain", digits, "--fetch", "probs:0", "--shape", "images=4,8,8,1") == 0
    summary = capsys.readouterr().out
    assert "where the time goes" in summary and "memory: at most" in summary
    assert len(summary.splitlines()) < 60
    given = ["--fetch", "probs:0", "--shape", "images=4,8,8,1"]
    assert call("explain", digits, *given, "--details") == 0
    out = capsys.readouterr().out
    assert out.startswith(summary.partition("\nmemory:")[0])
    assert "prune" in out and "fuse" in out and "Conv2D" in out


def test_explain_measures(digits: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        call("explain", digits, "--fetch", "probs:0", "--shape", "images=4,8,8,1", "--measure") == 0
    )
    assert "where the time goes: a run of the step takes" in capsys.readouterr().out
    assert (
        call(
            "explain",
            digits,
            "--fetch",
            "probs:0",
            "--shape",
            "images=4,8,8,1",
            "--measure",
            "--json",
        )
        == 0
    )
    found = json.loads(capsys.readouterr().out)
    assert found["measured"]["runs"] > 0
    assert any(node["measured_us"] for node in found["nodes"])


@pytest.mark.parametrize("shape", ["images", "images=a,b", "images=-1,8", "=3"])
def test_explain_refuses_a_wrong_shape(
    shape: str, digits: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("explain", digits, "--fetch", "probs:0", "--shape", shape) == 2
    assert "--shape" in capsys.readouterr().err


def test_module_and_version() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tfjit", "--version"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0 and done.stdout.startswith("tfjit 0.")
    done = subprocess.run(
        [sys.executable, "-m", "tfjit"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2 and "COMMAND" in done.stderr


def test_a_closed_pipe_is_no_error(data_dir: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "tfjit", "inspect", str(data_dir / "mobilenet_v2.pb")]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert done.returncode == 0 and done.stderr == ""


def test_warm_builds_the_archive(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tfjit.kernels.precompile import own_archive
    from tfjit.kernels.precompile.own_archive import OwnArchive

    refused: list[str] = []

    def build(folder: Path, processes: int, progress: object) -> OwnArchive:
        assert folder == tmp_path / "archives" and processes == 1
        return OwnArchive(folder / "some.tfk", 2, 3, tuple(refused))

    monkeypatch.setenv("TFJIT_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(own_archive, "build_own_archive", build)
    assert call("warm", "--processes", "1") == 0
    assert capsys.readouterr().out.endswith("some.tfk: 2 kernels were there, 3 are compiled\n")
    refused.append("a kernel: a reason")
    assert call("warm", "--processes", "1") == 1
    assert "refused: a kernel: a reason" in capsys.readouterr().err
    assert call("warm", "--processes", "-1") == 2


def test_warm_leaves_a_complete_archive(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tfjit.kernels.jit.store import store

    monkeypatch.setattr(store, "has_all_generic", lambda: True)
    assert call("warm") == 0
    assert capsys.readouterr().out.startswith("the generic kernels are there: ")
