"""One label, three readings: ask each of them for the owner."""

import shardviz as sv


def one_label_three_layouts(given):
    """The rank that holds the element, by each reading."""
    readings = ("sharding-order", "left-to-right", "outer-last")
    return {reading: sv.layout(given["spec"], reading).owners((given["element"],))[0].rank for reading in readings}
