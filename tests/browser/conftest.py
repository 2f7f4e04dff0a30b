"""A JupyterLab server of its own on loopback, in temporary folders, and a Chromium to look at it."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
START_SECONDS = 60
STOP_SECONDS = 10
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@dataclass(frozen=True)
class Lab:
    """A running server."""

    url: str
    root: Path


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of a Chromium; without one the tests skip, and on the continuous integration they fail."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found:
        return found
    missing = f"There is no Chromium (looked for {', '.join(BROWSERS)}): the browser tests did NOT run."
    if os.environ.get("CI") == "true":
        pytest.fail(missing)
    pytest.skip(missing)


@pytest.fixture(scope="session")
def lab(chromium, tmp_path_factory) -> Iterator[Lab]:
    """JupyterLab over a copy of the notebooks."""
    home = tmp_path_factory.mktemp("lab")
    root = home / "notebooks"
    shutil.copytree(NOTEBOOKS, root, ignore=shutil.ignore_patterns(".ipynb_checkpoints"))
    folders = {name: str(home / name.lower()) for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR")}
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--ip=127.0.0.1", "--port=0", "--allow-root"]
    command += ["--IdentityProvider.token=", "--ServerApp.password=", f"--ServerApp.root_dir={root}"]
    settings = home / "jupyter_config_dir/lab/user-settings/@jupyterlab/apputils-extension/notification.jupyterlab-settings"
    settings.parent.mkdir(parents=True)
    settings.write_text('{"checkForUpdates": false, "doNotDisturbMode": true, "fetchNews": "false"}')
    with (home / "log").open("w") as log:
        server = subprocess.Popen(
            command,
            cwd=home,
            env={**os.environ, **folders, "IPYTHONDIR": str(home / "ipython")},
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield Lab(address(server, Path(folders["JUPYTER_RUNTIME_DIR"]), home / "log"), root)
    finally:
        end(server)


def address(server: subprocess.Popen, runtime: Path, log: Path) -> str:
    """Where the server listens, as soon as it says so."""
    until = time.monotonic() + START_SECONDS
    about = runtime / f"jpserver-{server.pid}.json"
    while time.monotonic() < until and server.poll() is None:
        if about.exists() and (text := about.read_text()):
            return json.loads(text)["url"]
        time.sleep(0.1)
    pytest.fail(f"JupyterLab did not start:\n{log.read_text()[-3000:]}")


def end(server: subprocess.Popen) -> None:
    """Ask the server to end with all its kernels, then see to it."""
    family = psutil.Process(server.pid).children(recursive=True) if server.poll() is None else []
    server.terminate()
    try:
        server.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait(STOP_SECONDS)
    _, alive = psutil.wait_procs(family, STOP_SECONDS)
    for process in alive:
        process.kill()
    assert alive == [], "kernels, and the ranks of an explorer, end with the server"


@pytest.fixture(scope="module")
def browser(chromium) -> Iterator[object]:
    """A running Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        running = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        )
        try:
            yield running
        finally:
            running.close()
