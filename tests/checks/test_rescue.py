"""Checkpoints broken by plain torch on real ranks, and rescued: every element against what the ranks held."""

import json
import subprocess
import sys

import pytest
import torch
import torch.distributed.checkpoint as dcp

from shardviz.checks.checkpoints.checkpoint import checkpoint
from shardviz.checks.checkpoints.mend import mend
from shardviz.checks.checkpoints.reading import locate
from shardviz.cli.verbs import main
from shardviz.core.errors import FileError, RankFailure
from shardviz.ranks.cluster import Ranks
from tests.checks import programs, saved

STALE = -77.0

pytestmark = pytest.mark.ranks


@pytest.fixture(scope="module")
def nine(eight_ranks, tmp_path_factory):
    """A model of width 9 with AdamW on (4, 2), saved by plain torch, and what it held."""
    place = tmp_path_factory.mktemp("nine")
    eight_ranks.apply(programs.save_trained, str(place / "saved"), 9, 4, 2, str(place / "truth"), timeout=60)
    return place / "saved", torch.load(place / "truth")


def loaded(directory, truth):
    """Every tensor as plain torch loads it in one process; what it does not load is `STALE`."""
    state = {name: torch.full_like(tensor, STALE) for name, tensor in truth.items()}
    dcp.load(state, checkpoint_id=directory, no_dist=True)
    return state


def command(*arguments):
    """The command line in a process of its own: exit status, standard output."""
    run = subprocess.run([sys.executable, "-m", "shardviz", *map(str, arguments)], capture_output=True, text=True, timeout=120)
    assert "Traceback" not in run.stderr
    return run.returncode, run.stdout


def check_rescue(directory, truth, out):
    """Mend; every element is what the ranks held, or is named as gone and is in none of the data files."""
    before = saved.contents(directory)
    mended = mend(checkpoint(directory), out)
    assert saved.contents(directory) == before
    gone = {name: torch.zeros(tensor.shape, dtype=torch.bool) for name, tensor in truth.items()}
    for rescue in mended.rescues:
        for box in rescue.gone:
            gone[rescue.tensor.name][tuple(slice(a, a + n) for a, n in zip(box.offset, box.size, strict=True))] = True
    files = b"".join(path.read_bytes() for path in directory.glob("*.distcp"))
    for name, tensor in loaded(out, truth).items():
        lost = gone[name]
        assert torch.equal(tensor[~lost], truth[name][~lost]), name
        assert (tensor[lost] == STALE).all(), name
        for row in truth[name][lost]:
            assert row.numpy().tobytes() not in files
    return mended, {name: lost for name, lost in gone.items() if lost.any()}


def test_the_flagship_loss_is_seen_and_comes_back_whole(nine, tmp_path):
    directory, truth = nine
    found = checkpoint(directory)
    rows = {t.name: t.covered.gaps[0].offset[0] for t in found.broken}
    assert rows == {name: 8 for name in truth if "first" in name and "step" not in name}
    mended, gone = check_rescue(directory, truth, tmp_path / "out")
    assert (mended.whole, gone) == (True, {})
    assert checkpoint(tmp_path / "out").whole
    assert all("dim0=4, dim1=2" in rescue.text for rescue in mended.rescues)


def test_the_lost_row_is_shown_where_it_really_lies(nine):
    directory, truth = nine
    found = checkpoint(directory)
    assert found.strays.keys() == {tensor.name for tensor in found.broken}
    for name, strays in found.strays.items():
        assert [(stray.chunk.rank, stray.box.offset[0], stray.box.size[0]) for stray in strays] == [(7, 8, 1)]
        (answer,) = (one for one in locate(found, (8,) * truth[name].ndim) if one.name == name)
        assert (answer.astray, answer.location.file) == (True, "__7_0.distcp")
        data = (directory / answer.location.file).read_bytes()[answer.location.byte_offset :][: answer.location.bytes]
        assert data == truth[name][(8,) * truth[name].ndim].numpy().tobytes()
        assert any(cell.rank == 7 and cell.span[:2] == (8, 9) for cell in found.picture(name).scene.cells)
    assert "8 really lies in __7_0.distcp" in found.text
    assert "30 elements missing, 30 of them stored where they are not promised (--mend brings them back)" in found.text


