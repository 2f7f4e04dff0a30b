"""The check at the end of a test run, that no process is left, can fail."""

import subprocess
import sys

from tests import leftovers


def test_a_process_that_stays_is_found_even_without_its_parent(monkeypatch):
    monkeypatch.setattr(leftovers, "PATIENCE", 0.5)
    monkeypatch.setenv(leftovers.MARK, "another-run")
    orphan = """
import subprocess, sys
sleeping = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], stdout=subprocess.DEVNULL)
print(sleeping.pid)
"""
    pid = int(subprocess.run([sys.executable, "-c", orphan], stdout=subprocess.PIPE, text=True, timeout=60, check=True).stdout)
    try:
        (found,) = leftovers.left_behind("another-run")
        assert found.startswith(f"{pid}: ")
    finally:
        subprocess.run(["kill", "-9", str(pid)], check=True)
    assert leftovers.left_behind("another-run") == []
    assert leftovers.left_behind("no such run") == []
