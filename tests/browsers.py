"""The page's own scripts under Node, and a Chromium, where they are installed."""

import base64
import json
import os
import shutil
import subprocess

import pytest



def _needed(names: tuple[str, ...], what: str) -> str:
    program = next(filter(None, map(shutil.which, names)), None)
    if program is None:
        assert not os.environ.get("FROST_REQUIRE_BROWSER"), f"no {what} on this machine"
        pytest.skip(f"no {what} on this machine; FROST_REQUIRE_BROWSER=1 requires it")
    return program


@pytest.fixture(scope="session")
def node():
    """`node(files, code, given)`: what the code prints, with the page's scripts before it and `given` in scope."""
    program = _needed(("node",), "Node")

    def run(files, code, given):
        from frost.page.build import scripts

        source = f"{scripts(*files)}\nconst given = JSON.parse(require('fs').readFileSync(0));\n{code}"
        done = subprocess.run([program, "-e", source], input=json.dumps(given), capture_output=True, text=True,
                              check=False, timeout=60)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


@pytest.fixture(scope="session")
def chromium():
    """A browser that a test opens tabs in."""
    from playwright import sync_api as browsers  # of the extra `test`

    program = _needed(("chromium", "chromium-browser", "google-chrome"), "Chromium")
    with browsers.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def encoded():
    """Bytes as text for JSON."""
    return lambda content: base64.b64encode(content).decode("ascii")
