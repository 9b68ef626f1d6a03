"""Measure whole training and inference programs, as a user meets them.

A program is a function of `models/`. It is written once, against `tensorflow.compat.v1`: TensorFlow
builds the graph and its gradients, and the sessions are TensorFlow's or, after
`tfjit.patch_tensorflow()`, tfjit's. `catalogue.py` lists the programs with their lengths and
tolerances. `child.py` runs one in a separate process and writes a `Record`; `runner.py` starts the
processes; `profile.py` samples them where asked; `packed.py` runs them from packs. `figures.py`
turns records into figures, `report.py` prints them, `command.py` is the command. No program imports
a library by itself.
"""
