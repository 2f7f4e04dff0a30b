"""The smallest safe width: look upwards until the readings agree."""

import shardviz as sv


def safe_width(given):
    """Of each case, the first width from its own on."""
    found = []
    for width, dp, tp in given:
        while sv.differing_readings(f"[{width}] on dp={dp}, tp={tp}: _S(0, {tp}), S(0)"):
            width += 1
        found.append(width)
    return found
