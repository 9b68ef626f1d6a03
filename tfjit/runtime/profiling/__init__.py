"""Measure and explain: step statistics, timelines, kernel times, cost models.

In: plans and their steps. Out: RunMetadata, explanations, timelines. Not in here: decisions of
the executor.
"""
