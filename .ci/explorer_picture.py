"""The README's picture of the explorer: voila serves it, Chromium looks at it. `python .ci/explorer_picture.py FILE.png`."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import urlencode

from playwright.sync_api import expect, sync_playwright

NOTEBOOK = Path(__file__).parents[1] / "notebooks" / "explorer.ipynb"
PATIENCE = 60
VIEW = {"spec": "[5] on dp=2, tp=2: _S(0, 2), S(0)", "step": "6", "follow": "3"}


def look(url: str, file: Path) -> None:
    """Run the spec on real ranks, and take the picture."""
    with sync_playwright() as playwright:
        chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1280, "height": 1600}, device_scale_factor=1.5)
        page.goto(f"{url}?{urlencode(VIEW)}")
        explorer = page.locator(".shardviz-explorer")
        explorer.wait_for(timeout=1000 * PATIENCE)
        explorer.get_by_role("button", name="Run on real ranks").click()
        expect(explorer).to_contain_text("All answers agree", timeout=1000 * PATIENCE)
        page.wait_for_timeout(1000)
        explorer.screenshot(path=str(file))
        browser.close()


def main() -> None:
    """Serve, look, and end."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "voila", str(NOTEBOOK), "--no-browser", f"--port={port}", "--Voila.ip=127.0.0.1"]
    with tempfile.TemporaryDirectory() as home:
        server = subprocess.Popen(command, cwd=home, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            until = time.monotonic() + PATIENCE
            while socket.socket().connect_ex(("127.0.0.1", port)) and time.monotonic() < until:
                time.sleep(0.2)
            look(f"http://127.0.0.1:{port}/", Path(sys.argv[1]))
        finally:
            server.terminate()
            server.wait(PATIENCE)


if __name__ == "__main__":
    main()
