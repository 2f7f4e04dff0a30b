"""What a binder image holds is what the tests run with, and its files follow repo2docker's rules."""

import os
import re
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
BINDER = ROOT / "binder"
CONDA_NAMES = {"pytorch-cpu": "torch"}


def environment():
    return yaml.safe_load((BINDER / "environment.yml").read_text())


def pinned(document):
    """The packages of an environment and their versions; Python and pip left out."""
    *conda, of_pip = document["dependencies"]
    pins = dict(re.split("==?", line) for line in [*conda, *of_pip["pip"]] if "=" in line)
    return {CONDA_NAMES.get(name, name): pin for name, pin in pins.items() if name != "python"}


def constraints():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return dict(line.split("==") for line in lines if "==" in line)


def unlike(pins, constraints):
    return {name: (pin, constraints.get(name)) for name, pin in pins.items() if constraints.get(name) != pin}


def test_the_versions_are_those_of_the_constraints():
    assert unlike(pinned(environment()), constraints()) == {}


def test_another_version_would_be_seen():
    document = environment()
    document["dependencies"][-1]["pip"][0] = "anywidget==0.9.0"
    assert unlike(pinned(document), constraints()) == {"anywidget": ("0.9.0", constraints()["anywidget"])}


def test_everything_that_the_package_needs_is_there_and_nothing_else_but_voila():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = {re.match(r"[\w-]+", line).group() for line in project["dependencies"]}
    assert set(pinned(environment())) == needed | {"voila"}


@pytest.mark.skipif(not os.environ.get("CI"), reason="only CI is sure to have the versions of the constraints")
def test_the_tests_run_with_the_same_versions():
    found = {name: version(name).partition("+")[0] for name in pinned(environment())}
    assert found == pinned(environment())


def test_python_is_pinned_and_the_channel_has_a_name():
    document = environment()
    assert "python=3.11" in document["dependencies"]
    assert document["channels"] == ["conda-forge"]
    assert not (BINDER / "requirements.txt").exists()  # an environment.yml would hide it


@pytest.mark.parametrize("name", ["postBuild", "start"])
def test_scripts_can_be_executed_and_end_at_the_first_error(name):
    path = BINDER / name
    assert os.access(path, os.X_OK)
    lines = path.read_text().splitlines()
    assert lines[0].startswith("#!")
    assert "set -euo pipefail" in lines


def test_start_hands_over():
    assert (BINDER / "start").read_text().splitlines()[-1] == 'exec "$@"'
    assert "pip install --no-deps" in (BINDER / "postBuild").read_text()
