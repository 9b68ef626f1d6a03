"""Servers: a task's master and worker behind a port.

In: a cluster and the task's place in it. Out: the services of TensorFlow's protocol. Not in here:
the answers, which master and worker give.
"""
