"""Optimise graphs: the pipeline as data, and the runner of passes.

In: a session's graph and a RunSpec. Out: partitions, and a report of every pass. Not in here: a
pass itself: each stands in a room below.
"""
