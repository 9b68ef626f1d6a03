"""The worker of a task: its registered graphs and their steps.

In: partitions, steps, requests for tensors. Out: values for the client and for other tasks. Not in
here: which graph a step has, and on which task a node is.
"""
