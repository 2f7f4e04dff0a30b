"""The layout arithmetic on real tensors and process groups, and what the installed torch says about the same tensors."""
