"""Which rows are gone? Those that no chunk both promises and stores."""


def missing_rows(size, chunks):
    """Collect what is there; the rest is gone."""
    there = set()
    for offset, promised, stored in chunks:
        there.update(range(offset, offset + min(promised, stored)))
    return [row for row in range(size) if row not in there]
