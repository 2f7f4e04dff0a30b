"""The order in the factors: insert from right to left, each where its factor fits."""

from math import prod


def explicit_order(factors, sizes):
    """The mesh dimensions that cut, first cut first; None where a factor fits nowhere."""
    order = []
    for dim in reversed(range(len(sizes))):
        if factors[dim] is None:
            continue
        for place in range(len(order) + 1):
            if prod(sizes[other] for other in order[:place]) == factors[dim]:
                order.insert(place, dim)
                break
        else:
            return None
    return order
