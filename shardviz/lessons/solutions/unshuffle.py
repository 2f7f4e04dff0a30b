"""The unshuffle: sizes by arithmetic, order by the cuts."""


def chunk_size(size, count, i):
    """The size of chunk i of count, by torch's rule."""
    full = -(-size // count)
    return max(0, min(full, size - i * full))


def unshuffle(pieces, size, dp, tp):
    """TP cut first: what has one tp coordinate was one stretch of the tensor, cut over dp."""
    elements = []
    for t in range(tp):
        column = chunk_size(size, tp, t)
        for d in range(dp):
            elements += pieces[d * tp + t][: chunk_size(column, dp, d)]
    return elements
