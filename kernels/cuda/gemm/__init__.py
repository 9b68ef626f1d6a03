"""Matrix products on NVIDIA GPUs: tiles in shared memory, epilogues, matrix by vector."""
