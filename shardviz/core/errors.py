"""The one family of exceptions: whatever shardviz raises on purpose is a `ShardvizError`."""


class ShardvizError(Exception):
    """Something shardviz can explain: the message says what was wrong, with the values, and what would be right.

    Example:
        >>> from shardviz.core.spec import parse
        >>> try:
        ...     parse("[6] on tp=4: S(1)")
        ... except ShardvizError as error:
        ...     print(error)
        S(1) on mesh dimension 'tp': the tensor has 1 dimension, so tensor dimension 1 does not exist; right would be 0 (or -1)
    """


class SpecError(ShardvizError, ValueError):
    """A shape, mesh or list of placements that describes no sharded tensor."""


class NotationError(SpecError):
    """Text that is not in the notation.

    Attributes:
        text: the whole text.
        position: index in `text` of the first character that could not be read.
    """

    def __init__(self, message: str, text: str, position: int) -> None:
        self.text = text
        self.position = position
        super().__init__(message)


class ReadingError(SpecError):
    """Placements that the asked-for reading cannot turn into indices (a split factor that decodes to no order)."""


class RanksError(ShardvizError, RuntimeError):
    """Ranks that could not be started, or whose run did not finish."""


class RequestError(RanksError, ValueError):
    """Ranks asked for that cannot be had here: nothing was started."""


class RankFailure(RanksError):
    """A rank raised, died or did not finish, so its run has no result.

    Attributes:
        rank: the rank that the message leads with; the others' errors follow from its failure.
    """

    def __init__(self, message: str, rank: int) -> None:
        self.rank = rank
        super().__init__(message)


class TorchError(ShardvizError, RuntimeError):
    """The installed torch is too old, or lacks a private name that shardviz relies on."""


class FileError(ShardvizError, ValueError):
    """A file that cannot be read as what it should be, or a name of a format that cannot be written."""
