import json

import numpy as np
import pytest
import torch
from PIL import Image

import frost
from browsers import Tab
from frost.data.images import load_image
from frost.halting.stopping import depth_under
from frost.page.budgets import rule_of

pytestmark = pytest.mark.slow
TAKEN = """async () => {
  const { facts, inputs, engine } = frost, found = [];
  frost.ticket += 1;    // the example that the page began with ends here
  await new Promise((go) => setTimeout(go, 100));
  for (const input of inputs) {
    const readings = [];
    await engine.begin(input);
    while (readings.length < facts.depth) readings.push(await engine.step());
    const signals = readings.map((reading) => reading.signals);
    found.push({ outputs: readings.map((reading) => [...reading.output]),
      depths: facts.budgets.map((budget) => stopUnder(budget, signals, facts.depth)) });
  }
  return JSON.stringify(found);
}"""


@pytest.mark.parametrize("name", ["digits", "cifar100-cpu", "addition", "mazes"])
def test_examples_get_pythons_classes_and_depths_in_a_browser(chromium, pages, name):
    page, file = pages(name)
    tab = Tab(chromium, file)
    found = json.loads(tab.tab.evaluate(TAKEN))
    tab.tab.close()
    with torch.no_grad():
        trajectory = frost.load(name).model(torch.stack([example.inputs for example in page.examples]))
    outputs = torch.tensor([row["outputs"] for row in found]).view_as(trajectory.outputs)
    assert torch.equal(outputs.argmax(dim=-1), trajectory.outputs.argmax(dim=-1))
    torch.testing.assert_close(outputs, trajectory.outputs, rtol=1e-4, atol=1e-4)
    for place, budget in enumerate(page.facts["budgets"]):
        depths = depth_under(rule_of(budget), trajectory.outputs, trajectory.score_logits)
        assert [row["depths"][place] for row in found] == depths.tolist()
    assert tab.complaints == []
    assert tab.requests == [tab.address]


@pytest.mark.parametrize(("name", "width", "scheme"), [("cifar100-cpu", 390, "dark"), ("mazes", 390, "light"),
                                                       ("addition", 390, "dark"), ("digits", 1280, "dark")])
def test_a_page_fits_the_width_of_its_window(chromium, pages, name, width, scheme):
    page, file = pages(name)
    tab = Tab(chromium, file, width, scheme)
    tab.done(page.facts["depth"])
    wide = tab.tab.evaluate("document.documentElement.scrollWidth")
    said = tab.tab.inner_text("#adaptive-beside")
    cards = tab.tab.locator("#steps li").count()
    tab.tab.close()
    assert wide <= width
    assert f"of {page.facts['depth']}" in said
    assert cards == page.facts["depth"]
    assert tab.complaints == []


def test_the_budget_is_moved_by_keys_without_computing_again(chromium, pages):
    _, file = pages("mazes")
    tab = Tab(chromium, file)
    tab.done(24)
    tab.tab.evaluate("() => { frost.engine.step = () => { throw new Error('computed again'); }; }")
    tab.tab.focus("#budget")
    tab.tab.keyboard.press("End")
    last = tab.tab.inner_text("#adaptive-beside")
    tab.tab.keyboard.press("Home")
    first = tab.tab.inner_text("#adaptive-beside")
    spoken = tab.tab.get_attribute("#budget", "aria-valuetext")
    tab.tab.close()
    assert "step 24 of 24" in last
    assert "step 1 of 24" in first
    assert spoken == "1 of 24 steps in the mean"
    assert tab.complaints == []


def test_an_example_is_chosen_by_keys(chromium, pages):
    _, file = pages("digits")
    tab = Tab(chromium, file)
    tab.done(8)
    tab.tab.locator("#examples button").nth(1).focus()
    tab.tab.keyboard.press("Enter")
    pressed = tab.tab.locator("#examples button[aria-pressed=true]").get_attribute("aria-label")
    tab.tab.close()
    assert pressed.startswith("example 2:")


def test_a_picture_is_read_as_python_reads_it(chromium, pages, tmp_path):
    _, file = pages("cifar100-cpu")
    picture = tmp_path / "noise.png"
    noise = np.random.default_rng(0).integers(0, 256, (50, 70, 3), np.uint8)
    Image.fromarray(noise).resize((140, 100)).save(picture)
    tab = Tab(chromium, file)
    tab.done(3)
    tab.tab.set_input_files("input[type=file]", picture)
    tab.tab.wait_for_selector("#seen:visible")
    tab.done(3)
    output = tab.tab.evaluate("[...frost.trajectory[2].output]")
    tab.tab.close()
    with torch.no_grad():
        expected = frost.load("cifar100-cpu").model(load_image(picture, 32)[None].float() / 255).outputs[0, 2]
    assert int(np.argmax(output)) == int(expected.argmax())
    assert tab.complaints == []


def test_a_digit_is_drawn_with_a_pointer(chromium, pages):
    _, file = pages("digits")
    tab = Tab(chromium, file)
    tab.done(8)
    tab.tab.click("text=Clear to draw")
    box = tab.tab.locator("#stage").bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"]
    tab.tab.mouse.move(x, y + 0.15 * box["height"])
    tab.tab.mouse.down()
    tab.tab.mouse.move(x, y + 0.85 * box["height"], steps=8)
    tab.tab.mouse.up()
    tab.done(8)
    said = tab.tab.inner_text("#adaptive-said")
    tab.tab.close()
    assert said.split()[0] == "1"
    assert tab.complaints == []


@pytest.mark.parametrize(("name", "sentence"), [("digits", "no picture of a known kind"), ("mazes", "no pictures")])
def test_what_cannot_be_read_is_answered_by_a_sentence(chromium, pages, name, sentence):
    page, file = pages(name)
    tab = Tab(chromium, file)
    tab.done(page.facts["depth"])
    tab.tab.evaluate("""() => {
      const data = new DataTransfer();
      data.items.add(new File(["some text"], "note.txt", { type: "text/plain" }));
      dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true }));
      document.body.dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
    }""")
    tab.tab.wait_for_selector("#trouble:visible")
    said = tab.tab.inner_text("#trouble")
    tab.tab.close()
    assert sentence in said
    assert tab.complaints == []


def test_a_number_beyond_the_bits_is_answered_by_a_sentence(chromium, pages):
    _, file = pages("addition")
    tab = Tab(chromium, file)
    tab.done(20)
    tab.tab.fill("#tools input >> nth=0", str(2**64))
    tab.tab.keyboard.press("Tab")
    said = tab.tab.inner_text("#trouble")
    tab.tab.fill("#tools input >> nth=0", "12")
    tab.tab.fill("#tools input >> nth=1", "30")
    tab.tab.keyboard.press("Tab")
    tab.tab.wait_for_function("() => document.getElementById('adaptive-said').textContent === '42'")
    tab.tab.close()
    assert "whole numbers from 0 to 18" in said


def test_an_old_browser_gets_a_sentence(chromium, pages):
    _, file = pages("digits")
    tab = Tab(chromium, file, before="delete window.ResizeObserver;")
    said = tab.tab.inner_text("#trouble")
    tab.tab.close()
    assert "browser from 2021" in said


def test_a_browser_that_cannot_read_the_script_gets_a_sentence(chromium, pages, tmp_path):
    page, _ = pages("digits")
    file = tmp_path / "old.html"
    file.write_text(page.html.replace("class Page {", "class Page unknown syntax {"), encoding="utf-8")
    tab = Tab(chromium, file)
    said = tab.tab.inner_text("#trouble")
    tab.tab.close()
    assert "too old for this page" in said
