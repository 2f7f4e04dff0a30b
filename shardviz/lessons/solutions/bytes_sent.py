"""What a padded all-gather has each rank send."""


def bytes_sent(size, itemsize, ranks):
    """A padded chunk, to every other rank."""
    return (ranks - 1) * -(-size // ranks) * itemsize
