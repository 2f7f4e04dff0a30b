"""Texts to copy that work where they are pasted, and files that are never overwritten."""

import subprocess
import sys

import pytest

import shardviz as sv
from shardviz.cli.verbs import cli
from shardviz.core.errors import FileError, SpecError
from shardviz.core.spec import parse
from shardviz.widgets.share import FILES, in_voila
from shardviz.widgets.snippets import FORMS, torch_script
from shardviz.widgets.state import Choice

from .fakes import FIVE, NINE, explorer, press

SECONDS = 120


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_text_is_sent_to_be_copied():
    ex = explorer()
    ex.share.unfolded = True
    for form, label in FORMS.items():
        ((message, _),) = press(ex.share, do="text", **{"as": form})
        assert message["label"] == label.capitalize()
        assert message["text"]
    assert press(ex.share, do="text", **{"as": "elephant"}) == []


@pytest.mark.parametrize("to", ["", "R, S(0)"])
def test_the_python_runs(here, to):
    ex = explorer()
    ex.state.to = to
    ex.state.reading = "sharding-order"
    exec(ex.share.text("python"), {})
    assert (here / "story.html").exists()


def test_the_command_runs(here):
    import shlex

    from click.testing import CliRunner

    ex = explorer()
    ex.state.method = "reverse-order"
    program, *arguments = shlex.split(ex.share.text("command"))
    assert program == "shardviz"
    assert CliRunner().invoke(cli, arguments).exit_code == 0
    assert (here / "story.html").exists()


@pytest.mark.ranks
@pytest.mark.parametrize(
    ("text", "maker", "to"),
    [
        (FIVE, "fsdp2-over-tp", "R, S(0)"),
        pytest.param("[4, 6] on dp=2, tp=2: S(0), S(1)", "distribute_tensor", "", marks=pytest.mark.slow),
    ],
)
def test_the_torch_script_runs_under_torchrun(tmp_path, text, maker, to):
    script = tmp_path / "script.py"
    script.write_text(torch_script(Choice(parse(text), to=to), maker))
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=4", str(script)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=SECONDS, env={**_environment(), "OMP_NUM_THREADS": "1"}
    )
    assert done.returncode == 0, done.stderr[-3000:]
    shape = parse(text).shape
    for held in sv.layout(text):
        flat = [index for index in range(parse(text).numel) if _held(held, index, shape)]
        assert (
            f"rank {held.rank} {list(held.coordinate)} holds {flat}; torch reports shape {held.shape}"
            in done.stdout.replace(str(tuple(held.coordinate)), str(list(held.coordinate)))
        )
    assert done.stdout.count("full_tensor() is right") == 4
    assert done.stdout.count("after redistribute") == (4 if to else 0)


def test_what_the_command_line_cannot_do_is_said():
    ex = explorer()
    ex.share.unfolded = True
    ex.state.to = "R, R"
    assert press(ex.share, do="text", **{"as": "command"}) == []
    assert ex.share.saved == "the command line tells no redistribution: copy this one as Python"


def test_what_was_typed_stays_text_in_a_line_of_python():
    ex = explorer()
    ex.state.follow = '0"); print("'
    assert ex.state.link().endswith('follow="0\\"); print(\\"")')


def test_a_tensor_that_plain_torch_cannot_make_has_no_script():
    with pytest.raises(SpecError, match="no script of torch alone"):
        torch_script(Choice(parse("[6] on dp=2: P(sum)")), "from_local")
    with pytest.raises(SpecError, match="is for a mesh of the ranks 0 to 1"):
        torch_script(Choice(parse("[6] on dp=2 (ranks 4-5): S(0)")), "distribute_tensor")
    ex = explorer(spec="[6] on dp=2: P(sum)")
    ex.share.unfolded = True
    assert press(ex.share, do="text", **{"as": "torch"}) == []
    assert "no script of torch alone" in ex.share.saved


@pytest.mark.parametrize("kind", FILES)
def test_files_are_written_here_and_never_overwritten(here, kind):
    ex = explorer()
    ex.share.unfolded = True
    press(ex.share, do="save", name="mine", **{"as": kind})
    path = here / f"mine-{kind}"
    assert ex.share.saved == f"Written to {path}"
    content = path.read_bytes()
    assert content
    ex.state.notation = NINE
    press(ex.share, do="save", name="mine", **{"as": kind})
    assert "is there already, and was left as it is" in ex.share.saved
    assert path.read_bytes() == content


@pytest.mark.parametrize("name", ["", " ", "../up", "/etc/x", ".hidden", "a/b", "a\nb", "a\0b", "<b>", "x" * 300, "\u202e"])
def test_a_name_that_leads_elsewhere_is_refused(here, name):
    ex = explorer()
    ex.share.unfolded = True
    with pytest.raises(FileError, match="a file name without folders"):
        ex.share.save("layout.svg", name)
    assert list(here.iterdir()) == []


def test_a_visitor_of_voila_gets_the_file_in_the_browser(here, monkeypatch):
    monkeypatch.setenv("SERVER_SOFTWARE", "voila/0.5.13")
    assert in_voila()
    ex = explorer()
    ex.share.unfolded = True
    ((message, buffers),) = press(ex.share, do="save", name="mine", **{"as": "layout.svg"})
    assert message == {"do": "download", "name": "mine-layout.svg"}
    assert buffers[0].startswith(b"<svg")
    assert list(here.iterdir()) == []


def _environment():
    import os

    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def _held(held, flat, shape):
    index = []
    for size in reversed(shape):
        index.append(flat % size)
        flat //= size
    return all(any(start <= i < stop for start, stop in runs) for i, runs in zip(reversed(index), held.runs, strict=True))
