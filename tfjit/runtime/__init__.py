"""Define the interface of sessions, and pick the session of a target.

In: SessionOptions. Out: a SessionInterface. Not in here: execution.
"""
