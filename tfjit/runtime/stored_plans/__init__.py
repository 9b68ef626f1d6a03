"""Keep finished plans on disk, for later processes.

In: the instructions of a variant with their calls, and a key over all that decides them. Out: the
same in a later process, in place of passes, lowering and builders; records that help a first run.
Not in here: running: variants ask for what is stored (`runtime/plan/variant.py`).
"""
