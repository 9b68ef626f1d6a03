"""Define a device FAKE:0 that interprets nodes and groups in NumPy.

It represents any second device: the compiler and the runtime know it by `register` alone.
"""

from tfjit.kernels.ir.backend import register_backend, unregister_backend

BACKEND = "tests.fake_device.backend:FakeBackend"


def register() -> None:
    """Register FAKE devices for sessions made from now on."""
    register_backend("FAKE", BACKEND)


def unregister() -> None:
    """Forget FAKE devices."""
    unregister_backend("FAKE")
