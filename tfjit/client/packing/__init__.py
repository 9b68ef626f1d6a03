"""Pack models: find out which kernels their runs need, compile and write them.

In: a model file and the feeds and fetches of runs. Out: a pack (client/session/pack_file.py). Not in
here: opening packs, which sessions do.
"""
