"""Which line sends the most? Bytes of a call, times calls."""


def sent(row):
    """What one rank sends in a step."""
    elements, k = 1, row["ranks"]
    for size in row["shape"]:
        elements *= size
    slots = {
        "all_gather": (k - 1) * elements,
        "reduce_scatter": elements - elements // k,
        "all_reduce": 2 * (k - 1) * -(-elements // k),
    }
    return slots[row["collective"]] * row["itemsize"] * row["calls"]


def biggest_collective(given):
    """The line for which that is most."""
    most = max(given, key=sent)
    return {"line": most["line"], "bytes": sent(most)}
