"""Nothing is overwritten, shared or left half written: mended and converted checkpoints, and what reading the content finds."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
import zipfile

import pytest
import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.metadata import MetadataIndex

from shardviz.checks.checkpoints import beside, converting
from shardviz.checks.checkpoints.checkpoint import checkpoint
from shardviz.checks.checkpoints.mend import SHARED, mend
from shardviz.core.errors import FileError
from tests.checks import saved


def test_saving_into_a_mended_checkpoint_leaves_the_original_alone(checkpoint_verb, whole, tmp_path):
    before = saved.contents(whole)
    status, out, err = checkpoint_verb(whole, "--mend", tmp_path / "out", "--json")
    assert (status, json.loads(out)["shared"], err) == (0, False, "")
    saved.save(tmp_path / "out", {"weight": torch.full((3, 4), 9.0)})
    assert saved.contents(whole) == before


def test_links_are_made_on_request_and_said_in_every_form(checkpoint_verb, whole, tmp_path):
    status, out, err = checkpoint_verb(whole, "--mend", tmp_path / "a", "--link", "--json")
    assert status == 0
    if json.loads(out)["shared"]:  # a file system that clones needs none
        assert SHARED in err
        assert SHARED in checkpoint_verb(whole, "--mend", tmp_path / "b", "--link")[1]
        assert (tmp_path / "a" / "__0_0.distcp").stat().st_ino == (whole / "__0_0.distcp").stat().st_ino
    assert checkpoint_verb(whole, "--link")[0] == 2


def no_room(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_full_disk_leaves_nothing_of_what_was_begun(whole, tmp_path, monkeypatch):
    monkeypatch.setattr(beside.shutil, "copyfileobj", no_room)
    monkeypatch.setattr(beside.fcntl, "ioctl", no_room)
    with pytest.raises(FileError, match=r"No space left on device \(link=True, or --link.*nothing is left of it"):
        mend(checkpoint(whole), tmp_path / "made" / "out")
    assert list((tmp_path / "made").iterdir()) == []


@pytest.mark.parametrize("target", ["out.safetensors", "out"])
def test_a_conversion_that_fails_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, target):
    found = checkpoint(saved.save(tmp_path / "ck", {"a": torch.ones(3)}))
    place = tmp_path / "made"
    place.mkdir()
    if target == "out.safetensors":
        (place / target).write_text("old")
    monkeypatch.setattr(converting, "_check", no_room)
    with pytest.raises(FileError, match="nothing is left of it"):
        converting.convert(found, place / target)
    assert [path.read_text() for path in place.iterdir()] == (["old"] if target == "out.safetensors" else [])


def test_a_page_that_cannot_be_written_leaves_the_old_one(whole, tmp_path, monkeypatch):
    (tmp_path / "map.html").write_text("old")
    monkeypatch.setattr(beside.os, "fsync", no_room)
    with pytest.raises(FileError, match="cannot be written"):
        checkpoint(whole).save(tmp_path / "map.html")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["map.html", "whole"]
    assert (tmp_path / "map.html").read_text() == "old"


PROGRAM = """
import sys, time
from shardviz.checks.checkpoints import beside, mend
from shardviz.cli.verbs import main
def slow(*_):
    print("copying", flush=True)
    time.sleep(60)
beside.shutil.copyfileobj = beside.fcntl.ioctl = slow
main(sys.argv[1:])
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_what_a_killed_mend_left_is_cleared_away(checkpoint_verb, whole, tmp_path, number):
    place = tmp_path / "made"
    arguments = [sys.executable, "-c", PROGRAM, "checkpoint", str(whole), "--mend", str(place / "out")]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout.readline() == "copying\n"
        process.send_signal(number)
        assert process.wait(20) != 0
    left = list(place.iterdir())
    assert bool(left) == (number == signal.SIGKILL)  # which no program hears of: the next one takes it away
    assert checkpoint_verb(whole, "--mend", place / "out")[0] == 0
    assert [path.name for path in place.iterdir()] == ["out"]


