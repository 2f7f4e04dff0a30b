"""Measurements behind the promises: ratios against a rival in the same run, or medians of this machine."""
