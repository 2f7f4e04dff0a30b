"""Exercises that check themselves, for notebooks and workshops.

- `start`: a seed, whose progress it is; without it the defaults apply.
- `show`, `given`, `stub`: an exercise's task, what it gives to work with, and what stands in the notebook until it is solved.
- `check`: is an answer right? `hint` and `solution` help.
- `progress`: what is solved.

Everything that these return shows itself as a cell's last line, and prints. Nothing leaves this machine.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from shardviz.lessons.catalogue import IDS, NOTEBOOKS, find
from shardviz.lessons.functions import Code
from shardviz.lessons.notes import Note, Verdict, verdict
from shardviz.lessons.praise import word_of_praise
from shardviz.lessons.session import begin, current
from shardviz.lessons.store import Record
from shardviz.lessons.values import plain, value_text

__all__ = ["Note", "Verdict", "check", "given", "hint", "progress", "show", "solution", "start", "stub"]


def start(seed: int | str | None = None, name: str | None = None, solutions: bool | None = None) -> Note:
    """Begin: which seed the exercises have, and whose progress it is. What is left out stays as it was.

    Args:
        seed: a number or a word; other seeds pose other questions. By default $SHARDVIZ_SEED, else 0.
        name: whose progress it is, where several people share an account.
        solutions: whether `solution` shows any.

    Example:
        >>> print(start(seed=7).words.splitlines()[0])
        Seed 7. Ask with `lessons.show`, answer with `lessons.check`; `lessons.hint` helps.
    """
    session = begin(seed, name, solutions)
    whose = f" of {session.name}" if session.name else ""
    words = [
        f"Seed {session.seed}. Ask with `lessons.show`, answer with `lessons.check`; `lessons.hint` helps.",
        f"Progress{whose} is kept in `{session.store.path}`, and nowhere else.",
    ]
    return Note("\n\n".join([*words, *_problem()]))


def show(name: str) -> Note:
    """An exercise's task.

    Raises:
        SpecError: there is no exercise of that name.

    Example:
        >>> print(show("chunk-sizes").words.splitlines()[0])
        #### Exercise: the sizes of the chunks
    """
    exercise = find(name)
    seed = current().seed
    return Note(f"#### Exercise: {exercise.title}\n\n{exercise.task(seed)}", exercise.picture(seed), "task")


def given(name: str) -> Any:
    """What a question gives to work with, so that nothing has to be typed; None where a function is to be written.

    Example:
        >>> start(seed=0) and sorted(given("read-the-picture"))
        ['element', 'spec']
    """
    return find(name).given(current().seed)


def stub(name: str) -> str:
    """What stands in the notebook until the exercise is solved: the text of a cell.

    Example:
        >>> print(stub("chunk-sizes"))
        def chunk_sizes(size, ranks):
            raise NotImplementedError
    """
    return find(name).stub.strip()


def check(name: str, answer: Any) -> Verdict:
    """Check an answer. A wrong one never raises: the verdict says what is not right yet, with the first failing case drawn.

    Args:
        name: the exercise.
        answer: a function, or the values asked for.

    Returns:
        A verdict, which is true where the answer is right.

    Raises:
        SpecError: there is no exercise of that name.

    Example:
        >>> print(check("chunk-sizes", ...).words)
        **Still the stub:** there is no function yet; `chunk_sizes` is to be written.
    """
    exercise, session = find(name), current()
    finding = exercise.judge(answer, session.seed)
    more = []
    if finding.state != "stub":
        before = session.store.record(name)
        record = Record(
            before.attempts + (not before.solved),
            before.hints,
            before.solved or finding.state == "right",
            before.seed if before.solved or finding.state != "right" else session.seed,
            before.peeked,
        )
        session.store.put(name, record)
        if finding.state == "right":
            more.append(" ".join(filter(None, (exercise.done, "" if before.solved else word_of_praise(name, record)))))
        elif before.hints < len(exercise.hints) and record.attempts >= 2:
            more.append(f'A hint? `lessons.hint("{name}")`')
    return verdict(name, finding, "\n\n".join([*more, *_problem()]))


def hint(name: str) -> Note:
    """The next hint. They go from a nudge to nearly everything, and are counted.

    Raises:
        SpecError: there is no exercise of that name.
    """
    exercise, store = find(name), current().store
    record = store.record(name)
    count = min(record.hints + 1, len(exercise.hints))
    if record.hints < len(exercise.hints):
        store.put(name, Record(record.attempts, count, record.solved, record.seed, record.peeked))
    left = len(exercise.hints) - count
    last = f'That was the last one. `lessons.solution("{name}")` shows a solution.' if not left and current().solutions else ""
    words = f"Hint {count} of {len(exercise.hints)}: {exercise.hints[count - 1]}"
    return Note("\n\n".join(filter(None, [words, last, *_problem()])))


def solution(name: str, again: bool = False) -> Note:
    """A solution. While there are hints, it is shown when it is asked for again.

    Args:
        name: the exercise.
        again: yes, show it.

    Raises:
        SpecError: there is no exercise of that name.
    """
    exercise, session = find(name), current()
    record = session.store.record(name)
    if not session.solutions:
        return Note(f'This copy is a handout: its solutions are with your teacher. `lessons.hint("{name}")` has hints.')
    left = len(exercise.hints) - record.hints
    if left > 0 and not again and not record.solved:
        hints = f"{left} {'hint is' if left == 1 else 'hints are'} left"
        return Note(
            f'{hints}: `lessons.hint("{name}")` may be all you need. If you would rather read the solution, that is fine too: '
            f'`lessons.solution("{name}", again=True)`.'
        )
    if not record.solved:
        session.store.put(name, Record(record.attempts, record.hints, False, record.seed, True))
    source = files("shardviz.lessons.solutions").joinpath(f"{exercise.name}.py").read_text("utf-8")
    words = f"```python\n{source.strip()}\n```"
    if not isinstance(exercise, Code):
        words += f"\n\nFor this seed it gives `{value_text(plain(exercise.right(exercise.given(session.seed))))}`."
    return Note("\n\n".join([words, *_problem()]))


def progress() -> Note:
    """What is solved, in which notebook.

    Example:
        >>> print(progress().words.splitlines()[0])
        | notebook | exercise | state | attempts | hints |
    """
    session = current()
    records = session.store.records()
    rows = ["| notebook | exercise | state | attempts | hints |", "|---|---|---|---|---|"]
    solved = 0
    for name in IDS:
        record, exercise = records.get(name, Record()), find(name)
        solved += record.solved
        state = "✓ solved" if record.solved else "begun" if record.attempts or record.hints else "–"
        where = f"{exercise.notebook:02} {NOTEBOOKS[exercise.notebook]}"
        counts = f"{record.attempts or ''} | {record.hints or ''}"
        rows.append(f"| {where} | {name} | {state} | {counts} |")
    return Note("\n\n".join(["\n".join(rows), f"{solved} of {len(IDS)} solved, in `{session.store.path}`.", *_problem()]))


def _problem() -> list[str]:
    problem = current().store.problem()
    return [problem] if problem else []
