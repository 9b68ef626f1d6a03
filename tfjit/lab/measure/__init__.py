"""Measure candidates: open, check outputs, time in rounds, judge ratios.

In: a model, fetches, feeds and the names of candidates. Out: times by candidate, and ratios with
confidence intervals and verdicts. Not in here: tables and commands.
"""
