"""Shape and offset: two numbers, changed by every cut."""


def shape_and_offset(size, cuts, coordinate):
    """Where the stretch begins, and how long it is; an empty one has the size as its offset."""
    start, length = 0, size
    for count, i in zip(cuts, coordinate, strict=True):
        full = -(-length // count)
        low = min(i * full, length)
        start, length = start + low, min(full, length - low)
    return length, start if length else size
