"""FSDP2 over TP: one cut inside the other."""


def chunk(items, count, i):
    """Chunk i of count, by torch's rule."""
    full = -(-len(items) // count)
    return items[i * full : (i + 1) * full]


def fsdp_over_tp(elements, dp, tp):
    """TP cuts first, so its chunk is the inner one; the mesh names dp first, so the key does too."""
    return {(d, t): chunk(chunk(elements, tp, t), dp, d) for d in range(dp) for t in range(tp)}
