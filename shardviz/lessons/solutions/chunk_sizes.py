"""The sizes of the chunks: full ones from the front, then the rest, then nothing."""


def chunk_sizes(size, ranks):
    """ceil(size / ranks) on each rank, as long as there are elements."""
    full = -(-size // ranks)
    return [max(0, min(full, size - i * full)) for i in range(ranks)]