def test_without_a_rescue_the_row_is_stale(nine, eight_ranks):
    """The loss is real: torch loads into the same layout without an error, and the last element keeps its old value."""
    directory, truth = nine
    for state in eight_ranks.apply(programs.load_into_sharded, str(directory), 9, 4, 2, False, timeout=60)[:1]:
        weight = torch.tensor(state["model.first.weight"])
        assert torch.equal(weight[:8], truth["model.first.weight"][:8])
        assert not torch.equal(weight[8], truth["model.first.weight"][8])


def test_corrected_offsets_save_and_load_whole(nine, eight_ranks, tmp_path):
    _, truth = nine
    eight_ranks.apply(programs.save_trained, str(tmp_path / "ck"), 9, 4, 2, str(tmp_path / "truth"), True, timeout=60)
    assert checkpoint(tmp_path / "ck").whole
    right = torch.load(tmp_path / "truth")
    assert all(torch.equal(right[name], truth[name]) for name in truth)
    assert all(torch.equal(tensor, right[name]) for name, tensor in loaded(tmp_path / "ck", right).items())
    for state in eight_ranks.apply(programs.load_into_sharded, str(tmp_path / "ck"), 9, 4, 2, True, timeout=60):
        assert all(torch.equal(torch.tensor(state[name]), right[name]) for name in right)


def test_a_mended_checkpoint_loads_onto_another_mesh(nine, four_ranks, tmp_path):
    directory, truth = nine
    mend(checkpoint(directory), tmp_path / "out")
    for state in four_ranks.apply(programs.load_into_sharded, str(tmp_path / "out"), 9, 2, 2, False, timeout=60):
        assert all(torch.equal(torch.tensor(state[name]), truth[name]) for name in truth)


def test_the_command_line_mends(nine, tmp_path):
    directory, truth = nine
    assert command("checkpoint", directory, "--json")[0] == 1
    status, out = command("checkpoint", directory, "--mend", tmp_path / "out")
    assert (status, "model.first.weight: whole again" in out) == (0, True)
    status, out = command("checkpoint", tmp_path / "out", "--json")
    assert (status, json.loads(out)["whole"]) == (0, True)
    assert all(torch.equal(tensor, truth[name]) for name, tensor in loaded(tmp_path / "out", truth).items())


def test_a_rescued_checkpoint_converts_to_the_right_shape(nine, tmp_path):
    from safetensors.torch import load_file

    directory, truth = nine
    mend(checkpoint(directory), tmp_path / "out")
    assert command("checkpoint", tmp_path / "out", "--to", tmp_path / "all.safetensors", "--with-optimizer")[0] == 0
    state = load_file(tmp_path / "all.safetensors")
    assert set(state) == set(truth)
    assert all(torch.equal(state[name], truth[name]) for name in truth)


def test_the_original_stays_as_it_was_whatever_is_asked(nine, tmp_path):
    directory, _ = nine
    before = saved.contents(directory)
    found = checkpoint(directory)
    for out in (directory, directory / "inside", directory.parent):
        with pytest.raises(FileError):
            mend(found, out)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("mine")
    with pytest.raises(FileError, match="not empty"):
        mend(found, tmp_path / "full")
    assert saved.contents(directory) == before
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["file"]


def test_three_cuts_name_what_is_gone(eight_ranks, tmp_path):
    texts = [f"[{n}] on dp=2, ep=2, tp=2: _S(0, 4), S(0), S(0)" for n in (5, 6, 10)]
    eight_ranks.apply(programs.save_specs, str(tmp_path / "ck"), texts, timeout=60)
    truth = {f"t{n}": torch.arange(1.0, 1 + int(text[1:].split("]")[0])) for n, text in enumerate(texts)}
    mended = mend(checkpoint(tmp_path / "ck"), tmp_path / "out")
    state = loaded(tmp_path / "out", truth)
    named = {
        rescue.tensor.name: {index for box in rescue.gone for index in range(box.offset[0], box.offset[0] + box.size[0])}
        for rescue in mended.rescues
    }
    stale = {name: set((tensor == STALE).nonzero().flatten().tolist()) for name, tensor in state.items()}
    assert {name: indices for name, indices in stale.items() if indices} == {n: i for n, i in named.items() if i}
    assert any(stale.values())
    for name, tensor in state.items():
        kept = tensor != STALE
        assert torch.equal(tensor[kept], truth[name][kept])


