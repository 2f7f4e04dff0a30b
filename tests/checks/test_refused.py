"""Directories that are no checkpoint, and data files that are lost, damaged or hostile."""

import json
import os
import pickle
import struct
import zipfile

import pytest
import torch
import torch.distributed.checkpoint as dcp

from shardviz.checks.checkpoints.checkpoint import checkpoint
from shardviz.checks.checkpoints.content import elements
from shardviz.checks.checkpoints.datafiles import DataFiles
from shardviz.core.errors import FileError
from tests.checks import saved


def damaged_metadata(directory, tmp_path):
    data = (directory / ".metadata").read_bytes()
    (directory / ".metadata").write_bytes(data[: len(data) // 2])


def hostile_metadata(directory, tmp_path):
    (directory / ".metadata").write_bytes(pickle.dumps(saved.Hostile(tmp_path / "ran")))


def hostile_entry(directory, tmp_path):
    tree = saved.metadata(directory)
    tree.planner_data = {"weight": saved.Hostile(tmp_path / "ran")}
    saved.write_metadata(directory, tree)


def outside(directory, tmp_path):
    tree = saved.metadata(directory)
    next(iter(tree.storage_data.values())).relative_path = "../secret"
    saved.write_metadata(directory, tree)


def beyond(directory, tmp_path):
    tree = saved.metadata(directory)
    tree.state_dict_metadata["weight"].chunks[0].sizes = torch.Size([3, 5])
    saved.write_metadata(directory, tree)


def pipe(directory, tmp_path):
    (directory / ".metadata").unlink()
    os.mkfifo(directory / ".metadata")


def nothing(directory, tmp_path):
    (directory / ".metadata").unlink()


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (damaged_metadata, "cut short"),
        (hostile_metadata, "nothing in it was run"),
        (hostile_entry, "nothing in it was run"),
        (outside, "points out of the directory"),
        (beyond, "does not lie in its shape"),
        (pipe, "no regular file"),
        (nothing, "is no checkpoint"),
    ],
)
def test_what_is_no_checkpoint_is_refused_in_a_sentence(checkpoint_verb, whole, tmp_path, damage, words):
    damage(whole, tmp_path)
    status, out, err = checkpoint_verb(whole, "--json")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert words in err
    assert not (tmp_path / "ran").exists()


def test_a_file_is_no_directory(checkpoint_verb, tmp_path):
    (tmp_path / "file").write_text("")
    assert "is no directory" in checkpoint_verb(tmp_path / "file")[2]
    assert "is no directory" in checkpoint_verb(tmp_path / "nowhere")[2]
    assert "cannot be read: File name too long" in checkpoint_verb(tmp_path / ("long" * 100))[2]


def test_a_save_without_coordination_is_named(checkpoint_verb, whole):
    (whole / ".metadata").rename(whole / "__0.metadata")
    assert "a save without coordination" in checkpoint_verb(whole)[2]


def test_packed_data_files_are_named(checkpoint_verb, whole):
    tree = saved.metadata(whole)
    for info in tree.storage_data.values():
        info.transform_descriptors = ["stream.zstd/1"]
    saved.write_metadata(whole, tree)
    status, _, err = checkpoint_verb(whole)
    assert (status, "packed by stream.zstd/1" in err) == (2, True)


# Data files that are lost: a map is drawn all the same.


def lost_file(path):
    path.unlink()


def cut_file(path):
    os.truncate(path, path.stat().st_size // 2)


def pipe_file(path):
    path.unlink()
    os.mkfifo(path)


def empty_file(path):
    path.write_bytes(b"")


@pytest.mark.parametrize(
    ("damage", "words"),
    [(lost_file, "is missing"), (cut_file, "cut short"), (pipe_file, "no regular file"), (empty_file, "cut short")],
)
def test_lost_data_files_are_missing_elements(checkpoint_verb, whole, damage, words):
    damage(whole / "__0_0.distcp")
    status, out, err = checkpoint_verb(whole, "--json")
    assert status == 1
    assert words in err
    missing = {t["name"]: t["missing_elements"] for t in json.loads(out)["tensors"]}
    assert missing["turned" if damage is not cut_file else "count"] > 0
    assert not json.loads(out)["whole"]


def repacked(path, place, change):
    """Write one chunk's archive anew, its records changed."""
    data = path.read_bytes()
    inside = data[place.start : place.start + place.length]
    old = path.with_name("old")
    old.write_bytes(inside)
    new = path.with_name("new")
    with zipfile.ZipFile(old) as source, zipfile.ZipFile(new, "w", zipfile.ZIP_STORED) as target:
        for record in source.infolist():
            content = change(record.filename, source.read(record))
            if content is not None:
                target.writestr(record.filename, content)
    content = new.read_bytes()
    path.write_bytes(data + content)
    for extra in (old, new):
        extra.unlink()
    return len(data), len(content)


def changed(directory, name, change):
    """Change the archive of one tensor, which then lies at the end of its file."""
    place = checkpoint(directory)[name].chunks[0].place
    start, length = repacked(directory / place.file, place, change)
    tree = saved.metadata(directory)
    info = next(info for key, info in tree.storage_data.items() if key.fqn == name)
    info.offset, info.length = start, length
    saved.write_metadata(directory, tree)


def test_an_archive_written_by_another_writer_is_read(whole):
    changed(whole, "weight", lambda _name, content: content)
    found = checkpoint(whole)
    assert found.whole
    with DataFiles(whole) as files:
        assert elements(files, found["weight"]).tobytes() == saved.number(saved.TENSORS["weight"])


def test_a_hostile_data_file_is_not_run(whole, tmp_path):
    hostile = pickle.dumps(saved.Hostile(tmp_path / "ran"), 2)
    changed(whole, "weight", lambda name, content: hostile if name.endswith("data.pkl") else content)
    found = checkpoint(whole)
    assert found["weight"].missing_elements == 12
    assert any("nothing in it was run" in problem for problem in found.problems)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda name, content: content[:20] if name.endswith("data/0") else content, "stores 5 elements"),
        (lambda name, content: None if name.endswith("data/0") else content, "has no 'data/0'"),
        (lambda name, content: None if name.endswith("data.pkl") else content, "has no 'data.pkl'"),
        (lambda name, content: b"\x80\x02}." if name.endswith("data.pkl") else content, "no plain tensor"),
        (lambda name, content: b"\x01junk" if name.endswith("data.pkl") else content, "operation"),
    ],
)
def test_an_archive_that_lies_stores_nothing(whole, change, words):
    changed(whole, "weight", change)
    found = checkpoint(whole)
    assert [tensor.name for tensor in found.broken] == ["weight"]
    assert words in found.problems[0]


def test_a_dtype_other_than_promised_is_wrong(whole):
    tree = saved.metadata(whole)
    tree.state_dict_metadata["weight"].properties.dtype = torch.int32
    saved.write_metadata(whole, tree)
    found = checkpoint(whole)
    assert "stores float32 where int32 is promised" in found.problems[0]
    assert not found.whole


def test_a_damaged_safetensors_header_is_refused(tmp_path):
    dcp.save({"a": torch.ones(3)}, storage_writer=dcp.HuggingFaceStorageWriter(str(tmp_path)), no_dist=True)
    (file,) = tmp_path.glob("*.safetensors")
    good = file.read_bytes()
    for bad in (b"", good[:5], good[:-4], struct.pack("<Q", 1 << 60) + good[8:], good.replace(b'"F32"', b'"X99"')):
        file.write_bytes(bad)
        with pytest.raises(FileError):
            checkpoint(tmp_path)
