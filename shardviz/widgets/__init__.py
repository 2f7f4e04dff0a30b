"""The explorer: state in traits, one render. What a spec means is asked of `core`, what it looks like of `picture`."""
