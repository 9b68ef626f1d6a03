"""Measure tfjit's speed, fused and unfused, beside its peers.

`python -m benchmarks --help` explains the options.
"""

import os

# A process that builds an archive of generic kernels would take part of what is measured.
os.environ.setdefault("TFJIT_BUILD_ARCHIVE", "0")
