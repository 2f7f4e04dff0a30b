"""Checks: what disagrees, and what is lost."""
