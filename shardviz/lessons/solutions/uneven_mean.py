"""A mean over uneven shards: sums and counts add up, means do not."""


def uneven_mean(shards):
    """What each rank contributes, what the all-reduce makes of it, and one division."""
    contributions = [(sum(shard), len(shard)) for shard in shards]
    total, count = map(sum, zip(*contributions, strict=True))
    return total / count
