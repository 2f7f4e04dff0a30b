"""The reader of pickles: it reads what torch writes, and never looks anything up or calls anything."""

import collections
import os
import pickle
from pathlib import PosixPath

import pytest

from shardviz.checks.checkpoints.metadata import ALLOWED
from shardviz.checks.checkpoints.pickles import Made, Name, read_pickle
from shardviz.core.errors import FileError

PLAIN = {
    "a": [1, -2, 300, 70_000, -5_000_000_000, 1 << 80],
    "b": (True, False, None, 1.5),
    "c": {"nested": ((), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4))},
    "d": "ü" * 300,
    7: [],
}


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_plain_values_are_read_as_pickle_reads_them(protocol):
    assert read_pickle(pickle.dumps(PLAIN, protocol), ()) == PLAIN


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_what_would_be_made_is_noted(protocol):
    made = read_pickle(pickle.dumps(PosixPath("/tmp/x"), protocol), ALLOWED)
    assert type(made) is Made
    assert (made.kind.name, made.args) == ("PosixPath", ("/", "tmp", "x"))


class Hostile:
    def __init__(self, function, *args):
        self.call = function, args

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_a_hostile_pickle_runs_nothing(tmp_path, protocol):
    mark = tmp_path / "ran"
    data = pickle.dumps(Hostile(os.system, f"touch {mark}"), protocol)
    with pytest.raises(FileError, match=r"posix.system.*nothing in it was run"):
        read_pickle(data, ALLOWED)
    assert not mark.exists()
    pickle.loads(data)  # the test can fail: an ordinary reader runs it
    assert mark.exists()


def test_an_allowed_name_is_not_called_either():
    data = pickle.dumps(Hostile(collections.OrderedDict, [("a", 1)]), 4)
    assert type(read_pickle(data, {Name("collections", "OrderedDict")})) is Made


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "cut short"),
        (b"\x80\x04", "cut short"),
        (b"\x80\x04}", "cut short"),
        (b"\x80\x04\x8c\x05ab.", "in the middle of a text"),
        (b"\x80\x04e.", "damaged"),
        (b"\x80\x04K\x01K\x02a.", "a list is expected"),
        (b"\x80\x04]K\x01K\x02s.", "a dict is expected"),
        (b"\x80\x04}K\x01\x85K\x02s.", "a tuple for a key"),
        (b"\x80\x04K\x01)R.", "what is no class"),
        (b"\x80\x04}}b.", "what it did not make"),
        (b"\x80\x04K\x01q\x05.", "out of order"),
        (b"\x80\x04K\x01K\x02\x93.", "a name is expected"),
        (b"\x80\x04h\x05.", "cut short"),
        (b"\x80\x04\x82\x01.", "0x82"),
        (b"I1\n.", "0x49"),
    ],
)
def test_what_torch_does_not_write_is_refused(data, words):
    with pytest.raises(FileError, match=words):
        read_pickle(data, ALLOWED)


def test_a_class_cannot_be_changed():
    name = b"ctorch.distributed.checkpoint.metadata\nMetadata\n"
    with pytest.raises(FileError, match="what it did not make"):
        read_pickle(b"\x80\x02" + name + b"N}X\x01\x00\x00\x00aK\x01s\x86b.", ALLOWED)


def test_nested_values_take_no_longer_than_they_are():
    """Each tuple holds the one before it twice: to hash, print or compare the last one takes 2^200 steps."""
    doubled = b"\x80\x04)\x94" + b"".join(b"h%ch%c\x86\x94" % (n, n) for n in range(200)) + b"."
    assert len(pickle.loads(doubled)) == 2
    assert len(read_pickle(doubled, ALLOWED)) == 2
    with pytest.raises(FileError, match="a tuple for a key"):
        read_pickle(b"\x80\x04}" + doubled[2:-1] + b"K\x01s.", ALLOWED)
    with pytest.raises(FileError, match="a name is expected"):
        read_pickle(b"\x80\x04" + doubled[2:-1] + b"\x8c\x01a\x93.", ALLOWED)