def test_three_cuts_under_fsdp2_with_optimizer(eight_ranks, tmp_path):
    text = "[6] on dp=2, ep=2, tp=2: _S(0, 4), S(0), S(0)"
    eight_ranks.apply(programs.save_one, str(tmp_path / "ck"), text, str(tmp_path / "truth"), timeout=60)
    mended, gone = check_rescue(tmp_path / "ck", torch.load(tmp_path / "truth"), tmp_path / "out")
    assert len(mended.rescues) == 3
    assert mended.whole == (not gone)


def test_the_hugging_face_writer_loses_the_row_too(eight_ranks, tmp_path):
    text = "[9] on dp=4, tp=2: _S(0, 2), S(0)"
    for storage in ("hf", "hf-whole"):
        eight_ranks.apply(programs.save_specs, str(tmp_path / storage), [text], storage, timeout=60)
        found = checkpoint(tmp_path / storage)
        assert (found.format, found["t0"].shape, found["t0"].missing_elements) == ("safetensors", (10,), 1)
    with pytest.raises(FileError, match="only torch's own format"):
        mend(found, tmp_path / "out")


def test_a_vocabulary_that_torch_refuses_is_saved_with_corrected_offsets(eight_ranks, tmp_path):
    texts = ["[32001] on dp=4, tp=2: _S(0, 2), S(0)"]
    with pytest.raises(RankFailure, match="overlapping chunks"):
        eight_ranks.apply(programs.save_specs, str(tmp_path / "refused"), texts, timeout=60)
    eight_ranks.apply(programs.save_specs, str(tmp_path / "ck"), texts, None, True, timeout=60)
    assert checkpoint(tmp_path / "ck").whole
    truth = {"t0": torch.arange(1.0, 32_002.0)}
    assert torch.equal(loaded(tmp_path / "ck", truth)["t0"], truth["t0"])


def test_nine_ranks_come_back_whole(tmp_path):
    text = "[11] on dp=3, tp=3: _S(0, 3), S(0)"
    with Ranks(9, timeout=60) as ranks:
        ranks.apply(programs.save_specs, str(tmp_path / "one"), [text])
        ranks.apply(programs.save_one, str(tmp_path / "adam"), text, str(tmp_path / "truth"))
    mended, gone = check_rescue(tmp_path / "one", {"t0": torch.arange(1.0, 12.0)}, tmp_path / "out")
    assert (mended.whole, gone, len(mended.rescues)) == (True, {}, 1)
    # Of two shards at the same wrong offset torch writes one, the empty one for some of the optimizer's tensors.
    mended, gone = check_rescue(tmp_path / "adam", torch.load(tmp_path / "truth"), tmp_path / "moments")
    assert [rescue.gone_elements for rescue in mended.rescues if rescue.tensor.name == "model.weight"] == [0]
    assert mended.whole == (not gone)


def test_sixteen_ranks_get_one_row_back_and_name_the_two_that_are_gone(tmp_path, capsys):
    with Ranks(16, timeout=60) as ranks:
        ranks.apply(programs.save_specs, str(tmp_path / "ck"), ["[17] on dp=8, tp=2: _S(0, 2), S(0)"])
    mended, gone = check_rescue(tmp_path / "ck", {"t0": torch.arange(1.0, 18.0)}, tmp_path / "out")
    assert not mended.whole
    assert gone["t0"].nonzero().flatten().tolist() == [15, 16]
    with pytest.raises(SystemExit) as ended:
        main(["checkpoint", str(tmp_path / "ck"), "--mend", str(tmp_path / "again"), "--json"])
    assert ended.value.code == 1
    assert json.loads(capsys.readouterr().out)["gone"] == [{"name": "t0", "offset": [15], "size": [2]}]
