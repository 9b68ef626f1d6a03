"""Run offloaded graphs as programs of commands on accelerators.

In: a lowered graph with calls of the accelerator's backend. Out: arrays of the host. Not in here:
the choice of nodes (`passes/offload/`), kernels, drivers.
"""
