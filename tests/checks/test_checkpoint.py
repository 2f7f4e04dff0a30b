"""What `sv.checkpoint` finds in directories saved by torch."""

import json
import struct

import msgspec
import pytest
import torch
import torch.distributed.checkpoint as dcp

from shardviz.checks.checkpoints.checkpoint import checkpoint
from shardviz.checks.checkpoints.content import elements
from shardviz.checks.checkpoints.datafiles import DataFiles
from shardviz.checks.checkpoints.dtypes import DTYPES, itemsize
from shardviz.core.errors import SpecError
from shardviz.core.spec import Spec
from tests.checks import saved


@pytest.mark.parametrize("more", [{}, {"single_file_per_rank": False}, {"thread_count": 2}])
def test_what_torch_saves_is_whole(tmp_path, more):
    found = checkpoint(saved.save(tmp_path, **more))
    assert found.whole
    assert {t.name: (t.shape, f"torch.{t.dtype}") for t in found.tensors} == {
        name: (tuple(tensor.shape), str(tensor.dtype)) for name, tensor in saved.TENSORS.items()
    }
    assert set(found.others) == {"epoch", "note"}


@pytest.mark.parametrize("name", saved.TENSORS)
def test_the_byte_range_is_that_of_the_elements(whole, name):
    found, tensor = checkpoint(whole)[name], saved.TENSORS[name]
    chunk = found.chunks[0]
    data = (whole / chunk.place.file).read_bytes()[chunk.tensor.byte_offset :][: chunk.tensor.bytes]
    stored = tensor.t() if name == "turned" else tensor  # torch keeps its order in memory
    assert data == saved.number(stored)
    for index in [(0,) * tensor.ndim, tuple(size - 1 for size in tensor.shape)] if tensor.numel() else []:
        place = found.where(index)
        assert (whole / place.file).read_bytes()[place.byte_offset :][: place.bytes] == saved.number(tensor[index])
    with DataFiles(whole) as files:
        assert elements(files, found).tobytes() == saved.number(tensor)


def test_every_dtype_has_its_size():
    for name in DTYPES.values():
        assert not hasattr(torch, name) or itemsize(name) == getattr(torch, name).itemsize
    assert {str(tensor.dtype).removeprefix("torch.") for tensor in saved.TENSORS.values()} <= set(DTYPES.values())


def test_a_chunk_that_stores_less_than_promised_is_missing(tmp_path):
    """The flagship loss: the metadata covers every element, the data files do not."""
    found = checkpoint(saved.cut(tmp_path, "w", [(0, 2, 2), (2, 6, 6), (8, 1, 0), (9, 0, 1)]))
    tensor = found["w"]
    assert (tensor.missing_elements, tensor.overlapping_elements, tensor.zero_chunks, found.whole) == (1, 0, 1, False)
    assert tensor.where((8,)) is None
    assert tensor.where((7,)) is not None
    assert "the chunk at 8 promises 1 and stores 0" in found.text
    assert "the chunk at 9 promises 0 and stores 1" in found.text


def test_a_report_is_true_where_something_was_found(tmp_path, whole):
    broken = checkpoint(saved.cut(tmp_path / "broken", "w", [(0, 8, 8), (8, 1, 0), (9, 0, 1)]))
    assert [(bool(found), found.ok) for found in (broken, checkpoint(whole))] == [(True, False), (False, True)]


def test_an_empty_chunk_at_the_end_is_normal(tmp_path):
    assert checkpoint(saved.cut(tmp_path, "w", [(0, 4, 4), (4, 5, 5), (9, 0, 0)])).whole


def test_gaps_and_overlaps_are_found(tmp_path):
    found = checkpoint(saved.cut(tmp_path, "w", [(0, 3, 3), (2, 3, 3), (7, 2, 2)]))
    assert (found["w"].missing_elements, found["w"].overlapping_elements, found.whole) == (2, 1, False)


def test_the_json_form(checkpoint_verb, tmp_path):
    status, out, err = checkpoint_verb(saved.cut(tmp_path, "w", [(0, 8, 8), (8, 1, 0), (9, 0, 1)]), "--json")
    document = json.loads(out)
    chunks = document["tensors"][0].pop("chunks")
    assert (status, err) == (1, "")
    assert document == {
        "tensors": [
            {
                "name": "w",
                "shape": [9],
                "dtype": "float32",
                "missing_elements": 1,
                "overlapping_elements": 0,
                "zero_chunks": 1,
            }
        ],
        "whole": False,
    }
    assert [(c["offset"], c["size"], c["stored"], c["bytes"]) for c in chunks] == [
        ([0], [8], 8, 32),
        ([8], [1], 0, 0),
        ([9], [0], 1, 4),
    ]
    for chunk in chunks:
        data = (tmp_path / chunk["file"]).read_bytes()[chunk["byte_offset"] :][: chunk["bytes"]]
        values = range(chunk["offset"][0] + 1, chunk["offset"][0] + 1 + chunk["stored"])
        assert data == struct.pack(f"<{chunk['stored']}f", *values)


