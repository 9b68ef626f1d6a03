"""Build a loop over scalars and arrays as one kernel.

In: a LoopProgram. Out: a NativeCall. Not in here: loops whose bodies are launches.
"""
