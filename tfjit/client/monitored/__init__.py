"""Monitored sessions: they initialize, restore, recover, and call hooks.

In: a graph, hooks, a folder of checkpoints, the target of a server. Out: sessions, checkpoints and
event files by way of saving/ and data/. Not in here: the sessions below; formats of files.
"""
