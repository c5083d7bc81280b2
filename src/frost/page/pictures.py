"""A dozen simple pictures drawn by code, of any size: what a page of a picture model offers to begin with."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageChops, ImageDraw, ImageFilter

CANVAS = 512    # pixels at which a picture is drawn
Colour = tuple[int, int, int]
Box = tuple[float, float, float, float]    # left, top, right, bottom, as shares of the picture


def pictures(size: int) -> Iterator[tuple[str, NDArray[np.uint8]]]:
    """Names and pictures, (size, size, 3)."""
    for place, (name, draw) in enumerate(DRAWINGS.items()):
        coarse = np.random.default_rng(place).normal(0, 5, (CANVAS // 8, CANVAS // 8, 1))
        grain = np.kron(coarse, np.ones((8, 8, 1)))
        picture = np.asarray(draw().filter(ImageFilter.GaussianBlur(3)), np.float64) + grain
        image = Image.fromarray(picture.clip(0, 255).astype(np.uint8))
        yield name, np.asarray(image.resize((size, size), Image.Resampling.BOX))


def _between(top: Colour, bottom: Colour) -> Image.Image:
    """A gradient from top to bottom."""
    share = np.linspace(0, 1, CANVAS)[:, None, None]
    rows = (1 - share) * np.array(top) + share * np.array(bottom)
    return Image.fromarray(np.repeat(rows, CANVAS, axis=1).astype(np.uint8))


def _lower(picture: Image.Image, horizon: float, top: Colour, bottom: Colour) -> Image.Image:
    """The picture with another gradient below a horizon."""
    start = int(horizon * CANVAS)
    picture.paste(_between(top, bottom).resize((CANVAS, CANVAS - start)), (0, start))
    return picture


def _ball(picture: Image.Image, box: Box, light: Colour, dark: Colour) -> Image.Image:
    """A round body, lit from the upper left."""
    left, top, right, bottom = (int(side * CANVAS) for side in box)
    down, across = np.mgrid[-1:1:(bottom - top) * 1j, -1:1:(right - left) * 1j]
    share = np.clip(np.hypot(across + 0.35, down + 0.4) / 1.6, 0, 1)[..., None]
    body = Image.fromarray(((1 - share) * np.array(light) + share * np.array(dark)).astype(np.uint8))
    mask = Image.fromarray(((np.hypot(across, down) < 1) * 255).astype(np.uint8))
    picture.paste(body, (left, top), mask)
    return picture


def _shape(picture: Image.Image, points: list[tuple[float, float]], colour: Colour) -> Image.Image:
    """A polygon."""
    ImageDraw.Draw(picture).polygon([(x * CANVAS, y * CANVAS) for x, y in points], fill=colour)
    return picture


def _box(picture: Image.Image, box: Box, colour: Colour) -> Image.Image:
    left, top, right, bottom = box
    return _shape(picture, [(left, top), (right, top), (right, bottom), (left, bottom)], colour)


def _petals(picture: Image.Image, count: int, radius: float, width: float, colour: Colour,
            middle: tuple[float, float] = (0.5, 0.46)) -> Image.Image:
    """Petals around a middle."""
    for number in range(count):
        angle = 2 * math.pi * number / count
        corners = ((0.1, angle), (0.7, angle - width), (1.0, angle), (0.7, angle + width))
        ends = [(middle[0] + radius * reach * math.cos(turn), middle[1] + radius * reach * math.sin(turn))
                for reach, turn in corners]
        shade = 0.82 + 0.18 * (number % 2)
        _shape(picture, ends, (int(colour[0] * shade), int(colour[1] * shade), int(colour[2] * shade)))
    return picture


def _apple() -> Image.Image:
    picture = _ball(_between((255, 255, 255), (246, 246, 246)), (0.14, 0.2, 0.86, 0.92), (240, 70, 60), (120, 8, 18))
    picture = _shape(picture, [(0.49, 0.26), (0.53, 0.25), (0.58, 0.08), (0.54, 0.07)], (92, 62, 30))
    return _shape(picture, [(0.55, 0.17), (0.68, 0.06), (0.82, 0.1), (0.7, 0.2)], (84, 140, 52))


def _orange() -> Image.Image:
    return _ball(_between((255, 255, 255), (244, 244, 244)), (0.12, 0.12, 0.88, 0.88), (255, 178, 60), (214, 96, 8))


def _sea() -> Image.Image:
    sky = _between((96, 152, 216), (252, 214, 170))
    picture = _ball(sky, (0.58, 0.3, 0.74, 0.46), (255, 250, 220), (255, 236, 160))
    picture = _lower(picture, 0.56, (70, 120, 150), (14, 52, 92))
    for number in range(9):
        height = 0.6 + 0.04 * number
        _box(picture, (0.66 - 0.02 * number, height, 0.66 + 0.02 * number, height + 0.008), (200, 200, 176))
    return picture


def _mountain() -> Image.Image:
    picture = _between((90, 140, 210), (200, 220, 240))
    picture = _shape(picture, [(-0.1, 0.8), (0.3, 0.35), (0.7, 0.8)], (98, 104, 122))
    picture = _shape(picture, [(0.15, 0.85), (0.6, 0.16), (1.1, 0.85)], (78, 82, 98))
    picture = _shape(picture, [(0.47, 0.36), (0.6, 0.16), (0.76, 0.38), (0.66, 0.36), (0.6, 0.42), (0.54, 0.34)],
                     (240, 244, 250))
    return _lower(picture, 0.78, (60, 84, 52), (38, 60, 34))


def _road() -> Image.Image:
    picture = _lower(_between((110, 166, 228), (214, 228, 240)), 0.45, (150, 148, 92), (112, 120, 62))
    picture = _shape(picture, [(0.47, 0.45), (0.53, 0.45), (1.0, 1.0), (0.0, 1.0)], (92, 92, 96))
    for near, far in ((1.0, 0.86), (0.78, 0.68), (0.62, 0.56), (0.53, 0.5)):
        half = [0.035 * (height - 0.45) for height in (near, far)]
        _shape(picture, [(0.5 - half[0], near), (0.5 + half[0], near), (0.5 + half[1], far), (0.5 - half[1], far)],
               (240, 220, 130))
    return picture


def _skyscraper() -> Image.Image:
    picture = _between((92, 146, 214), (190, 212, 236))
    for box, colour in (((0.34, 0.06, 0.66, 1.0), (96, 108, 124)), ((0.0, 0.66, 0.3, 1.0), (120, 112, 104)),
                        ((0.7, 0.58, 1.0, 1.0), (140, 132, 122))):
        _box(picture, box, colour)
    for row in range(18):
        for column in range(5):
            left, top = 0.365 + 0.057 * column, 0.09 + 0.05 * row
            _box(picture, (left, top, left + 0.036, top + 0.03), (176, 198, 220))
    return picture


def _sunflower() -> Image.Image:
    picture = _between((58, 104, 44), (34, 74, 26))
    picture = _petals(_petals(picture, 18, 0.44, 0.2, (255, 206, 30)), 17, 0.38, 0.2, (246, 178, 12))
    return _ball(picture, (0.33, 0.29, 0.67, 0.63), (112, 70, 30), (52, 30, 12))


def _poppy() -> Image.Image:
    picture = _between((96, 132, 62), (60, 100, 40))
    picture = _ball(picture, (0.12, 0.1, 0.62, 0.62), (244, 60, 40), (190, 18, 14))
    picture = _ball(picture, (0.4, 0.1, 0.9, 0.62), (244, 52, 34), (184, 16, 14))
    picture = _ball(picture, (0.2, 0.34, 0.82, 0.88), (250, 70, 46), (196, 20, 16))
    return _ball(picture, (0.42, 0.38, 0.6, 0.56), (40, 40, 34), (14, 14, 12))


def _clock() -> Image.Image:
    picture = _ball(_between((250, 250, 250), (236, 236, 236)), (0.08, 0.08, 0.92, 0.92), (60, 60, 66), (24, 24, 28))
    picture = _ball(picture, (0.15, 0.15, 0.85, 0.85), (255, 255, 252), (236, 236, 228))
    for hour in range(12):
        angle = hour * math.pi / 6
        x, y = 0.5 + 0.29 * math.cos(angle), 0.5 + 0.29 * math.sin(angle)
        _box(picture, (x - 0.018, y - 0.018, x + 0.018, y + 0.018), (20, 20, 20))
    _shape(picture, [(0.485, 0.5), (0.515, 0.5), (0.505, 0.24), (0.495, 0.24)], (10, 10, 10))
    return _shape(picture, [(0.5, 0.485), (0.5, 0.515), (0.69, 0.58), (0.69, 0.565)], (10, 10, 10))


def _plate() -> Image.Image:
    picture = _ball(_between((128, 84, 52), (98, 60, 36)), (0.06, 0.06, 0.94, 0.94), (255, 255, 255), (206, 208, 214))
    return _ball(picture, (0.22, 0.22, 0.78, 0.78), (232, 234, 238), (250, 250, 252))


def _bottle() -> Image.Image:
    picture = _between((250, 250, 250), (240, 240, 240))
    _box(picture, (0.44, 0.05, 0.56, 0.13), (160, 30, 30))
    _shape(picture, [(0.45, 0.13), (0.55, 0.13), (0.56, 0.3), (0.67, 0.44), (0.67, 0.95), (0.33, 0.95), (0.33, 0.44),
                     (0.44, 0.3)], (30, 92, 50))
    _box(picture, (0.33, 0.56, 0.67, 0.78), (236, 228, 196))
    return ImageChops.lighter(picture, _box(_between((0, 0, 0), (0, 0, 0)), (0.38, 0.46, 0.42, 0.92), (90, 150, 104)))


def _rocket() -> Image.Image:
    picture = _between((70, 120, 190), (150, 186, 226))
    _shape(picture, [(0.5, 0.04), (0.57, 0.2), (0.57, 0.66), (0.43, 0.66), (0.43, 0.2)], (240, 240, 242))
    _shape(picture, [(0.43, 0.5), (0.36, 0.7), (0.43, 0.66)], (190, 40, 36))
    _shape(picture, [(0.57, 0.5), (0.64, 0.7), (0.57, 0.66)], (190, 40, 36))
    _shape(picture, [(0.44, 0.66), (0.56, 0.66), (0.61, 0.92), (0.5, 1.0), (0.39, 0.92)], (255, 196, 70))
    return _ball(picture, (0.2, 0.86, 0.8, 1.2), (250, 246, 240), (200, 196, 192))


DRAWINGS: dict[str, Callable[[], Image.Image]] = {
    "sunflower": _sunflower, "apple": _apple, "sea": _sea, "skyscraper": _skyscraper, "orange": _orange, "road": _road,
    "clock": _clock, "mountain": _mountain, "rocket": _rocket, "plate": _plate, "bottle": _bottle, "poppy": _poppy}
