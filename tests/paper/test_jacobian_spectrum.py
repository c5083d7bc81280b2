"""The spectrum of a step's Jacobian along the path, against exact decompositions and proven bounds."""

from dataclasses import replace

import pytest
import torch

from frost.data.digits import load_digits
from frost.paper.measurements.trained_step import frozen_twin, step_of
from frost.paper.section import sections
from frost.paper.sections import jacobian_spectrum as jacobian
from frost.paper.sections.jacobian_spectrum import LEADING, leading_singular_values, mean_square, spectrum_along
from frost.report.drawing import as_files
from frost.zoo.registry import SIZES, build

CONFIG = replace(SIZES["resnet-8px"], channels=8, depth=3)


def linear_map(values):
    """A map with these singular values, one for each direction of a random basis."""
    generator = torch.Generator().manual_seed(0)
    left, right = (torch.linalg.qr(torch.randn(len(values), len(values), generator=generator).double()).Q
                   for _ in range(2))
    matrix = left @ torch.diag(torch.tensor(values, dtype=torch.double)) @ right.T
    return lambda hidden: hidden @ matrix.T


def test_the_leading_values_of_a_linear_map_are_its_singular_values():
    values = [3.0, 2.0, 1.5, 1.2, 1.0, 0.9, 0.8, 0.7, 0.1, 0.05]
    found = leading_singular_values(linear_map(values), torch.zeros(2, len(values)).double())
    assert found.shape == (2, LEADING)
    assert found[0].tolist() == pytest.approx(values[:LEADING], rel=1e-9)


def test_the_mean_square_of_a_multiple_of_the_identity_is_exact():
    assert mean_square(lambda hidden: 0.5 * hidden, torch.zeros(3, 20).double()).tolist() == pytest.approx([0.25] * 3)


def test_the_block_finds_what_the_whole_matrix_has():
    model, test = build(CONFIG, seed=0), load_digits().test
    found = spectrum_along(model, test)
    with frozen_twin(model, test, 1) as (twin, images):
        start = twin.begin(images)
        hidden = twin(images).states[:, -1]
        step = step_of(twin, start)
        matrix = torch.autograd.functional.jacobian(step, hidden).reshape(hidden.numel(), hidden.numel())
        exact = torch.linalg.svdvals(matrix)
    assert found["singular_values"][-1][0][0] == pytest.approx(exact[0].item(), rel=1e-3)
    assert found["singular_values"][-1][0][0] <= exact[0].item() * (1 + 1e-9)
    assert found["mean_square"][-1][0] == pytest.approx(exact.square().mean().item(), rel=0.2)    # 8 random directions


def test_a_step_that_contracts_by_construction_has_no_larger_singular_value():
    model = build(replace(CONFIG, update="contractive"), seed=0)
    found = torch.tensor(spectrum_along(model, load_digits().test)["singular_values"])
    assert found.shape == (3, jacobian.IMAGES, LEADING)
    assert found.max() <= model.lipschitz * (1 + 1e-9)


def unit(first, last):
    """A unit of two steps and three images, whose largest singular value goes from one number to another."""
    steps = [[[top + 0.01 * image] + [0.5] * (LEADING - 1) for image in range(3)] for top in (first, last)]
    return {"is_finite": True, "per_step_accuracy": [0.9, 0.9], "classes": 10, "seed": 0,
            "jacobian": {"singular_values": steps, "mean_square": [[0.9, 0.91, 0.92]] * 2}}


@pytest.mark.parametrize(("first", "last", "verdict"), [
    (2.0, 0.5, "holds"), (2.0, 1.5, "holds in part"), (0.5, 0.8, "holds in part")])
def test_the_verdict_follows_from_the_singular_values(first, last, verdict):
    section = sections()["jacobian"]
    found = section.judged({"ours": unit(2.0, 0.5), "frost-mean-s0": unit(first, last)})
    assert found.verdict == verdict
    assert list(found.beyond.values()) == [True, True, True]


def test_the_section_is_drawn_from_its_numbers():
    section = sections()["jacobian"]
    found = section.judged({"ours": unit(2.0, 0.5), "frost-mean-s0": unit(1.5, 1.4)})
    files = as_files(section.draw(found.paper, found.ours, {}), "jacobian")
    assert files["jacobian.png"].startswith(b"\x89PNG")
    assert b"<svg" in files["jacobian.svg"]
