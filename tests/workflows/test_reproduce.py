import json
import os
import re
import shutil
from dataclasses import replace

import pytest

from frost.analysis.claims import abstract
from frost.analysis.claims.verdict import verdict_of
from frost.cli import main
from frost.recipes import recipe
from frost.workflows.kit.plan import SECTIONS, chosen_units, needed_by, units_of
from frost.workflows.kit.scales import Scale, as_printed, scale_of, with_model
from frost.workflows.kit.work import done
from frost.workflows.reproduce import _judged, plan, reproduce

VERDICTS = {"holds", "holds in part", "does not hold here", "cannot be tested at this scale"}


def tiny() -> Scale:
    run = recipe("digits")
    small = replace(run, model=replace(run.model, channels=16, bottleneck=8, depth=4),
                    train=replace(run.train, epochs=1, batch=128))
    return Scale(name="smoke", base=as_printed(small), ours=small, seeds=(0,), backbones=("resnet-8px",), batches=(4,),
                 paths=16, probes=1)


pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    out = tmp_path_factory.mktemp("kit") / "report"
    return reproduce(tiny(), out)


def without_timing(results):
    return {key: value for key, value in results.items() if key != "timing"}


@pytest.mark.slow
def test_all_twelve_sections_are_filled_from_real_runs(report):
    assert list(report.results["sections"]) == list(SECTIONS)
    for name, section in report.results["sections"].items():
        assert section["verdict"] in VERDICTS, name
        assert section["ours"], name
        assert section["paper"], name
        assert section["rule"], name
        assert section["command"].endswith(f"--only {name}")
        assert section["verdict"] in (verdict_of(section["checks"]), "cannot be tested at this scale")


@pytest.mark.slow
def test_every_claim_of_the_abstract_and_the_conclusion_has_a_verdict_with_figures(report):
    assert len(report.results["claims"]) == len(abstract.CLAIMS)
    for row in report.results["claims"]:
        assert row["verdict"] in VERDICTS
        assert all(re.search(r"\d", figures) for figures in row["figures"])


SAID = {"true_dimension", "quantile", "threshold", "fraction", "seed", "severity", "wish", "depth", "scale"}
CURVES = {"curves", "conflict_over_training", "errors", "error_bound", "move_ratio"}    # series of one run


def bare_numbers(value, name=""):
    """Numbers that are neither measured, with an interval, nor settings, nor points of a curve."""
    if isinstance(value, dict) and set(value) != {"value", "low", "high", "n"}:
        for key, inner in value.items():
            if key not in SAID | CURVES:
                yield from bare_numbers(inner, f"{name}/{key}")
    elif isinstance(value, list):
        for inner in value:
            yield from bare_numbers(inner, f"{name}/")
    elif isinstance(value, dict):
        if not value["low"] <= value["value"] <= value["high"] or value["n"] < 1:
            yield name
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield name


@pytest.mark.slow
def test_every_number_of_ours_has_an_interval_and_a_count(report):
    for name, section in report.results["sections"].items():
        assert not list(bare_numbers(section["ours"], name))


@pytest.mark.slow
def test_the_page_is_one_file_that_asks_for_nothing(report):
    text = (report.out / "report.html").read_text()
    assert text.count("<svg") == len(SECTIONS)
    assert not re.search(r'(?:src|href)="(?!#)', text.replace('xmlns:xlink="', ""))
    assert "url(http" not in text
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'href="#([^"]+)"', text)) <= set(ids)


@pytest.mark.slow
def test_every_section_has_its_figure_in_both_forms(report):
    names = {file.name for file in (report.out / "figures").iterdir()}
    assert names == {f"{name}.{kind}" for name in SECTIONS for kind in ("svg", "png")}


@pytest.mark.slow
def test_what_is_done_is_not_done_again_and_what_is_lost_comes_back_the_same(report):
    lost, kept = report.out / "units/frost-deep.json", report.out / "units/frost-gated.json"
    before, stamp = (report.out / "results.json").read_text(), kept.stat().st_mtime_ns
    lost.unlink()
    shutil.rmtree(report.out / "runs/frost-deep")
    again = reproduce(tiny(), report.out, resume=True)
    assert kept.stat().st_mtime_ns == stamp
    assert without_timing(json.loads(before)) == without_timing(json.loads(json.dumps(again.results)))


def units_for(report, section):
    return {name: json.loads((report.out / f"units/{name}.json").read_text()) for name in needed_by(section, tiny())}


def diverged(unit):
    """What is left of a unit whose training diverged."""
    return {**{key: unit[key] for key in ("name", "config", "measured_with")}, "is_finite": False,
            "why": "the loss is nan", "seed": 0, "over_training": {"conflict": []}, "timing": {}}


@pytest.mark.slow
@pytest.mark.parametrize("section", [name for name in SECTIONS if name != "complexity"])
def test_a_training_that_diverged_leaves_a_verdict(report, section):
    units = units_for(report, section)
    lost = next(name for name in units if name.startswith("frost-") and "untrained" not in name) \
        if section != "shift" else "ours"
    found = _judged(section, units | {lost: diverged(units[lost])})
    assert found.verdict in VERDICTS
    assert json.dumps(found._asdict() | {"sanity": dict(found.sanity), "beyond": dict(found.beyond)}, allow_nan=False)
    if section != "collapse":
        assert found.verdict == "cannot be tested at this scale"


@pytest.mark.slow
def test_a_diverged_training_is_a_collapse(report):
    units = units_for(report, "collapse")
    found = _judged("collapse", units | {"vanilla-sum-s0": diverged(units["vanilla-sum-s0"])})
    assert found.ours["grid"]["vanilla"]["sum"]["rows"][0]["collapsed"] == "not finite"


