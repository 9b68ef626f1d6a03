"""Provide the process's services: devices, threads, cancellation, rendezvous, fork, signals.

Not in here: graphs, kernels.
"""
