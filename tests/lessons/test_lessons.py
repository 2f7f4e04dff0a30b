"""What a notebook's author, a person and a teacher rely on: the interface, progress, handouts, sheets and the command line."""

import json
import os
import stat

import nbformat
import pytest

from shardviz import lessons
from shardviz.cli.lab import notebooks_folder
from shardviz.core.errors import SpecError
from shardviz.lessons import praise
from shardviz.lessons.catalogue import IDS, find
from shardviz.lessons.handout import write_handout
from shardviz.lessons.sheet import sheet_page
from tests.lessons import solved


def chunk_sizes(size, ranks):
    return solved.chunk_sizes(size, ranks)


# The interface.


def test_an_unknown_exercise_is_told_with_those_there_are():
    with pytest.raises(SpecError, match="no exercise 'chunk_sizes'; there are read-the-picture, chunk-sizes"):
        lessons.show("chunk_sizes")


def test_the_seed_comes_from_start_or_the_environment_or_is_0(monkeypatch):
    by_default = lessons.given("empty-ranks")
    assert by_default == find("empty-ranks").given("0")
    lessons.start(seed=5)
    lessons.start(name="Ada")  # what is left out stays
    assert lessons.given("empty-ranks") == find("empty-ranks").given("5") != by_default
    monkeypatch.setattr(lessons.session, "_begun", None)
    monkeypatch.setenv("SHARDVIZ_SEED", "ada")
    assert lessons.given("empty-ranks") == find("empty-ranks").given("ada")


def test_hints_come_one_at_a_time_and_are_counted():
    exercise = find("unpad")
    for number, text in enumerate(exercise.hints, 1):
        assert lessons.hint("unpad").words.startswith(f"Hint {number} of 3: {text}")
    assert "That was the last one" in lessons.hint("unpad").words
    assert json.loads((lessons.session.current().store.path).read_text())["exercises"]["unpad"]["hints"] == 3


def test_a_hint_is_offered_after_the_second_try():
    assert "lessons.hint" not in lessons.check("unpad", lambda gathered, sizes: []).words
    assert 'lessons.hint("unpad")' in lessons.check("unpad", lambda gathered, sizes: []).words


def test_a_solution_is_shown_on_request_after_asking():
    first = lessons.solution("unpad").words
    assert "3 hints are left" in first
    assert "def unpad" not in first
    assert "def unpad(gathered, sizes):" in lessons.solution("unpad", again=True).words
    lessons.check("chunk-sizes", chunk_sizes)
    assert "def chunk_sizes" in lessons.solution("chunk-sizes").words  # who solved it need not ask twice
    answer = find("empty-ranks").right(lessons.given("empty-ranks"))
    assert f"For this seed it gives `{answer}`" in lessons.solution("empty-ranks", again=True).words


@pytest.mark.parametrize("name", IDS)
def test_there_is_a_solution_to_show(name):
    assert f"def {find(name).name}(" in lessons.solution(name, again=True).words


def test_praise_is_true():
    assert lessons.check("chunk-sizes", chunk_sizes).words.endswith(praise.FIRST)
    lessons.hint("split-and-pad")
    assert lessons.check("split-and-pad", solved.split_and_pad).words.endswith(praise.HINTED)
    lessons.solution("unpad", again=True)
    assert lessons.check("unpad", solved.unpad).words.endswith(praise.SHOWN)
    assert lessons.check("unpad", solved.unpad).words.endswith(find("unpad").done)  # praise once is enough
    for _ in range(4):
        lessons.check("bytes-sent", lambda size, itemsize, ranks: -1)
    assert lessons.check("bytes-sent", solved.bytes_sent).words.endswith(praise.STAYED)


def test_notes_show_themselves_and_keep_html_text():
    note = lessons.Note("**bold** <script>alert(1)</script> `a < b`")
    assert "<strong>bold</strong> &lt;script&gt;" in note._repr_html_()
    assert str(note) == repr(note) == note.words


# Progress.


