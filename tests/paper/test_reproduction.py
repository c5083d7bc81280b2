import json
import os
import re
import shutil
from dataclasses import replace

import pytest

from frost.cli import main
from frost.data.digits import load_digits
from frost.paper import abstract
from frost.paper.reproduction import plan, reproduce
from frost.paper.section import sections, units_of, verdict_of
from frost.paper.sizes import Size, as_printed, size_of, with_model
from frost.paper.units import base, do, done
from frost.recipes import recipe

VERDICTS = {"holds", "holds in part", "does not hold here", "cannot be tested at this scale"}


def tiny() -> Size:
    run = recipe("digits")
    small = replace(run, model=replace(run.model, channels=16, bottleneck=8, depth=4),
                    train=replace(run.train, epochs=1, batch=128))
    return Size(name="smoke", base=as_printed(small), ours=small, seeds=(0,), backbones=("resnet-8px",), batches=(4,),
                paths=16, probes=1)


pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    out = tmp_path_factory.mktemp("reproduction") / "report"
    return reproduce(tiny(), out)


def without_timing(results):
    return {key: value for key, value in results.items() if key != "timing"}


@pytest.mark.slow
def test_all_sections_are_filled_from_real_runs(report):
    assert list(report.results["sections"]) == list(sections())
    for name, section in report.results["sections"].items():
        assert section["ours"], name
        assert section["paper"], name
        assert section["criterion"], name
        assert section["command"].endswith(f"--only {name}")


@pytest.mark.slow
@pytest.mark.parametrize("name", sections())
def test_every_verdict_follows_from_its_checks_and_from_what_its_runs_learned(report, name):
    found = sections()[name].judge(units_for(report, name))
    section = report.results["sections"][name]
    assert section["verdict"] == verdict_of(section["checks"], *found.runs)
    assert dict(found.checks) == section["checks"]
    assert found.runs


@pytest.mark.slow
def test_every_claim_of_the_abstract_and_the_conclusion_has_a_verdict_with_figures(report):
    assert len(report.results["claims"]) == len(abstract.CLAIMS)
    for row in report.results["claims"]:
        assert row["verdict"] in VERDICTS
        assert all(re.search(r"\d", figures) for figures in row["figures"])


SAID = {"true_dimension", "quantile", "threshold", "fraction", "seed", "severity", "target_depth", "depth", "scale"}
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
    assert text.count("<svg") == len(sections())
    assert not re.search(r'(?:src|href)="(?!#)', text.replace('xmlns:xlink="', ""))
    assert "url(http" not in text
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'href="#([^"]+)"', text)) <= set(ids)


@pytest.mark.slow
def test_every_section_has_its_figure_in_both_forms(report):
    names = {file.name for file in (report.out / "figures").iterdir()}
    assert names == {f"{name}.{kind}" for name in sections() for kind in ("svg", "png")}


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
    return {unit.name: json.loads((report.out / f"units/{unit.name}.json").read_text())
            for unit in sections()[section].units(tiny())}


def diverged(unit):
    """What is left of a unit whose training diverged."""
    return {**{key: unit[key] for key in ("name", "config", "measured_with")}, "is_finite": False,
            "why": "the loss is nan", "seed": 0, "over_training": {"conflict": []}, "timing": {}}


@pytest.mark.slow
@pytest.mark.parametrize("section", [name for name in sections() if name != "complexity"])
def test_a_training_that_diverged_leaves_a_verdict(report, section):
    units = units_for(report, section)
    lost = next(name for name in units if name.startswith("frost-") and "untrained" not in name) \
        if section != "shift" else "ours"
    found = sections()[section].judged(units | {lost: diverged(units[lost])})
    assert found.verdict in VERDICTS
    assert json.dumps(found._asdict() | {"sanity": dict(found.sanity), "beyond": dict(found.beyond)}, allow_nan=False)
    if section != "collapse":
        assert found.verdict == "cannot be tested at this scale"


@pytest.mark.slow
def test_a_diverged_training_is_a_collapse(report):
    units = units_for(report, "collapse")
    found = sections()["collapse"].judged(units | {"vanilla-sum-s0": diverged(units["vanilla-sum-s0"])})
    assert found.ours["grid"]["vanilla"]["sum"]["rows"][0]["collapsed"] == "not finite"


@pytest.mark.slow
def test_models_at_chance_cannot_tell(report):
    units = units_for(report, "supervision")
    low = {name: {**unit, "per_step_accuracy": [0.1] * unit["depth"]} for name, unit in units.items()}
    few = {name: {**unit, "per_step_accuracy": [0.9] * unit["depth"]} for name, unit in units.items()}
    high = {name: {**unit, "images": 10_000} for name, unit in few.items()}
    worse = {**high, "frost-mean-s0": {**high["frost-mean-s0"], "per_step_accuracy": [0.7] * 4}}
    judged = sections()["supervision"].judged
    assert judged(low).verdict == "cannot be tested at this scale"
    assert judged(few).verdict == "cannot be tested at this scale"    # 539 images do not decide it
    assert judged(high).verdict == "holds"
    assert judged(worse).verdict == "does not hold here"


@pytest.mark.slow
def test_a_unit_from_before_a_setting_was_there_has_its_default(report):
    unit, file = base(tiny()), report.out / "units" / "frost-mean-s0.json"
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
    assert main(["reproduce", "--size", "smoke", "--out", str(report.out)]) == 2
    assert "add --resume" in capsys.readouterr().err


