"""The demo: a digits classifier with its data and timing."""