def test_progress_is_kept_for_the_owner_alone(progress_folder):
    lessons.check("chunk-sizes", chunk_sizes)
    file = progress_folder / "progress.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(progress_folder.stat().st_mode) == 0o700
    assert json.loads(file.read_text())["exercises"]["chunk-sizes"]["solved"] is True
    assert "| 02 shards and padding | chunk-sizes | ✓ solved | 1 |" in lessons.progress().words
    assert f"1 of {len(IDS)} solved" in lessons.progress().words
    assert os.listdir(progress_folder) == ["progress.json"]


def test_progress_survives_the_kernel_and_is_one_per_person(progress_folder, monkeypatch):
    lessons.start(name="Ada L.")
    lessons.check("chunk-sizes", chunk_sizes)
    monkeypatch.setattr(lessons.session, "_begun", None)
    assert "✓ solved" not in lessons.progress().words
    lessons.start(name="Ada L.")
    assert "✓ solved" in lessons.progress().words
    assert (progress_folder / "progress-ada-l.json").exists()


def test_what_is_solved_stays_solved():
    lessons.check("chunk-sizes", chunk_sizes)
    lessons.check("chunk-sizes", lambda size, ranks: [])
    assert "chunk-sizes | ✓ solved | 1 |" in lessons.progress().words


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"lessons": 1, "exercises": {"x": 3}}', b"\xff\xfe"])
def test_a_damaged_file_is_set_aside_with_a_sentence(progress_folder, damage):
    progress_folder.mkdir()
    (progress_folder / "progress.json").write_bytes(damage)
    assert "was damaged" in lessons.check("chunk-sizes", chunk_sizes).words
    assert "was damaged" not in lessons.progress().words
    assert (progress_folder / "progress.json.damaged").read_bytes() == damage


def test_a_file_of_a_later_version_is_left_alone(progress_folder):
    progress_folder.mkdir()
    later = b'{"lessons": 2, "exercises": {}}'
    (progress_folder / "progress.json").write_bytes(later)
    assert "later version" in lessons.check("chunk-sizes", chunk_sizes).words
    assert "✓ solved" in lessons.progress().words
    assert (progress_folder / "progress.json").read_bytes() == later


