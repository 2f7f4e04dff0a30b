"""A JupyterLab server of its own on loopback, in temporary folders, and a Chromium to look at it."""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import nbformat
import psutil
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

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
            env={**os.environ, **folders, "IPYTHONDIR": str(home / "ipython"), "SHARDVIZ_PROGRESS": str(home / "progress")},
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


@dataclass(frozen=True)
class Served:
    """A page that voila serves."""

    url: str


@pytest.fixture(scope="session")
def voila(chromium, tmp_path_factory) -> Iterator[Served]:
    """Voila over a notebook that is nothing but the explorer."""
    home = tmp_path_factory.mktemp("voila")
    source = 'import os\n\nimport shardviz as sv\n\nsv.explore(query=os.environ.get("QUERY_STRING", ""))'
    write_notebook(home / "explorer.ipynb", source)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "voila", "explorer.ipynb", "--no-browser", f"--port={port}", "--Voila.ip=127.0.0.1"]
    folders = {name: str(home / name.lower()) for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR")}
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
        until = time.monotonic() + START_SECONDS
        while not listens(port):
            if time.monotonic() > until or server.poll() is not None:
                pytest.fail(f"voila did not start:\n{(home / 'log').read_text()[-3000:]}")
            time.sleep(0.1)
        yield Served(f"http://127.0.0.1:{port}/")
    finally:
        end(server)


def listens(port: int) -> bool:
    """Whether somebody listens on a port of this machine."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def write_notebook(path: Path, source: str) -> None:
    """A notebook of one cell."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}
    nbformat.write(notebook, path)


def open_notebook(
    page, lab: Lab, name: str, load_ms: float, run_ms: float, shows: str = ".shardviz-explorer .sv-frame svg"
) -> None:
    """Open a notebook in JupyterLab, run all its cells, and wait for what it shows."""
    page.goto(f"{lab.url}lab/tree/{name}?reset", timeout=load_ms)
    status = page.locator(".jp-Notebook-ExecutionIndicator")
    page.get_by_text("Python 3 (ipykernel) | Idle").wait_for(timeout=load_ms)  # the indicator says so before there is a kernel
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
    expect(status).to_have_attribute("data-status", "busy", timeout=load_ms)
    expect(status).to_have_attribute("data-status", "idle", timeout=run_ms)
    page.locator(".jp-WindowedPanel-outer").evaluate("panel => panel.scrollTo(0, 0)")  # it went down to the last cell
    page.wait_for_selector(shows)


def grave(page) -> list[str]:
    """What axe finds serious or critical within the explorer: the rule, and where."""
    options = {"resultTypes": ["violations"], "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]}
    found = Axe().run(page, context=".shardviz-explorer", options=options).response["violations"]
    return [
        f"{one['id']} ({one['impact']}): {node['html'][:160]}"
        for one in found
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    ]
