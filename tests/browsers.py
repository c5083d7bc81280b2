"""The page's own scripts under Node, and a Chromium, where they are installed."""

import base64
import json
import os
import shutil
import subprocess

import pytest


class Tab:
    """A page in a browser, and what it complained of and asked for."""

    def __init__(self, browser, page, width=1280, scheme="light", before=None, prepare=None):
        self.tab = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme,
                                    reduced_motion="reduce")
        self.complaints, self.requests = [], []
        self.address = page if isinstance(page, str) else page.as_uri()
        self.tab.on("console", lambda message: self.complaints.append(message.text))
        self.tab.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.tab.on("request", lambda request: self.requests.append(request.url))
        if before:
            self.tab.add_init_script(before)
        if prepare:
            prepare(self.tab)
        self.tab.goto(self.address)

    def done(self, depth):
        """Wait until all steps are taken."""
        self.tab.wait_for_selector(f'body[data-taken="{depth}"]', state="attached")


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


@pytest.fixture(scope="module")    # its event loop must not run on into tests that have one of their own
def chromium():
    """A browser that a test opens tabs in."""
    from playwright import sync_api as browsers  # of the extra `test`

    program = _needed(("chromium", "chromium-browser", "google-chrome"), "Chromium")
    with browsers.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def pages(tmp_path_factory):
    """`pages(name)`: the page of a run that comes with the package, and its file; made once."""
    made, folder = {}, tmp_path_factory.mktemp("pages")

    def page(name):
        import torch

        import frost
        from frost.page.build import page_of

        if name not in made:
            torch.set_num_threads(1)
            made[name] = page_of(frost.load(name), name), folder / f"{name}.html"
            made[name][1].write_text(made[name][0].html, encoding="utf-8")
        return made[name]

    return page


@pytest.fixture(scope="session")
def encoded():
    """Bytes as text for JSON."""
    return lambda content: base64.b64encode(content).decode("ascii")
