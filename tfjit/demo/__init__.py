"""The demo: a digits classifier with its data, and the timing of it."""