def test_a_mend_that_is_still_running_is_left_alone(whole, tmp_path):
    with beside.written_directory(tmp_path / "out") as made:
        (made / "file").write_text("mine")
        mend(checkpoint(whole), tmp_path / "out")
        assert (made / "file").read_text() == "mine"
        (tmp_path / "out").rename(tmp_path / "other")
    assert (tmp_path / "out" / "file").read_text() == "mine"


def test_a_link_out_of_the_directory_is_not_followed(checkpoint_verb, whole, tmp_path):
    (tmp_path / "secret").write_text("secret")
    (whole / "__9_0.distcp").symlink_to(tmp_path / "secret")
    status, _, err = checkpoint_verb(whole, "--mend", tmp_path / "out")
    assert (status, "a link that leads out of" in err, (tmp_path / "out").exists()) == (2, True, False)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    (whole / "__9_0.distcp").unlink()
    assert "exists and is not empty" in checkpoint_verb(whole, "--mend", tmp_path / "link")[2]
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_two_tensors_on_the_same_bytes_are_told(checkpoint_verb, whole):
    tree = saved.metadata(whole)
    tree.storage_data[MetadataIndex("flags", [0])] = tree.storage_data[MetadataIndex("count", [0])]
    tree.state_dict_metadata["flags"] = tree.state_dict_metadata["count"]
    saved.write_metadata(whole, tree)
    status, out, _ = checkpoint_verb(whole)
    assert (status, "count and flags lie on the same bytes of __0_0.distcp" in out) == (1, True)


def first_element(directory, name):
    chunk = checkpoint(directory)[name].chunks[0]
    return directory / chunk.place.file, chunk.tensor.byte_offset


def test_a_changed_element_is_seen_when_the_content_is_read(checkpoint_verb, whole):
    file, at = first_element(whole, "weight")
    data = bytearray(file.read_bytes())
    data[at + 1] ^= 0x40
    file.write_bytes(data)
    status, out, _ = checkpoint_verb(whole)
    assert (status, "no element was read (--verify reads them)" in out) == (0, True)
    status, out, _ = checkpoint_verb(whole, "--verify")
    entries = len(saved.TENSORS) + 2
    assert (status, f"content read: {entries - 1} of {entries} entries are what was written" in out) == (1, True)
    assert "weight in __0_0.distcp: its checksum does not fit its content" in out


def test_what_was_written_is_verified(checkpoint_verb, whole):
    status, out, _ = checkpoint_verb(whole, "--verify")
    entries = len(saved.TENSORS) + 2
    assert (status, f"content read: {entries} of {entries} entries are what was written" in out) == (0, True)
    assert json.loads(checkpoint_verb(whole, "--verify", "--json")[1])["read"] == {"right": entries, "unsigned": 0, "wrong": []}
    assert checkpoint(whole).read is None
    assert checkpoint_verb(whole, "--verify", "--at", "0")[0] == 2


def test_an_archive_without_checksums_is_said_to_have_none(tmp_path):
    torch.serialization.set_crc32_options(False)
    try:
        saved.save(tmp_path / "ck", {"a": torch.arange(300.0)})
    finally:
        torch.serialization.set_crc32_options(True)
    found = checkpoint(tmp_path / "ck", verify=True)
    assert (found.whole, found.read.right, found.read.unsigned) == (True, 0, 1)
    assert "1 carry none" in found.text
    dcp.save({"a": torch.ones(3)}, storage_writer=dcp.HuggingFaceStorageWriter(str(tmp_path / "hf")), no_dist=True)
    found = checkpoint(tmp_path / "hf", verify=True)
    assert (found.whole, found.read.right, found.read.unsigned) == (True, 0, 1)


def test_an_archive_that_would_take_for_ever_is_not_read(whole, monkeypatch):
    """Records that overlap: a small file that claims more content than it has bytes."""
    opened = []
    monkeypatch.setattr(zipfile.ZipFile, "open", lambda self, *_: opened.append(self))
    records = zipfile.ZipFile.infolist
    monkeypatch.setattr(zipfile.ZipFile, "infolist", lambda self: records(self) * 1000)
    begin = time.monotonic()
    found = checkpoint(whole, only="weight", verify=True)
    assert (opened, found.whole, time.monotonic() - begin < 20) == ([], False, True)
    assert "a length in its archive is not true" in found.problems[0]
