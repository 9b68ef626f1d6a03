"""`tfjit server` in a process: it starts, answers, and ends on a signal."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tfjit import protos
from tfjit.cli import main
from tfjit.distributed.channels.channels import Channel
from tfjit.distributed.protocol.grpc_library import import_grpc
from tfjit.distributed.protocol.methods import WORKER
from tfjit.distributed.server.health import METHOD, SERVICE

CLUSTER = "ps=localhost:0;worker=other:2222,localhost:0"
# The command with a fake master and worker, whose steps wait for their cancellation.
PROGRAM = """
import sys, threading
from tests.distributed.server.fakes import FakeMaster, FakeWorker
import tfjit.distributed.server.server as server
def make(setup):
    print(setup.task, setup.config.intra_op_parallelism_threads, file=sys.stderr)
    master = FakeMaster()
    def step(call):
        over = threading.Event()
        call.cancellation.register(over.set)
        over.wait()
        return [], None
    master.step = step
    return master, FakeWorker()
server.make_task = make
from tfjit.cli import main
sys.exit(main(sys.argv[1:]))
"""


@contextmanager
def serving(*argv: str, **variables: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start the command; yield the process and its address once it serves."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "server", *argv],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **variables},
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        task, _, target = line.strip().partition(" serves grpc://")
        assert task.startswith("/job:"), process.communicate()
        yield process, target
    finally:
        process.kill()
        process.wait()


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Return the exit code and the text on stderr."""
    _, text = process.communicate(timeout=60)
    return process.returncode, text


def test_serves_until_sigterm(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("intra_op_parallelism_threads: 3")
    arguments = ("--cluster", CLUSTER, "--job", "worker", "--task", "1")
    with serving(*arguments, "--config", str(tmp_path / "config")) as (process, address):
        channel = Channel(address)
        answer = channel.call(WORKER, "GetStatus", protos.GetStatusRequest(), 20)
        assert len(answer.device_attributes) == 1
        channel.close()
        with import_grpc().insecure_channel(address) as raw:
            assert raw.unary_unary(f"/{SERVICE}/{METHOD}")(b"", timeout=60) == b"\x08\x01"
        process.send_signal(signal.SIGTERM)
        assert ended(process) == (0, "/job:worker/replica:0/task:1 3\n")


def test_reads_tf_config_and_ends_on_sigint() -> None:
    config = {
        "cluster": {"chief": ["localhost:0"], "worker": ["a:1", "b:1"]},
        "task": {"type": "chief", "index": 0},
        "environment": "cloud",
    }
    with serving("--grace", "0.1", TF_CONFIG=json.dumps(config)) as (process, address):
        channel = Channel(address)
        failed: list[Any] = []
        channel.start(
            "tensorflow.MasterService",
            "RunStep",
            protos.RunStepRequest(),
            lambda error, answer: failed.append(error),
        )
        assert channel.call(WORKER, "GetStatus", protos.GetStatusRequest(), 20)
        process.send_signal(signal.SIGINT)
        assert ended(process) == (130, "/job:chief/replica:0/task:0 0\n")
        channel.close()


def test_arguments_come_before_tf_config() -> None:
    config = json.dumps({"cluster": {"a": ["x:1"]}, "task": {"type": "a", "index": 0}})
    arguments = ("--cluster", CLUSTER, "--job", "ps", "--task", "0")
    with serving(*arguments, TF_CONFIG=config) as (process, _):
        process.send_signal(signal.SIGTERM)
        assert ended(process) == (0, "/job:ps/replica:0/task:0 0\n")


def test_an_address_in_use(capsys: pytest.CaptureFixture[str]) -> None:
    with serving("--cluster", "w=localhost:0") as (_, address):
        assert main(["server", "--cluster", f"w={address}"]) == 1
    assert "UnknownError: Could not start gRPC server" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ([], "no cluster: give --cluster, or set TF_CONFIG"),
        (["--cluster", "x"], "--cluster x: 'x': expected JOB=HOST:PORT,HOST:PORT"),
        (["--cluster", CLUSTER], "the job of this task is not given: the cluster has ps, worker"),
        (["--cluster", CLUSTER, "--job", "x"], "there is no job x: the cluster has ps, worker"),
        (
            ["--cluster", CLUSTER, "--job", "worker"],
            "the index of this task is not given: the job worker has 0, 1",
        ),
        (
            ["--cluster", CLUSTER, "--job", "worker", "--task", "7"],
            "no task 7: the job worker has 0, 1",
        ),
        (["--cluster", "w=localhost:0", "--config", "x"], "--config x: not a ConfigProto"),
        (["--cluster", "w=localhost:0", "--grace", "-1"], "--grace -1.0"),
        (["--cluster", "w=localhost:0", "--tls-key", "k"], "TLS needs both"),
        (
            ["--cluster", "w=localhost:0", "--tls-key", "/no/k", "--tls-cert", "/no/c"],
            "/no/k cannot be read",
        ),
    ],
)
def test_wrong_command_lines(
    argv: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("TF_CONFIG", raising=False)
    assert main(["server", *argv]) == 2
    assert f"tfjit server: {message}" in capsys.readouterr().err


def test_a_cluster_in_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "cluster.json"
    path.write_text('{"cluster": {"a": ["h:1"], "b": ["h:2"]}}')
    assert main(["server", "--cluster", str(path)]) == 2
    assert "the cluster has a, b" in capsys.readouterr().err
    path.write_bytes(b"\xff\xfe")
    assert main(["server", "--cluster", str(path)]) == 2
    assert "cannot be read" in capsys.readouterr().err


def test_help_needs_no_grpc() -> None:
    code = (
        "import sys\nfrom tfjit.cli import main\n"
        "try: main(['server', '--help'])\nexcept SystemExit: pass\n"
        "print([name for name in sys.modules if 'grpc' in name or 'distributed' in name])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("[]\n") and "--tls-key" in done.stdout
