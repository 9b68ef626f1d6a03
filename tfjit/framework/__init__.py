"""Define the vocabulary that every layer shares: errors, settings, environment.

Not in here: anything that knows an op, a pass or a kernel.
"""