def test_a_whole_checkpoint_ends_well(checkpoint_verb, whole, tmp_path):
    before = saved.contents(whole)
    assert checkpoint_verb(whole, "--json")[::2] == (0, "")
    status, out, _ = checkpoint_verb(whole, "-o", tmp_path / "map.html")
    assert (status, out.splitlines()[-1]) == (0, "whole: every chunk stores what is promised, every element once")
    page = (tmp_path / "map.html").read_text()
    assert "&lt;b&gt;bold&lt;/b&gt;\\n" in page
    assert "<b>bold" not in page
    assert saved.contents(whole) == before


def test_names_stay_text(whole):
    found = checkpoint(whole)
    bundle = found._repr_mimebundle_()
    assert "<b>" not in bundle["text/html"]
    assert "&lt;b&gt;" in found.picture("<b>bold</b>\n").svg()


def test_a_tensor_that_two_ranks_would_read(tmp_path):
    found = checkpoint(saved.cut(tmp_path, "w", [(0, 4, 4), (4, 5, 5)]))["w"]
    spec = Spec((9,), {"dp": 2, "tp": 2}, "_S(0, 2), S(0)")
    pieces = [[(p.box.offset[0], p.box.size[0]) for p in found.read_by(spec, rank)] for rank in range(4)]
    assert pieces == [[(0, 3)], [(5, 2)], [(3, 1), (4, 1)], [(7, 2)]]
    with pytest.raises(SpecError, match="shape"):
        found.read_by(Spec((8,), {"dp": 2}, "S(0)"), 0)


def test_totals_per_file_and_rank(whole):
    (file,) = checkpoint(whole).files
    count = sum(tensor.numel() for tensor in saved.TENSORS.values())
    size = sum(tensor.nbytes for tensor in saved.TENSORS.values())
    assert (file.name, file.rank, file.chunks, file.elements, file.bytes) == ("__0_0.distcp", 0, 9, count, size)


@pytest.mark.parametrize("joined", [False, True])
def test_what_the_hugging_face_writer_saves(tmp_path, joined):
    state = {name: tensor for name, tensor in saved.TENSORS.items() if name not in ("wide", "turned")}
    if joined:  # torch 2.13 joins floating-point tensors alone, and makes 0 of what has no dimension
        state = {name: tensor for name, tensor in state.items() if tensor.is_floating_point() and tensor.ndim}
    writer = dcp.HuggingFaceStorageWriter(str(tmp_path), save_distributed=joined, enable_consolidation=joined)
    dcp.save(dict(state), storage_writer=writer, no_dist=True)
    found = checkpoint(tmp_path)
    assert (found.format, found.whole, len(found)) == ("safetensors", True, len(state))
    for name, tensor in state.items():
        with DataFiles(tmp_path) as files:
            assert elements(files, found[name]).tobytes() == saved.number(tensor)


def test_only_some_tensors(checkpoint_verb, whole, tmp_path):
    (whole / "__0_0.distcp").rename(whole / "__0_0.lost")
    assert [tensor.name for tensor in checkpoint(whole, only="w").tensors] == ["weight", "wide"]
    assert [tensor.name for tensor in checkpoint(whole, only="w*g").tensors] == ["weight"]
    status, out, _ = checkpoint_verb(whole, "--tensor", "wei", "-o", tmp_path / "map.html")
    assert (status, "1 tensor in 1 chunk" in out, "only entries with 'wei' in their names" in out) == (1, True, True)
    page = (tmp_path / "map.html").read_text()
    assert (">weight<" in page, ">wide<" in page) == (True, False)
    status, _, err = checkpoint_verb(whole, "--tensor", "nowhere")
    assert (status, "no tensor with 'nowhere' in its name" in err) == (2, True)
    assert checkpoint_verb(whole, "--tensor", "w", "--mend", tmp_path / "out")[0] == 2


