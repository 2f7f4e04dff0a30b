"""A person's function may do anything: it always ends, the notebook is unharmed, and what happened is told with the line."""

import os
import threading
import time

import pytest

from shardviz import lessons
from shardviz.lessons.running import GRACE, run_cases

ONE = [(3,)]


def forever(n):
    while True:
        n += 1


def swallowing(n):
    while True:
        try:
            n += 1
        except:  # noqa: E722
            pass
        finally:
            continue  # noqa: B012


def in_c(n):
    return sum(iter(int, 1))


def sleeping(n):
    time.sleep(1000)


def endless_list(n):
    return [*iter(int, 1)]


@pytest.mark.parametrize(("function", "line"), [(forever, "n += 1"), (swallowing, ""), (sleeping, "time.sleep")])
def test_a_call_that_hangs_is_stopped_and_its_line_told(function, line):
    began = time.monotonic()
    (ran,) = run_cases(function, ONE, patience=0.3)
    assert time.monotonic() - began < 10
    assert ran.how == "hung"
    assert line in ran.line or "while True" in ran.line
    assert ran.line.startswith("line ")


def test_a_call_that_never_comes_back_to_python_is_killed():
    began = time.monotonic()
    (ran,) = run_cases(in_c, ONE, patience=0.3)
    assert ran.how == "hung"
    assert time.monotonic() - began < 10 + GRACE


def test_a_list_without_end_does_not_take_the_machine():
    (ran,) = run_cases(endless_list, ONE, patience=20)
    assert (ran.how, ran.error) == ("raised", "MemoryError")


def test_cases_after_one_that_hangs_are_not_tried():
    assert [ran.how for ran in run_cases(lambda n: n if n < 2 else forever(n), [(1,), (2,), (3,)], 0.3)] == ["returned", "hung"]


def test_it_works_where_signals_do_not():
    found = []
    thread = threading.Thread(target=lambda: found.extend(run_cases(forever, ONE, patience=0.3)))
    thread.start()
    thread.join(20)
    assert [ran.how for ran in found] == ["hung"]


def test_an_exception_is_told_with_the_line():
    def careless(n):
        half = n // 2
        return [1][half]

    (ran,) = run_cases(careless, ONE)
    assert (ran.how, ran.error) == ("raised", "IndexError: list index out of range")
    assert ran.line.endswith(": return [1][half]")


def test_the_line_is_the_persons_own_not_the_librarys():
    def careless(n):
        import json

        return json.loads("{")

    (ran,) = run_cases(careless, ONE)
    assert ran.line.endswith(': return json.loads("{")')


@pytest.mark.parametrize("leave", [lambda n: exit(3), lambda n: os._exit(3), lambda n: os.kill(os.getpid(), 9)])
def test_a_call_that_ends_its_process_ends_no_notebook(leave):
    (ran,) = run_cases(leave, ONE)
    assert ran.how in ("raised", "died")


def test_nothing_that_it_changes_reaches_the_notebook():
    kept, given = [], [1, 2]

    def meddling(items):
        items.clear()
        kept.append(1)
        os.environ["MEDDLED"] = "1"
        return items

    (ran,) = run_cases(meddling, [(given,)])
    assert (ran.value, given, kept, os.environ.get("MEDDLED")) == ([], [1, 2], [], None)


def test_what_it_prints_is_kept_for_the_verdict(capsys):
    def talking(size, ranks):
        print("size is", size)
        return []

    verdict = lessons.check("chunk-sizes", talking)
    assert "size is 5" in verdict.words
    assert capsys.readouterr().out == ""


def test_no_process_is_left():
    import psutil

    before = {child.pid for child in psutil.Process().children()}
    for function in (forever, lambda n: n):
        run_cases(function, ONE, patience=0.2)
    assert {child.pid for child in psutil.Process().children()} <= before


def test_a_verdict_tells_of_a_loop_with_its_call():
    verdict = lessons.check("chunk-sizes", lambda size, ranks: forever(size))
    assert "`chunk_sizes(5, 4)` did not come back in time" in verdict.words


def test_a_function_that_takes_other_arguments_is_told():
    finding = lessons.check("chunk-sizes", lambda size: []).finding
    assert "takes 1 positional argument but 2 were given" in finding.error


def test_the_result_instead_of_the_function_is_told():
    assert "without calling it" in lessons.check("chunk-sizes", [2, 2, 1, 0]).words
