"""A byte budget: try the stops in between."""

from itertools import product

import shardviz as sv


def cost(spec, path):
    """What the rank that sends most sends, over all steps."""
    total = 0
    for placements in path:
        story = sv.redistribute(spec, placements)
        total += max(sv.costs(story).sent)
        spec = story.target
    return total


def byte_budget(given):
    """The cheapest way with up to two stops."""
    spec, target = sv.parse(given["spec"]), given["target"]
    stops = [f"{a}, {b}" for a, b in product(("R", "S(0)", "S(1)"), repeat=2)]
    ways = [[target], *([a, target] for a in stops), *([a, b, target] for a, b in product(stops, repeat=2))]
    return min(ways, key=lambda path: cost(spec, path))
