"""Who holds it? Two divisions, one for each cut."""


def owner(element, size, dp, tp):
    """TP's chunk and the place in it; of that, FSDP2's chunk and the place in it."""
    full = -(-size // tp)
    t, place = divmod(element, full)
    column = min(full, size - t * full)
    d, local = divmod(place, -(-column // dp))
    return d * tp + t, local
