"""Every op and every reference kernel is registered before a pass is tested; graphs are verified
after each pass.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import tfjit.kernels.cpu
import tfjit.ops  # noqa: F401
