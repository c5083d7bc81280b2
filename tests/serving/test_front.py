"""The page at `/`, in a browser, with a real server behind it."""

import io
import json
import re
from urllib.parse import urlsplit

import pytest
import torch
from PIL import Image
from running import NPY, npy, own_run, png, running

from browsers import Tab
from conftest import small_frost
from frost.core.model import FrostConfig
from frost.data.digits import load_digits

pytestmark = pytest.mark.slow
KEY = "ein-schlüssel-des-teams"
DROP = """([text, name]) => {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)), data = new DataTransfer();
  data.items.add(new File([bytes], name, { type: "image/png" }));
  document.body.dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
}"""
SAID = """() => frost.facts.budgets.map((budget, place) => {
  document.getElementById("budget").value = place;
  frost.render();
  return [budget.asked, document.getElementById("adaptive-said").firstChild.textContent, frost.stop];
})"""


def bare_run():
    """A run of a model of one's own without a calibration: the page can show nothing of it but numbers."""
    return own_run(small_frost(FrostConfig(depth=4)).expects(torch.zeros(1, 8, 8)), "bare")


@pytest.fixture(scope="module")
def server():
    with running("digits", "mazes", bare_run()) as found:
        yield found


@pytest.fixture(scope="module")
def keyed():
    with running("digits", keys=[KEY.encode()]) as found:
        yield found


def only_here(tab, server):
    """Whether everything that a page asked for is on its server."""
    hosts = {urlsplit(address).netloc for address in tab.requests if not address.startswith(("data:", "blob:"))}
    return hosts == {f"127.0.0.1:{server.port}"}


def picture(place):
    """A digit as a file, at a size that has to be scaled."""
    levels = (load_digits().test.images[place][0] * 255).round().byte().numpy()
    stream = io.BytesIO()
    Image.fromarray(levels).resize((24, 24), Image.Resampling.NEAREST).save(stream, "PNG")
    return stream.getvalue()


def test_a_dropped_picture_gets_the_class_and_depth_of_predict_at_every_budget(chromium, encoded, server):
    tab = Tab(chromium, server.url)
    tab.done(8)
    for place in (3, 40, 77):
        file = picture(place)
        tab.tab.evaluate(DROP, [encoded(file), f"{place}.png"])
        tab.tab.wait_for_function("(name) => frost.name === `your picture, ${name}`", arg=f"{place}.png")
        tab.done(8)
        for asked, said, depth in tab.tab.evaluate(SAID):
            answer = server.post(file, params={"mean_depth": asked}).json()
            assert (said, depth) == (answer["class"], answer["depth"]), (place, asked)
    tab.tab.close()
    assert tab.complaints == []
    assert only_here(tab, server)


def test_the_live_view_moves_with_the_answers(chromium, server):
    tab = Tab(chromium, server.url)
    tab.done(8)
    tab.tab.wait_for_selector("#live-queue b")
    for seed in range(7):
        server.post(png(seed), params={"depth": 5})
    tab.tab.wait_for_function("() => document.getElementById('live-depths').textContent.includes('mean of 7 of')")
    tab.tab.wait_for_function("() => !document.getElementById('live-rate').textContent.includes('Rate0 ')")
    shown = tab.tab.inner_text("#live")
    tab.tab.close()
    assert "5 steps\nmean of 7 of late; most often 5 of 8" in shown
    assert "of 8 slots in use; running" in shown
    assert "%" in shown.split("Efficiency")[1]
    assert "Drift" in shown
    assert tab.complaints == []


def test_a_page_that_is_not_seen_does_not_ask(chromium, server):
    tab = Tab(chromium, server.url, prepare=lambda page: page.clock.install())
    tab.tab.wait_for_selector("#live-queue b")

    def looks():
        return sum(address.endswith("/stats") for address in tab.requests)

    def hide(is_hidden):
        tab.tab.evaluate("""(is) => {
          Object.defineProperty(document, "hidden", { value: is, configurable: true });
          document.dispatchEvent(new Event("visibilitychange"));
        }""", is_hidden)

    hide(True)
    before = looks()
    tab.tab.clock.run_for(20_000)
    assert looks() == before
    with tab.tab.expect_request("**/stats"):
        hide(False)
    tab.tab.close()


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light")])
def test_runs_are_chosen_by_keys(chromium, server, width, scheme):
    tab = Tab(chromium, server.url, width, scheme)
    tab.done(8)
    for name, depth in (("mazes", 24), ("bare", 0), ("digits", 8)):
        tab.tab.focus("#run")
        tab.tab.keyboard.press("Home" if name == "digits" else "ArrowDown")
        tab.tab.wait_for_function("(name) => document.title === `frost · ${name}`", arg=name)
        if depth:
            tab.done(depth)
            assert f"of {depth}" in tab.tab.inner_text("#adaptive-beside")
            assert tab.tab.locator("#examples button").count() == 12
        else:
            assert "a model of your own" in tab.tab.inner_text("#lead")
            assert not tab.tab.is_visible("#main")
        assert tab.tab.evaluate("document.documentElement.scrollWidth") <= width
    tab.tab.close()
    assert tab.complaints == []
    assert only_here(tab, server)


def test_a_key_is_asked_for_and_stays_in_memory(chromium, keyed):
    tab = Tab(chromium, keyed.url, 390)
    tab.tab.wait_for_selector("#key")
    assert [urlsplit(address).path for address in tab.requests if address.startswith("http")] == ["/"]
    tab.tab.keyboard.type("not-the-key-of-the-team")
    tab.tab.keyboard.press("Enter")
    tab.tab.wait_for_selector("text=does not know this key")
    assert all("401" in complaint for complaint in tab.complaints)    # the browser's own words
    tab.complaints.clear()
    tab.tab.fill("#key", KEY)
    tab.tab.keyboard.press("Enter")
    tab.done(8)
    kept = tab.tab.evaluate("() => JSON.stringify([localStorage.length, sessionStorage.length, document.cookie])")
    assert json.loads(kept) == [0, 0, ""]
    assert KEY not in tab.tab.content()
    assert tab.complaints == []
    tab.tab.reload()
    tab.tab.wait_for_selector("#key")
    tab.tab.close()


def test_what_the_server_refuses_is_said(chromium, server):
    tab = Tab(chromium, server.url)
    tab.done(8)
    server.service.is_draining = True
    try:
        tab.tab.locator("#examples button").first.click()
        tab.tab.wait_for_selector("text=The server refuses this: the server is ending")
    finally:
        server.service.is_draining = False
    tab.tab.locator("#examples button").first.click()
    tab.done(8)
    assert not tab.tab.is_visible("#trouble")
    tab.tab.close()


def test_the_page_says_nothing_of_the_runs_by_itself(keyed):
    page = keyed.get("/")
    assert page.status_code == 200
    assert json.loads(re.search(r'id="facts">(.*?)</script>', page.text)[1]) == {"name": "serve"}
    assert "connect-src 'self'" in page.text
    assert keyed.get("/runs/digits/page").status_code == 401
    assert keyed.post(npy(torch.zeros(1, 8, 8).numpy()), "/runs/digits/trajectory", NPY).status_code == 401
