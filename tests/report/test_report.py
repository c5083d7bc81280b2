import io

import torch
from matplotlib import image

from frost.report.demo_digits import Curve, Stopped, demo_figure
from frost.report.tables import percent, si, table


def test_columns_are_aligned_without_trailing_space():
    assert table(["rule", "accuracy"], [["residual", "98.5 %"], ["gated", "7 %"]]) == (
        "rule       accuracy\nresidual     98.5 %\ngated           7 %")
    assert table(["t", "x"], [["1", "10"], ["12", "3"]]) == " t    x\n 1   10\n12    3"


def test_numbers_are_short():
    assert [si(85_798_656), si(2_907_900_000), si(110_000), si(12)] == ["85.80 M", "2.908 G", "110.000 k", "12"]
    assert percent(0.9832) == "98.32 %"


def test_the_picture_is_a_picture():
    strip = [Stopped(torch.rand(8, 8), 3, 3, 2), Stopped(torch.rand(8, 8), 3, 5, 4)]
    png = demo_figure(
        Curve([1.5, 2.0], [0.9, 0.95], [0.01, 0.01]), Curve([1, 2], [0.2, 0.95], [0.02, 0.01]),
        [0.5, 1.0], strip, strip, "title")
    pixels = image.imread(io.BytesIO(png))
    assert pixels.shape[0] > 400
    assert pixels.std() > 0.05
