"""A rescue explains what was stored, or trusts nothing of it: unequal parts, lost files, sizes that nothing explains."""

import json
import math

import pytest
import torch
import torch.distributed.checkpoint as dcp
from hypothesis import given
from hypothesis import strategies as st

from shardviz.checks.checkpoints.archive import Stored
from shardviz.checks.checkpoints.checkpoint import Checkpoint, checkpoint
from shardviz.checks.checkpoints.chunks import Box
from shardviz.checks.checkpoints.facts import Chunk, StoredTensor
from shardviz.checks.checkpoints.mend import mend, rescue
from shardviz.checks.checkpoints.metadata import Place
from shardviz.core.spec import Spec
from tests import oracle
from tests.checks import programs, saved
from tests.checks.test_origin import MORE, TWO_CUTS, played

STALE = -77.0


def promises(n, ranks):
    """The offset and size that torch promises for each rank's equal chunk."""
    return [(held[0], len(held)) if held else (n, 0) for held in oracle.chunks(list(range(n)), ranks)]


def cut(directory, n, stored):
    """A checkpoint of one vector whose chunks promise equal parts and store other ones."""
    pieces = [(offset, size, count) for (offset, size), count in zip(promises(n, len(stored)), stored, strict=True)]
    values = [torch.arange(offset + 1.0, offset + 1 + count) for offset, _, count in pieces]
    return saved.cut(directory, "w", pieces), torch.cat(values)


def loaded(directory, n):
    state = {"w": torch.full((n,), STALE)}
    dcp.load(state, checkpoint_id=directory, no_dist=True)
    return state["w"]


@pytest.mark.parametrize(("n", "stored"), [(10, (1, 2, 3, 4)), (3, (1, 2)), (3, (2, 0, 1)), (5, (0, 3, 2))])
def test_parts_that_follow_each_other_come_back_whole(tmp_path, n, stored):
    directory, right = cut(tmp_path / "ck", n, stored)
    assert not checkpoint(directory).whole
    mended = mend(checkpoint(directory), tmp_path / "out")
    assert mended.whole
    assert torch.equal(loaded(tmp_path / "out", n), right)
    assert f"each rank's part follows the former's: {', '.join(map(str, stored))}" in mended.text


@pytest.mark.ranks
def test_parts_that_ranks_gave_to_from_local_come_back_whole(four_ranks, tmp_path):
    parts, shapes = [(1, 2, 3, 4), (4, 3, 2, 1), (5, 5, 5, 2)], [(10, 1), (10, 3), (17, 2)]
    four_ranks.apply(programs.save_unequal, str(tmp_path / "ck"), parts, shapes, timeout=60)
    assert len(checkpoint(tmp_path / "ck").broken) == 2  # 5, 5, 5, 2 are equal chunks
    mended = mend(checkpoint(tmp_path / "ck"), tmp_path / "out")
    state = {f"t{place}": torch.full(shape, STALE) for place, shape in enumerate(shapes)}
    dcp.load(state, checkpoint_id=tmp_path / "out", no_dist=True)
    assert all(torch.equal(t, torch.arange(1.0, 1 + t.numel()).view(t.shape)) for t in state.values())
    assert mended.whole


@pytest.mark.parametrize("stored", [(3, 3, 5, 1), (3, 3, 3, 2), (0, 3, 3, 1)])
def test_what_nothing_explains_is_not_partly_believed(checkpoint_verb, tmp_path, stored):
    directory, _ = cut(tmp_path / "ck", 10, stored)
    before = saved.contents(directory)
    found = checkpoint(directory)
    held = [chunk for chunk in found["w"].chunks if chunk.stored]
    assert list(found.rescues["w"].doubted) == held
    assert f"no way of cutting explains what its ranks stored: {len(held)} chunks in doubt" in found.text
    assert found.text.endswith("; 1 tensor with chunks in doubt")
    status, out, _ = checkpoint_verb(directory, "--mend", tmp_path / "out", "--json")
    document = json.loads(out)
    assert (status, document["whole"]) == (1, False)
    assert document["gone"] == [{"name": "w", "offset": [0], "size": [10]}]
    assert [row["offset"] for row in document["doubted"]] == [list(chunk.offset) for chunk in held]
    with pytest.raises(dcp.api.CheckpointException, match="Missing key"):  # nothing stale is left without a word
        loaded(tmp_path / "out", 10)
    again = checkpoint(tmp_path / "out")
    assert (again.whole, again.problems) == (False, ("w is named in the metadata, and nothing of it is stored",))
    assert saved.contents(directory) == before


