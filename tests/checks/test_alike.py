"""What is read faster because it is like what was read before comes out as if it were read alone."""

import pickle

import pytest
import torch

from shardviz.checks.checkpoints import archive
from shardviz.checks.checkpoints.checkpoint import checkpoint
from shardviz.checks.checkpoints.metadata import Place, read_metadata
from shardviz.core.errors import FileError
from tests.checks import saved


def outcome(data):
    try:
        return archive.stored_tensor(lambda at, size: data[at : at + size], Place("file", 0, len(data)), len(data))
    except (FileError, ValueError) as error:
        return str(error)


def test_a_changed_byte_of_an_archive_is_seen_though_a_like_one_was_read(tmp_path):
    saved.save(tmp_path / "ck", {"t": torch.arange(300.0)})
    place = checkpoint(tmp_path / "ck")["t"].chunks[0].place
    data = (tmp_path / "ck" / place.file).read_bytes()[place.start : place.start + place.length]
    for at in range(len(data)):
        changed = bytearray(data)
        changed[at] ^= 0x15
        archive._alike.clear()
        alone = outcome(bytes(changed))
        archive._alike.clear()
        outcome(data)
        assert outcome(bytes(changed)) == alone


@pytest.mark.parametrize("shape", [(3,), (2, 3), (1, 1, 2, 2), ()])
def test_many_entries_are_read_like_torchs_own(tmp_path, shape):
    state = {f"t{place}": torch.full((*shape[:-1], shape[-1] + place % 40) if shape else (), 1.0) for place in range(300)}
    saved.save(tmp_path / "ck", state)
    data = (tmp_path / "ck" / ".metadata").read_bytes()
    tree = pickle.loads(data)
    found = {tensor.name: tensor for tensor in read_metadata(data).tensors}
    assert found.keys() == state.keys()
    for index, info in tree.storage_data.items():
        (chunk,) = found[index.fqn].chunks
        assert (chunk.place.file, chunk.place.start, chunk.place.length) == (info.relative_path, info.offset, info.length)
        assert (chunk.offset, chunk.size) == (tuple(index.offset), tuple(state[index.fqn].shape))


@pytest.mark.parametrize("step", [1, 300, 70_000, 200_000_000, 3_000_000_000, 1 << 42])
def test_places_far_into_large_files_are_read_like_torchs_own(tmp_path, step):
    """Numbers of every width that pickle has, one after the other and mixed."""
    saved.save(tmp_path / "ck", {f"t{place}": torch.ones(2) for place in range(300)})
    tree = saved.metadata(tmp_path / "ck")
    for place, info in enumerate(tree.storage_data.values()):
        info.offset, info.length = place * step, (place * 7919) % 300 * (1 if place % 5 else 9_000)
    places = {promised.name: promised.chunks[0].place for promised in read_metadata(pickle.dumps(tree)).tensors}
    for index, info in tree.storage_data.items():
        assert (places[index.fqn].start, places[index.fqn].length) == (info.offset, info.length)
