"""Take the padding out: where a piece begins is known, and how much of it is real."""


def unpad(gathered, sizes):
    """Pieces are a width apart, whatever they hold."""
    width = max(sizes)
    real = []
    for i, size in enumerate(sizes):
        real += gathered[i * width : i * width + size]
    return real