@pytest.mark.slow
def test_a_folder_of_another_size_is_refused(report, capsys):
    assert main(["reproduce", "--size", "cpu", "--out", str(report.out), "--resume"]) == 2
    assert "is a reproduction at size smoke, not cpu" in capsys.readouterr().err
    assert (report.out / "results.json").exists()


def test_a_folder_of_an_earlier_version_is_gone_on_with(tmp_path, capsys):
    out = tmp_path / "r"
    out.mkdir()
    (out / "kit.json").write_text('{"format": 1, "scale": "smoke"}')
    assert main(["reproduce", "--size", "cpu", "--out", str(out), "--resume"]) == 2
    assert "is a reproduction at size smoke, not cpu" in capsys.readouterr().err
    assert main(["reproduce", "--size", "smoke", "--out", str(out)]) == 2
    assert "add --resume" in capsys.readouterr().err
    assert plan(tiny(), out, only=["losses"]).units["frost-mean-s0"] == "to train"


@pytest.mark.slow
def test_a_section_that_lacks_a_measurement_is_left_out_with_a_sentence(report, tmp_path, capsys):
    (tmp_path / "units").mkdir()
    shutil.copy(report.out / "reproduction.json", tmp_path)
    for name, unit in units_for(report, "jacobian").items():
        (tmp_path / "units" / f"{name}.json").write_text(json.dumps(unit if name == "ours" else without_jacobian(unit)))
    found = reproduce(tiny(), tmp_path, only=["jacobian"], resume=True).results
    assert list(found["sections"]) == ["halting", "extrapolation", "shift"]
    assert "jacobian is left out: jacobian of frost-mean-s0 was not measured" in capsys.readouterr().err


@pytest.mark.slow
def test_a_measurement_that_is_lost_comes_back_the_same(report):
    file = report.out / "units" / "frost-mean-s0.json"
    now = json.loads(file.read_text())
    file.write_text(json.dumps(without_jacobian(now)))
    assert plan(tiny(), report.out, only=["jacobian"]).units == {"frost-mean-s0": "to measure", "ours": "done"}
    unit = next(unit for unit in units_of(sections().values(), tiny()) if unit.name == "frost-mean-s0")
    assert without_timing(do(unit, tiny(), report.out, load_digits(), None)) == without_timing(now)
    assert json.loads(file.read_text())["jacobian"] == now["jacobian"]


def without_jacobian(numbers):
    """A unit from before that section was there."""
    wants = [want for want in numbers["measured_with"]["wants"] if want != "jacobian"]
    return {**{key: value for key, value in numbers.items() if key != "jacobian"},
            "measured_with": {**numbers["measured_with"], "wants": wants}}


def test_an_unknown_section_is_one_line(tmp_path, capsys):
    assert main(["reproduce", "--size", "smoke", "--out", str(tmp_path / "r"), "--only", "haltng"]) == 2
    assert "Did you mean 'halting'?" in capsys.readouterr().err
    assert not (tmp_path / "r").exists()


def test_a_folder_without_cifar_is_refused_before_anything_is_made(tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    assert main(["reproduce", "--size", "cpu", "--out", str(tmp_path / "r"), "--data", str(tmp_path / "empty")]) == 2
    assert "cifar-100-python" in capsys.readouterr().err
    assert not (tmp_path / "r").exists()


def test_a_folder_of_something_else_is_refused(tmp_path, capsys):
    (tmp_path / "mine.txt").write_text("mine")
    assert main(["reproduce", "--size", "smoke", "--out", str(tmp_path)]) == 2
    assert "holds something else" in capsys.readouterr().err
    assert (tmp_path / "mine.txt").read_text() == "mine"


def test_a_plan_writes_nothing(tmp_path, capsys):
    out = tmp_path / "r"
    assert main(["reproduce", "--size", "smoke", "--out", str(out), "--plan", "--only", "losses", "--json"]) == 0
    what = json.loads(capsys.readouterr().out)
    assert set(what["units"]) == {"frost-mean-s0", "frost-anchoring", "frost-relative"}
    assert what["seconds"] > 0
    assert not out.exists()


@pytest.mark.parametrize("name", ["smoke", "cpu", "paper"])
def test_every_section_needs_only_units_of_the_plan(name):
    size = size_of(name)
    known = [unit.name for unit in units_of(sections().values(), size)]
    needed = {unit.name for section in sections().values() for unit in section.units(size)}
    assert needed == set(known)
    assert len(known) == len(needed)


@pytest.mark.slow
@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1100, "light")])
def test_a_browser_shows_the_page_without_a_complaint(report, width, scheme):
    from playwright import sync_api as browsers  # of the extra `test`

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
    assert drawn == len(sections())
    assert first == "Skip to the sections"
    assert second == "#consistency"


def test_what_is_called_the_papers_form_is_the_papers():
    run = size_of("cpu").base
    assert (run.model.update, run.model.hurst, run.model.scale_init, run.model.leaky) == ("residual", 0.8, 0.5, False)
    assert (run.halting.rank_by, run.halting.relative_weight, run.halting.anchoring_weight) == ("loss", 0.7, 0.3)
    assert run.train.supervision == "last"
