"""Who goes away empty? Deal out full chunks, and count who comes too late."""


def empty_ranks(given):
    """Of each pair of size and ranks: the ranks, less those that get something."""
    found = []
    for size, ranks in given:
        full = -(-size // ranks)
        found.append(ranks - -(-size // full))
    return found
