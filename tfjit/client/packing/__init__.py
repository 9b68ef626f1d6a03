"""Pack models: find the kernels of their runs, compile and write them.

In: a model file, the feeds and fetches of runs. Out: a pack (client/session/pack_file.py). Not in
here: opening packs, which sessions do.
"""
