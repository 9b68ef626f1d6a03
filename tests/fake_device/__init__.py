"""A device FAKE:0 that interprets nodes and fused groups in NumPy.

It stands for any second device: the compiler and the runtime know it by `register` alone.
"""

from tfjit.kernels.ir.backend import register_backend, unregister_backend

BACKEND = "tests.fake_device.backend:FakeBackend"


def register() -> None:
    """Make FAKE devices known to the sessions that are made from now on."""
    register_backend("FAKE", BACKEND)


def unregister() -> None:
    """Forget FAKE devices."""
    unregister_backend("FAKE")