def test_a_lost_file_says_nothing_against_the_others(tmp_path):
    saved.save(tmp_path / "ck", {"a": torch.arange(4.0), "w": torch.arange(6.0)}, single_file_per_rank=False)
    tree = saved.metadata(tmp_path / "ck")
    (lost,) = [info.relative_path for index, info in tree.storage_data.items() if index.fqn == "a"]
    (tmp_path / "ck" / lost).unlink()
    mended = mend(checkpoint(tmp_path / "ck"), tmp_path / "out")
    assert [(r.tensor.name, r.gone_elements, r.doubted) for r in mended.rescues] == [("a", 4, ())]
    assert mended
    assert not mended.ok


@st.composite
def unequal(draw):
    """Parts of a vector, one per rank, of any sizes; and what torch keeps of them."""
    stored = draw(st.lists(st.integers(0, 5), min_size=2, max_size=5))
    return sum(stored), stored


@given(unequal(), st.data())
def test_no_part_is_ever_put_where_it_does_not_belong(tmp_path_factory, case, data):
    n, stored = case
    kept, begin, right = {}, 0, {}
    for rank, ((offset, size), count) in enumerate(zip(promises(n, len(stored)), stored, strict=True)):
        kept.setdefault(offset, []).append((rank, size, count, begin))
        begin += count
    chunks = []
    for offset, ranks in kept.items():
        rank, size, count, at = data.draw(st.sampled_from(ranks))  # of several at one offset torch keeps one
        place = Place(f"__{rank}_0.distcp", 0, 0)
        chunks.append(Chunk((offset,), (size,), place, Stored("int8", (count,), (1,), 0, 0)))
        right[offset] = Box((at,), (count,))
    tensor = StoredTensor("w", (n,), "int8", tuple(chunks))
    found = Checkpoint(tmp_path_factory.getbasetemp(), (tensor,), (), (), "torch")
    for rescued in rescue(found):
        for chunk, box in zip(tensor.chunks, rescued.boxes, strict=True):
            assert box in (None, right[chunk.offset[0]])
        whole = sum(math.prod(c.tensor.shape) for c in chunks) == n
        assert whole or rescued.gone


def test_a_wrong_place_would_be_seen():
    assert promises(10, 4) == [(0, 3), (3, 3), (6, 3), (9, 1)]
    assert Box((3,), (2,)) not in (None, Box((1,), (2,)))


@pytest.mark.parametrize("kept", [0, 1, 2])
def test_what_torch_lost_is_never_put_where_it_does_not_belong(tmp_path, kept):
    """The other explanations leave right what the way of cutting explains, or say that it is in doubt."""
    right = {}
    for place, (shape, mesh, placements) in enumerate([*TWO_CUTS, *MORE]):
        tensor, truth = played(Spec(shape, mesh, placements), kept)
        if not tensor.whole and not tensor.overlapping_elements:
            right[f"t{place}"] = StoredTensor(f"t{place}", shape, "int8", tensor.chunks), truth, math.prod(mesh.values())
    for tensor, truth, ranks in right.values():
        for rank in range(ranks):
            (tmp_path / f"__{rank}_0.distcp").touch()
        (rescued,) = rescue(Checkpoint(tmp_path, (tensor,), (), (), "torch"))
        for path in tmp_path.iterdir():
            path.unlink()
        for box, true, chunk in zip(rescued.boxes, truth, tensor.chunks, strict=True):
            assert box in (true, None)
            assert box == true or chunk in rescued.doubted