def test_where_nothing_can_be_written_progress_is_kept_for_the_session(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SHARDVIZ_PROGRESS", str(tmp_path / "file" / "folder"))
    for _ in range(2):
        assert "only until this notebook's kernel ends" in lessons.check("chunk-sizes", chunk_sizes).words
    assert "✓ solved" in lessons.progress().words


def test_the_file_is_where_data_belongs(monkeypatch, tmp_path):
    monkeypatch.delenv("SHARDVIZ_PROGRESS")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert lessons.session.current().store.path == tmp_path / "shardviz" / "progress.json"


# For the teacher.


def notebook(*cells):
    made = nbformat.v4.new_notebook()
    for kind, source, *tags in cells:
        cell = nbformat.v4.new_markdown_cell(source) if kind == "text" else nbformat.v4.new_code_cell(source)
        cell.metadata["tags"] = tags
        made.cells.append(cell)
    return made


def test_a_handout_has_no_answers_and_sets_the_seed(tmp_path):
    source = tmp_path / "notebooks"
    source.mkdir()
    made = notebook(
        ("code", "from shardviz import lessons"),
        ("text", "the task"),
        ("code", "def f(): ...", "exercise"),
        ("text", "THE ANSWER", "answer"),
        ("code", "TEACHERS = 1", "teacher", "other"),
    )
    made.cells[0].outputs = [nbformat.v4.new_output("stream", text="THE ANSWER")]
    nbformat.write(made, source / "01.ipynb")
    nbformat.write(notebook(("code", "1 + 1")), source / "plain.ipynb")
    copies = write_handout(source, tmp_path / "class", "7")
    first = nbformat.read(copies[0], 4)
    nbformat.validate(first)
    text = copies[0].read_text()
    assert "ANSWER" not in text
    assert "TEACHERS" not in text
    assert "lessons.start(seed='7', solutions=False)" in first.cells[0].source
    assert [cell.source for cell in first.cells[1:]] == ["from shardviz import lessons", "the task", "def f(): ..."]
    assert [cell.source for cell in nbformat.read(copies[1], 4).cells] == ["1 + 1"]


def test_in_a_handout_solutions_stay_with_the_teacher():
    lessons.start(seed=7, solutions=False)
    lessons.start()  # the notebook's own first cell does not undo it
    assert "with your teacher" in lessons.solution("unpad", again=True).words
    assert "def unpad" not in lessons.solution("unpad", again=True).words


def test_a_handout_of_the_real_notebooks_has_no_solution_in_it(shardviz, tmp_path):
    status, out, _ = shardviz("lessons", "handout", str(tmp_path / "class"), "--seed", "3")
    assert status == 0
    copies = sorted((tmp_path / "class").glob("*.ipynb"))
    assert [path.name for path in copies] == sorted(path.name for path in notebooks_folder().glob("*.ipynb"))
    assert len(out.splitlines()) == len(copies)
    bodies = {line.strip() for name in IDS for line in lessons.solution(name, again=True).words.splitlines()}
    telling = [line for line in bodies if line.startswith(("return", "found", "elements +=", "real +=")) and len(line) > 30]
    assert telling
    for path in copies:
        for cell in nbformat.read(path, 4).cells:
            assert not {"answer", "teacher"} & set(cell.metadata.get("tags", ()))
            assert [line for line in telling if line in cell.source] == []


def test_a_handout_writes_over_nothing(shardviz, tmp_path):
    shardviz("lessons", "handout", str(tmp_path / "class"))
    status, _, err = shardviz("lessons", "handout", str(tmp_path / "class"))
    assert status == 2
    assert "somebody may have worked in it" in err


def test_a_sheet_has_questions_and_on_request_answers():
    plain, answered = sheet_page("3", answers=False), sheet_page("3", answers=True)
    assert plain.count("<section>") >= 6
    assert plain.count("<svg") >= 2
    assert "Answers" not in plain
    assert "Answers" in answered
    given = find("empty-ranks").given("3")
    assert f"<code>{find('empty-ranks').right(given)}</code>" in answered
    assert f"{given[0][0]} elements over {given[0][1]} ranks" in plain
    assert sheet_page("4", answers=False) != plain
    assert "http" not in plain.replace("http://www.w3.org/2000/svg", "")


def test_a_sheet_is_a_file_to_print(shardviz, tmp_path):
    status, out, _ = shardviz("lessons", "sheet", str(tmp_path / "sheet.html"), "--seed", "3", "--answers")
    assert (status, out.strip()) == (0, str(tmp_path / "sheet.html"))
    assert (tmp_path / "sheet.html").read_text() == sheet_page("3", answers=True)
    assert shardviz("lessons", "sheet", str(tmp_path / "sheet.pdf"))[0] == 2
    assert shardviz("lessons", "sheet", str(tmp_path / "no" / "sheet.html"))[0] == 2


def test_list_and_progress_in_a_terminal(shardviz):
    lessons.check("chunk-sizes", chunk_sizes)
    lessons.hint("unpad")
    status, out, _ = shardviz("lessons", "list", "--json")
    rows = json.loads(out)
    assert status == 0
    assert [row["exercise"] for row in rows] == list(IDS)
    assert {row["exercise"]: row["state"] for row in rows if row["state"] != "new"} == {
        "chunk-sizes": "solved",
        "unpad": "begun",
    }
    rows = json.loads(shardviz("lessons", "progress", "--json")[1])
    assert rows[1] == {"notebook": "02 shards and padding", "exercises": 3, "solved": 1, "attempts": 1, "hints": 0}
    assert sum(row["exercises"] for row in rows) == len(IDS)
    assert "chunk-sizes" in shardviz("lessons", "list")[1]
    assert "02 shards and padding" in shardviz("lessons", "progress")[1]
