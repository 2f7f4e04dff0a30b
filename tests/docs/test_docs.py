"""The documents: links lead somewhere, examples run, and every command and option they name exists."""

import ast
import doctest
import re
import shlex
from pathlib import Path

import click
import pytest

import shardviz
from shardviz.cli.verbs import cli

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
READERS = {"model", "dcp", "cluster"}
"""Names that stand for something of the reader's own: a statement that uses one is read, and not run."""

each_document = pytest.mark.parametrize("path", DOCUMENTS, ids=[path.name for path in DOCUMENTS])


def blocks(text, *languages):
    return [body for language, body in re.findall(r"^```(\w*)\n(.*?)^```", text, re.M | re.S) if language in languages]


def anchors(path):
    headings = re.findall(r"^#+ (.+)$", path.read_text(), re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def dead_links(path, text):
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"https?://|mailto:", target):
            continue
        file, _, anchor = target.partition("#")
        there = path.parent / file if file else path
        if not there.exists() or (anchor and anchor not in anchors(there)):
            yield target


def unknown_words(line):
    """The verbs and options of a command line of shardviz that do not exist."""
    command, words = cli, shlex.split(line, comments=True)[1:]
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        verb, words = words[0], words[1:]
        for name in verb.split("|"):
            if command.get_command(None, name) is None:
                yield name
        command = command.get_command(None, verb.split("|")[0]) or command
    options = {option for parameter in command.params for option in parameter.opts} | {"--help"}
    yield from (word for word in words if word.startswith("-") and word != "-" and word.split("=")[0] not in options)


def command_lines(text):
    for body in blocks(text, "", "console", "sh", "bash"):
        for line in body.splitlines():
            for part in line.split(" · "):
                if part.startswith("shardviz "):
                    yield re.split(r"\s{2,}", part)[0]


@each_document
def test_links_lead_somewhere(path):
    assert list(dead_links(path, path.read_text())) == []


def test_a_dead_link_would_be_seen():
    readme = ROOT / "README.md"
    assert list(dead_links(readme, "[a](docs/none.md) [b](#no-heading) [c](CONTRIBUTING.md) [d](#start)")) == [
        "docs/none.md",
        "#no-heading",
    ]


@each_document
def test_examples_with_their_results_run(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = "\n".join(blocks(path.read_text(), "pycon"))
    example = doctest.DocTestParser().get_doctest(text, {}, path.name, str(path), 0)
    told = []
    doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(example, out=told.append)
    assert "".join(told) == ""


@each_document
def test_code_is_code_and_names_what_exists(path):
    for body in blocks(path.read_text(), "python"):
        for node in ast.walk(ast.parse(body)):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "sv":
                assert hasattr(shardviz, node.attr), node.attr


@pytest.mark.ranks
def test_the_readmes_code_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (code, *_) = blocks((ROOT / "README.md").read_text(), "python")
    names = {}
    for statement in ast.parse(code).body:
        used = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
        if not used & READERS:
            exec(compile(ast.Module([statement], []), "README.md", "exec"), names)
    assert (tmp_path / "story.html").exists()


@each_document
def test_commands_and_options_exist(path):
    assert [word for line in command_lines(path.read_text()) for word in unknown_words(line)] == []


def test_an_unknown_command_or_option_would_be_seen():
    assert list(unknown_words("shardviz layuot")) == ["layuot"]
    assert list(unknown_words('shardviz draw "[6] on tp=4: S(0)" --stoory')) == ["--stoory"]
    assert list(unknown_words("shardviz bench layout|nothing")) == ["nothing"]
    assert "shardviz bench layout|draw|ranks|audit|checkpoint|guard" in list(command_lines((ROOT / "README.md").read_text()))
