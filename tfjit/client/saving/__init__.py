"""Save and restore: checkpoints, MetaGraphs, SavedModels.

In: graphs and sessions. Out: files, and graphs from files. Not in here: formats of files:
framework/files.
"""
