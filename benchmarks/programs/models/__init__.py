"""Define the programs.

Each builds its graph, makes a session and runs its steps.
"""
