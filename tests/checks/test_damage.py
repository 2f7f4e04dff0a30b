"""Two thousand damaged directories: each gives a map or a sentence, soon, and nothing in it is run."""

import random
import shutil
import time

import msgspec
import pytest
import torch
import torch.distributed.checkpoint as dcp

from shardviz.checks.checkpoints.checkpoint import checkpoint
from shardviz.checks.checkpoints.content import compare_checkpoints
from shardviz.checks.checkpoints.converting import convert
from shardviz.checks.checkpoints.mend import mend, rescue
from shardviz.core.errors import FileError
from tests.checks import saved

SLOWEST = 5.0
"""Seconds that one directory may take on a busy machine."""


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    place = tmp_path_factory.mktemp("originals")
    saved.save(place / "plain", {"a": torch.arange(6.0).view(2, 3), "b": torch.ones(2, dtype=torch.bfloat16), "n": 3})
    saved.cut(place / "broken", "w", [(0, 8, 8), (8, 1, 0), (9, 0, 1)])
    writer = dcp.HuggingFaceStorageWriter(str(place / "joined"), save_distributed=True)
    dcp.save({"a": torch.arange(6.0).view(2, 3), "b": torch.ones(4)}, storage_writer=writer, no_dist=True)
    return [place / name for name in ("plain", "broken", "joined")]


def damage(data, rng):
    """One way or another to spoil the bytes of a file."""
    data = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 5, 40])):
        at = rng.randrange(len(data) or 1)
        match rng.randrange(7):
            case 0:
                data[at : at + 1] = bytes([rng.randrange(256)])
            case 1:
                del data[at:]
            case 2:
                del data[at : at + rng.randrange(1, 9)]
            case 3:
                data[at:at] = rng.randbytes(rng.randrange(1, 9))
            case 4:
                data[at : at + 4] = rng.choice([b"\xff\xff\xff\xff", b"\0\0\0\0", b"\xff\xff\xff\x7f"])
            case 5:
                data[at:at] = data[rng.randrange(len(data) or 1) :][:60]
            case 6:
                data[at:at] = rng.choice(
                    [b"cos\nsystem\n", b"\x8c\x02os\x8c\x06system\x93", b"R", b"b", b"\x81", b"h\x05", b")"]
                )
    return bytes(data)


def looked_at(directory, thorough):
    """Everything that can be asked of a directory: whether it is whole, or the sentence that refuses it."""
    try:
        found = checkpoint(directory)
        assert msgspec.json.encode(found.document())
        assert found.text
        rescue(found)
        assert msgspec.json.encode(found.findings)
        if thorough:
            assert checkpoint(directory, verify=True).text
            list(compare_checkpoints(found, found))
            found.save(directory.with_suffix(".html"))
            mend(found, directory.with_suffix(".mended"))
            convert(found, directory.with_suffix(".safetensors"))
    except FileError as error:
        return str(error)
    return found.whole


@pytest.mark.parametrize("part", range(4))
def test_damaged_directories_give_a_map_or_a_sentence(originals, tmp_path, part):
    rng = random.Random(part)
    answers = []
    for number in range(500):
        directory = tmp_path / str(number)
        shutil.copytree(rng.choice(originals), directory)
        files = sorted(directory.iterdir())
        for path in rng.sample(files, 1 if rng.random() < 0.8 else len(files)):
            if rng.random() < 0.05:
                path.unlink()
            else:
                path.write_bytes(damage(path.read_bytes(), rng))
        begin = time.perf_counter()
        answers.append(looked_at(directory, number % 10 == 0))
        assert time.perf_counter() - begin < SLOWEST
        shutil.rmtree(directory)
    sentences = [answer for answer in answers if isinstance(answer, str)]
    assert all("\n" not in sentence and len(sentence) < 2000 for sentence in sentences)
    assert len(sentences) > 50
    assert answers.count(False) > 50


def test_a_large_sparse_file_is_not_read(tmp_path):
    with (tmp_path / ".metadata").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(FileError, match="more than the"):
        checkpoint(tmp_path)
