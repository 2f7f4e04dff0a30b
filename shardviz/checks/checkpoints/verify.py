"""The elements themselves, read once and compared with the checksums that torch's archives carry."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from shardviz.checks.checkpoints.datafiles import DataFiles, shown
from shardviz.checks.checkpoints.metadata import Place
from shardviz.core.errors import FileError

__all__ = ["Verified", "verified"]

_BLOCK, _LARGEST_READ = 1 << 22, 1 << 26


@dataclass(frozen=True)
class Verified:
    """What reading the content found.

    Attributes:
        right: number of entries that are what was written, by their checksums.
        unsigned: number of entries that carry no checksum: of safetensors, or saved without (`set_crc32_options(False)`).
        wrong: what is not as it was written, in sentences.
    """

    right: int
    unsigned: int
    wrong: tuple[str, ...]

    @property
    def text(self) -> str:
        """How many entries were compared."""
        total = self.right + self.unsigned + len(self.wrong)
        rest = f"; {self.unsigned:,} carry none, so nothing is known of their content" if self.unsigned else ""
        return f"content read: {self.right:,} of {total:,} entries are what was written, by their checksums{rest}"


def verified(
    files: DataFiles, entries: Sequence[tuple[str, Place]], archives: bool, progress: Callable[[str, float], None]
) -> Verified:
    """Read entries and compare them with their checksums.

    Args:
        files: the data files.
        entries: what to call each entry, and where it lies.
        archives: whether they are torch's archives; safetensors carry no checksums.
        progress: called with a sentence and the fraction done, 0 to 1.
    """
    right = unsigned = 0
    wrong: list[str] = []
    total, done = sum(place.length for _, place in entries) or 1, 0
    for name, place in sorted(entries, key=lambda entry: (entry[1].file, entry[1].start)):
        progress("reading the elements", done / total)
        done += place.length
        try:
            signed = archives and _checked(_Stretch(files, place), place.length)
        except (FileError, zipfile.BadZipFile, NotImplementedError, EOFError, OSError, ValueError, struct.error) as error:
            why = "its checksum does not fit its content" if "CRC" in str(error) else f"it cannot be read: {shown(str(error))}"
            wrong.append(f"{shown(name)} in {shown(place.file)}: {why}")
            continue
        right += signed
        unsigned += not signed
    return Verified(right, unsigned, tuple(wrong))


def _checked(stretch: _Stretch, length: int) -> bool:
    """Whether an archive has checksums, all of which fit.

    Raises:
        zipfile.BadZipFile: one does not fit.
    """
    with zipfile.ZipFile(stretch) as archive:
        records = archive.infolist()
        if sum(record.file_size for record in records) > length or any(record.compress_type for record in records):
            raise FileError("a length in its archive is not true")
        if not any(record.CRC for record in records if record.file_size):
            return False
        for record in records:
            with archive.open(record) as content:
                while content.read(_BLOCK):  # at its end, the content is compared
                    pass
    return True


class _Stretch(io.RawIOBase):
    """A stretch of a data file as a file of its own."""

    def __init__(self, files: DataFiles, place: Place) -> None:
        super().__init__()
        self._files, self._place, self._at = files, place, 0

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._place.length}[whence]
        if self._at < 0:
            raise ValueError("a length in its archive is not true")
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size: int = -1) -> bytes:
        left = max(self._place.length - self._at, 0)
        if min(left, size if size >= 0 else left) > _LARGEST_READ:
            raise FileError("a length in its archive is not true")  # of a directory: content is read in blocks
        data = self._files.read(self._place.file, self._place.start + self._at, left if size < 0 else min(size, left))
        self._at += len(data)
        return data
