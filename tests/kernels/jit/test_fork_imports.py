"""Tests of forks while other threads import modules or call LLVM."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.kernels.jit.processes import run_python

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform has no fork")


def test_a_child_can_import_modules_that_another_thread_was_importing(tmp_path: Path) -> None:
    (tmp_path / "slow_module.py").write_text(
        "import time\nimport begun\nbegun.event.set()\ntime.sleep(0.5)\nvalue = 7\n"
    )
    (tmp_path / "begun.py").write_text("import threading\nevent = threading.Event()\n")
    code = f"""
        import os, sys, threading
        sys.path.insert(0, {str(tmp_path)!r})
        from tfjit.kernels.jit.store import store
        import begun
        def import_it():
            import slow_module
        threading.Thread(target=import_it).start()
        assert begun.event.wait(60)
        if os.fork() == 0:
            import slow_module
            import colorsys
            os._exit(slow_module.value)
        print(os.waitstatus_to_exitcode(os.wait()[1]))
    """
    done = run_python(code, tmp_path, PYTHONWARNINGS="ignore::DeprecationWarning")
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "7\n")


def test_a_module_that_forks_while_it_is_imported_goes_on(tmp_path: Path) -> None:
    (tmp_path / "forking_module.py").write_text(
        "import os\nchild = os.fork() == 0\nimport colorsys\n"
    )
    code = f"""
        import os, sys
        sys.path.insert(0, {str(tmp_path)!r})
        from tfjit.kernels.jit.store import store
        import forking_module
        if forking_module.child:
            import wave
            os._exit(3)
        print(os.waitstatus_to_exitcode(os.wait()[1]))
    """
    done = run_python(code, tmp_path, PYTHONWARNINGS="ignore::DeprecationWarning")
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "3\n")


def test_a_child_can_call_llvm_while_another_thread_was_in_it(tmp_path: Path) -> None:
    code = """
        import os, threading
        from tfjit.kernels.jit.store import store
        import llvmlite.binding as llvm
        llvm.initialize_native_target()
        stop = threading.Event()
        def call_llvm():
            while not stop.is_set():
                llvm.get_host_cpu_features()
        threading.Thread(target=call_llvm).start()
        ends = []
        for _ in range(20):
            if os.fork() == 0:
                llvm.get_host_cpu_name()
                os._exit(0)
            ends.append(os.wait()[1])
        stop.set()
        print(set(ends))
    """
    done = run_python(code, tmp_path, PYTHONWARNINGS="ignore::DeprecationWarning")
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "{0}\n")
