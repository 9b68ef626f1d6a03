"""The programs: each builds its graph, makes a session and runs its steps."""
