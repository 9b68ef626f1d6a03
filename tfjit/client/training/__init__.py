"""Train: optimizers, coordinators, queue runners, input queues.

In: losses, variables. Out: training ops, threads. Not in here: files.
"""