@pytest.mark.slow
def test_models_at_chance_cannot_tell(report):
    units = units_for(report, "supervision")
    low = {name: {**unit, "per_step_accuracy": [0.1] * unit["depth"]} for name, unit in units.items()}
    few = {name: {**unit, "per_step_accuracy": [0.9] * unit["depth"]} for name, unit in units.items()}
    high = {name: {**unit, "images": 10_000} for name, unit in few.items()}
    worse = {**high, "frost-mean-s0": {**high["frost-mean-s0"], "per_step_accuracy": [0.7] * 4}}
    assert _judged("supervision", low).verdict == "cannot be tested at this scale"
    assert _judged("supervision", few).verdict == "cannot be tested at this scale"    # 539 images do not decide it
    assert _judged("supervision", high).verdict == "holds"
    assert _judged("supervision", worse).verdict == "does not hold here"


@pytest.mark.slow
def test_a_unit_from_before_a_setting_was_there_has_its_default(report):
    unit, file = units_of(tiny())["frost-mean-s0"], report.out / "units" / "frost-mean-s0.json"
    now = file.read_text()
    older = json.loads(now)
    older["config"]["train"]["ranked_supervision"] = False
    file.write_text(json.dumps(older))
    found = done(report.out, unit, tiny())
    file.write_text(now)
    assert found == older


@pytest.mark.slow
def test_a_unit_of_other_settings_is_refused(report):
    other = replace(tiny(), base=with_model(tiny().base, hurst=0.7))
    with pytest.raises(ValueError, match="other settings"):
        plan(other, report.out)


@pytest.mark.slow
def test_a_folder_that_was_begun_needs_a_word(report, capsys):
    assert main(["reproduce", "--scale", "smoke", "--out", str(report.out)]) == 2
    assert "add --resume" in capsys.readouterr().err


@pytest.mark.slow
def test_a_folder_of_another_scale_is_refused(report, capsys):
    assert main(["reproduce", "--scale", "cpu", "--out", str(report.out), "--resume"]) == 2
    assert "is a reproduction at scale smoke, not cpu" in capsys.readouterr().err
    assert (report.out / "results.json").exists()


def test_an_unknown_section_is_one_line(tmp_path, capsys):
    assert main(["reproduce", "--scale", "smoke", "--out", str(tmp_path / "r"), "--only", "haltng"]) == 2
    assert "Did you mean 'halting'?" in capsys.readouterr().err
    assert not (tmp_path / "r").exists()


def test_a_folder_without_cifar_is_refused_before_anything_is_made(tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    assert main(["reproduce", "--scale", "cpu", "--out", str(tmp_path / "r"), "--data", str(tmp_path / "empty")]) == 2
    assert "cifar-100-python" in capsys.readouterr().err
    assert not (tmp_path / "r").exists()


def test_a_folder_of_something_else_is_refused(tmp_path, capsys):
    (tmp_path / "mine.txt").write_text("mine")
    assert main(["reproduce", "--scale", "smoke", "--out", str(tmp_path)]) == 2
    assert "holds something else" in capsys.readouterr().err
    assert (tmp_path / "mine.txt").read_text() == "mine"


def test_a_plan_writes_nothing(tmp_path, capsys):
    out = tmp_path / "r"
    assert main(["reproduce", "--scale", "smoke", "--out", str(out), "--plan", "--only", "losses", "--json"]) == 0
    what = json.loads(capsys.readouterr().out)
    assert set(what["units"]) == {"frost-mean-s0", "frost-anchoring", "frost-relative"}
    assert what["seconds"] > 0
    assert not out.exists()


@pytest.mark.parametrize("name", ["smoke", "cpu", "paper"])
def test_every_section_needs_only_units_of_the_plan(name):
    scale = scale_of(name)
    known = units_of(scale)
    needed = {unit for section in SECTIONS for unit in needed_by(section, scale)}
    assert needed == set(known)
    assert [unit.name for unit in chosen_units(SECTIONS, scale)] == list(known)


@pytest.mark.slow
@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1100, "light")])
def test_a_browser_shows_the_page_without_a_complaint(report, width, scheme):
    browsers = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        assert not os.environ.get("FROST_REQUIRE_BROWSER"), "no Chromium on this machine: apt install chromium"
        pytest.skip("no Chromium on this machine; make campaigns requires it")
    complaints, requests = [], []
    with browsers.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        tab = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        tab.on("console", lambda message: complaints.append(message.text))
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.on("request", lambda request: requests.append(request.url))
        tab.goto((report.out / "report.html").as_uri())
        wide = tab.evaluate("document.documentElement.scrollWidth")
        drawn = tab.evaluate("[...document.querySelectorAll('figure svg')].filter(s => s.clientWidth > 200).length")
        tab.keyboard.press("Tab")
        first = tab.evaluate("document.activeElement.textContent")
        tab.keyboard.press("Tab")
        second = tab.evaluate("document.activeElement.getAttribute('href')")
        browser.close()
    assert complaints == []
    assert requests == [(report.out / "report.html").as_uri()]
    assert wide <= width
    assert drawn == len(SECTIONS)
    assert first == "Skip to the sections"
    assert second == "#consistency"


def test_what_is_called_the_papers_form_is_the_papers():
    run = scale_of("cpu").base
    assert (run.model.update, run.model.hurst, run.model.scale_init, run.model.leaky) == ("residual", 0.8, 0.5, False)
    assert (run.halting.rank_by, run.halting.relative_weight, run.halting.anchoring_weight) == ("loss", 0.7, 0.3)
    assert run.train.supervision == "last"
