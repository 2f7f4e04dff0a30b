"""Measurements are told with their goals, and a missed goal can be told from a met one."""

import json

import pytest

from shardviz.bench.measure import Measurement, seconds
from shardviz.cli.bench import show

MET = Measurement("speed", 300.0, "times", "at least 200", True)
MISSED = Measurement("speed", 100.0, "times", "at least 200", False)


def test_a_met_goal_ends_well(capsys):
    show([MET], as_json=False)
    assert "speed: 300 times  (at least 200: met)" in capsys.readouterr().out


def test_a_missed_goal_is_status_1(capsys):
    with pytest.raises(SystemExit) as ended:
        show([MET, MISSED], as_json=True)
    assert ended.value.code == 1
    assert [one["met"] for one in json.loads(capsys.readouterr().out)["measured"]] == [True, False]


def test_seconds_is_a_time():
    assert 0 < seconds(lambda: sum(range(1000)), repeats=3) < 10
