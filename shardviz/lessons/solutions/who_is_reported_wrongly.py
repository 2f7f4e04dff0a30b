"""Who is reported wrongly? Compare the two readings, rank by rank."""

import shardviz as sv


def who_is_reported_wrongly(given):
    """What is held is in sharding order; torch 2.11 to 2.15 report from left to right."""
    pairs = zip(sv.layout(given, "sharding-order"), sv.layout(given, "left-to-right"), strict=True)
    return [held.rank for held, said in pairs if (held.shape, held.offset) != (said.shape, said.offset)]
