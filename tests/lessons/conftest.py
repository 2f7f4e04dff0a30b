"""Every test has a person of its own: an empty folder for progress, and a session that begins anew."""

import pytest

from shardviz.lessons import session


@pytest.fixture(autouse=True)
def progress_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("SHARDVIZ_PROGRESS", str(tmp_path / "progress"))
    monkeypatch.delenv("SHARDVIZ_SEED", raising=False)
    monkeypatch.setattr(session, "_begun", None)
    return tmp_path / "progress"
