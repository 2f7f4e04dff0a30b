"""Find the bug: let the computer look, then put the sizes right."""


def smallest_failing_size(given):
    """Try every size until the elements do not come back in order."""
    reconstruct, shards, dp, tp = given["reconstruct"], given["shards"], given["dp"], given["tp"]
    size = 0
    while reconstruct(shards(size, dp, tp), size, dp, tp) == list(range(size)):
        size += 1
    return size


def chunk_size(size, count, i):
    """The size of chunk i of count, by torch's rule."""
    full = -(-size // count)
    return max(0, min(full, size - i * full))


def corrected(pieces, size, dp, tp):
    """What is real of a piece is chunk d of chunk t of the size; the order is that of tp, then dp."""
    elements = []
    for t in range(tp):
        column = chunk_size(size, tp, t)
        for d in range(dp):
            elements += pieces[d * tp + t][: chunk_size(column, dp, d)]
    return elements


def find_the_bug(given):
    """The two answers."""
    return smallest_failing_size(given), corrected