def test_where_an_element_lies_in_words(checkpoint_verb, whole):
    status, out, _ = checkpoint_verb(whole, "--at", "2, 3")
    lines = out.splitlines()
    assert (status, [line.split(":")[0] for line in lines]) == (0, ["weight at (2, 3)"])
    first, last = map(int, lines[0].split("bytes ")[1].split("-"))
    assert (whole / "__0_0.distcp").read_bytes()[first : last + 1] == struct.pack("<f", 11)
    assert checkpoint_verb(whole, "--at", "")[1].startswith("step at the one element: __0_0.distcp, bytes ")
    assert "no tensor has an element (2, 4)" in checkpoint_verb(whole, "--at", "2,4")[2]
    assert 'the one element of a tensor without dimensions is --at ""' in checkpoint_verb(whole, "--at", "9999")[2]
    assert 'of a tensor without dimensions it is --at ""' in checkpoint_verb(whole, "--at", "()")[2]
    assert checkpoint_verb(whole, "--at", "two")[0] == 2


def test_where_an_element_lies_as_json(checkpoint_verb, tmp_path):
    status, out, _ = checkpoint_verb(saved.cut(tmp_path, "w", [(0, 8, 8), (8, 1, 0), (9, 0, 1)]), "--at", "8", "--json")
    row = {"name": "w", "index": [8], "file": None, "byte_offset": None, "bytes": 0, "astray": False}
    assert (status, json.loads(out)) == (1, {"elements": [row]})  # one rank wrote it: how it was cut cannot be told


def test_what_the_ranks_of_a_mesh_would_read(checkpoint_verb, tmp_path):
    saved.cut(tmp_path, "w", [(0, 4, 4), (4, 4, 4), (8, 1, 0)])
    status, out, _ = checkpoint_verb(tmp_path, "--read-by", "dp=2, tp=2: _S(0, 2), S(0)")
    assert (status, out.splitlines()) == (
        1,
        [
            "rank 0 reads 3 elements, 12 bytes: 1 piece from 1 file",
            "rank 1 reads 2 elements, 8 bytes: 1 piece from 1 file",
            "rank 2 reads 2 elements, 8 bytes: 2 pieces from 1 file",
            "rank 3 reads 1 element, 4 bytes: 1 piece from 1 file; 1 element missing",
        ],
    )
    status, out, _ = checkpoint_verb(tmp_path, "--read-by", "dp=2, tp=2: _S(0, 2), S(0)", "--rank", 2, "--json")
    (row,) = json.loads(out)["ranks"]
    assert status == 0
    assert [(piece["name"], piece["offset"], piece["size"]) for piece in row["pieces"]] == [("w", [3], [1]), ("w", [4], [1])]
    assert checkpoint_verb(tmp_path, "--read-by", "dp=2: S(0)", "--rank", 2)[0] == 2
    assert checkpoint_verb(tmp_path, "--read-by", "dp=2: S(0")[0] == 2


def test_a_tensor_without_the_dimension_is_read_whole(checkpoint_verb, tmp_path):
    saved.save(tmp_path, {"a": torch.ones(4, 2), "b": torch.ones(3), "c": torch.ones(())})
    out = checkpoint_verb(tmp_path, "--read-by", "tp=2: S(1)")[1].splitlines()
    assert out == [f"rank {rank} reads 8 elements, 32 bytes: 3 pieces from 1 file" for rank in range(2)]


def test_a_page_says_which_maps_it_has(tmp_path):
    saved.save(tmp_path / "ck", {f"t{place}": torch.ones(1 + place) for place in range(30)})
    text = checkpoint(tmp_path / "ck").save(tmp_path / "map.html").read_text()
    assert "Drawn here: 24 of 30 tensors, the largest." in text
    assert "--tensor NAME -o map.html" in text
    assert "type “not whole”" in text
    assert "Drawn here" not in checkpoint(tmp_path / "ck", only="t1").save(tmp_path / "part.html").read_text()


def test_one_thing_at_a_time(checkpoint_verb, whole, tmp_path):
    assert checkpoint_verb(whole, "--mend", tmp_path / "a", "--to", tmp_path / "b.safetensors")[0] == 2
    assert checkpoint_verb(whole, "-o", tmp_path / "a.png")[0] == 2


def test_the_map_needs_no_torch(whole):
    from tests.test_architecture import in_fresh_interpreter

    program = (
        "import sys\nfrom shardviz.checks.checkpoints.checkpoint import checkpoint\n"
        f"found = checkpoint({str(whole)!r})\nprint(found.whole, len(found), 'torch' in sys.modules, 'numpy' in sys.modules)"
    )
    assert in_fresh_interpreter(program).split() == ["True", "9", "False", "False"]


def test_the_document_is_json(whole):
    assert json.loads(msgspec.json.encode(checkpoint(whole).document()))["whole"] is True
