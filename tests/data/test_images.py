import io
import struct
import zlib

import numpy as np
import pytest
import torch
from PIL import Image

from frost.data.images import check_image, image_of_pixels, load_image


def saved(image: Image.Image, format: str = "PNG", **options) -> bytes:
    content = io.BytesIO()
    image.save(content, format=format, **options)
    return content.getvalue()


def resized_header(png: bytes, width: int, height: int) -> bytes:
    """The PNG with another size in its header, its checksum made right."""
    header = b"IHDR" + struct.pack(">II", width, height) + png[24:29]
    return png[:12] + header + struct.pack(">I", zlib.crc32(header)) + png[33:]


def test_pixels_of_a_square_image_are_kept():
    pixels = np.random.default_rng(0).integers(0, 256, (6, 6, 3), dtype=np.uint8)
    image = load_image(saved(Image.fromarray(pixels)), 6)
    assert image.dtype == torch.uint8
    assert torch.equal(image, torch.from_numpy(pixels).permute(2, 0, 1))


@pytest.mark.parametrize("format", ["PNG", "JPEG", "WEBP"])
def test_three_formats_are_read(format):
    image = load_image(saved(Image.new("RGB", (9, 5), (200, 100, 50)), format), 4)
    assert image.shape == (3, 4, 4)
    assert (image.float().mean((1, 2)) - torch.tensor([200.0, 100.0, 50.0])).abs().max() < 3


@pytest.mark.parametrize("format", ["GIF", "BMP", "TIFF", "PPM"])
def test_other_formats_are_refused(format):
    with pytest.raises(ValueError, match="the image is no PNG, JPEG or WebP image"):
        load_image(saved(Image.new("RGB", (4, 4)), format), 4)


def test_the_centre_is_kept_of_a_wide_image():
    pixels = np.zeros((2, 6, 3), np.uint8)
    pixels[:, 2:4] = 255
    assert load_image(saved(Image.fromarray(pixels)), 2).min() == 255


def test_orientation_is_applied():
    pixels = np.zeros((4, 4), np.uint8)
    pixels[0] = 255                       # a bright top row
    exif = Image.Exif()
    exif[0x0112] = 3                      # stored upside down
    image = load_image(saved(Image.fromarray(pixels), "PNG", exif=exif), 4, channels=1)
    assert image[0, 3].min() == 255
    assert image[0, :3].max() == 0


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "I;16", "I", "CMYK"])
def test_every_mode_keeps_its_brightness(mode, channels):
    if mode in ("I", "I;16"):
        image = Image.fromarray(np.full((4, 4), 65535, np.uint16))
    else:
        image = Image.new("RGB", (4, 4), "white").convert(mode)
    content = saved(image, "JPEG" if mode == "CMYK" else "PNG")
    loaded = load_image(content, 4, channels)
    assert loaded.shape == (channels, 4, 4)
    assert loaded.min() >= 254


def test_sixteen_bits_lose_the_lower_byte():
    image = load_image(saved(Image.fromarray(np.full((2, 2), 0x40FF, np.uint16))), 2, channels=1)
    assert image.unique().tolist() == [0x40]


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P"])
def test_transparent_pixels_are_black(mode):
    image = Image.new("RGBA", (2, 2), (255, 255, 255, 0)).convert(mode)
    options = {"transparency": image.getpixel((0, 0))} if mode == "P" else {}
    assert load_image(saved(image, **options), 2).max() == 0


@pytest.mark.parametrize("side", [8_001, 12_000, 100_000])
def test_too_many_pixels_are_refused_by_the_header(side):
    bomb = resized_header(saved(Image.new("L", (4, 4))), side, side)
    with pytest.raises(ValueError, match=r"pixels.*make it smaller"):
        load_image(bomb, 4)


def test_a_broken_image_is_refused_by_name(tmp_path):
    content = saved(Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)), "JPEG")
    (tmp_path / "half.jpg").write_bytes(content[:len(content) // 2])
    with pytest.raises(ValueError, match=r"half\.jpg cannot be decoded"):
        load_image(tmp_path / "half.jpg", 8)


@pytest.mark.parametrize("format", ["PNG", "JPEG", "WEBP"])
def test_the_check_finds_a_file_that_ends_too_soon(tmp_path, format):
    path = tmp_path / "image"
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    content = saved(Image.fromarray(noise), format)
    path.write_bytes(content)
    check_image(path)
    path.write_bytes(content[:-100])
    with pytest.raises(ValueError, match=r"/image (is damaged|ends too soon|is no PNG)"):
        check_image(path)


def test_a_file_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(ValueError, match=r"none\.png must be an image file; there is none"):
        load_image(tmp_path / "none.png", 4)


def test_pixels_become_what_their_file_would(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (20, 12, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    assert torch.equal(image_of_pixels(pixels, 8), load_image(tmp_path / "a.png", 8))


def test_what_are_no_pixels_is_refused():
    with pytest.raises(ValueError, match=r"pixels must be \(height, width\)"):
        image_of_pixels(np.zeros((3, 8, 8), np.uint8), 8)
