"""Name the parameter: those whose label has two readings that part."""

import shardviz as sv


def name_the_parameter(given):
    """What is held is in sharding order, what is reported goes from left to right."""
    return [name for name, spec in given.items() if sv.differing_readings(spec)]
