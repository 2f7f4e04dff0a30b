"""Split, and pad: chunks by the rule, all as long as the first."""


def split_and_pad(elements, ranks):
    """The first chunk is a full one, so its length is everybody's."""
    full = -(-len(elements) // ranks)
    parts = [elements[i * full : (i + 1) * full] for i in range(ranks)]
    return [part + [None] * (full - len(part)) for part in parts]
