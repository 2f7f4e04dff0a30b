"""Checkpoint directories: what is in them down to the stored bytes, and the rescue of what is still there."""
