"use strict";
/* Pictures to what a model takes, as frost.data.images.load_image makes them: cut square at the centre, scaled by a
   bicubic filter over everything that a pixel covers, rounded to whole levels after each direction. */

const MOST_PIXELS = 64e6, LARGEST_CUT = 2048;

function bicubic(distance) {
  const x = Math.abs(distance);
  if (x < 1) return (1.5 * x - 2.5) * x * x + 1;
  return x < 2 ? ((-0.5 * x + 2.5) * x - 4) * x + 2 : 0;
}

/* For every output place: the first input place, and the weights of those that it is made of. */
function filterOf(inSize, start, end, outSize) {
  const scale = (end - start) / outSize, wide = Math.max(scale, 1), support = 2 * wide;
  return Array.from({ length: outSize }, (_, place) => {
    const centre = start + (place + 0.5) * scale;
    const first = Math.max(0, Math.trunc(centre - support + 0.5));
    const last = Math.min(inSize, Math.trunc(centre + support + 0.5));
    const weights = Array.from({ length: last - first }, (__, i) => bicubic((i + first - centre + 0.5) / wide));
    const total = weights.reduce((a, b) => a + b, 0);
    return { first, weights: weights.map((weight) => weight / total) };
  });
}

const level = (value) => Math.min(255, Math.max(0, Math.floor(value + 0.5)));

/* One channel, (height, width), cut at a box and scaled to (size, size). */
function scaledChannel(levels, width, height, box, size) {
  const across = filterOf(width, box.left, box.left + box.width, size);
  const down = filterOf(height, box.top, box.top + box.height, size);
  const rows = new Float64Array(height * size), out = new Float64Array(size * size);
  for (let y = 0; y < height; y++) across.forEach(({ first, weights }, x) => {
    let sum = 0;
    for (let i = 0; i < weights.length; i++) sum += weights[i] * levels[y * width + first + i];
    rows[y * size + x] = level(sum);
  });
  down.forEach(({ first, weights }, y) => {
    for (let x = 0; x < size; x++) {
      let sum = 0;
      for (let i = 0; i < weights.length; i++) sum += weights[i] * rows[(first + i) * size + x];
      out[y * size + x] = level(sum);
    }
  });
  return out;
}

/* Pixels of a canvas, {data, width, height}, as one picture of (channels, size, size) levels. */
function scaledPicture(pixels, size, channels, box) {
  const { data, width, height } = pixels, count = width * height, out = [];
  const side = Math.min(width, height);
  const cut = box || { left: (width - side) / 2, top: (height - side) / 2, width: side, height: side };
  for (let c = 0; c < Math.min(channels, 3); c++) {
    const levels = new Float64Array(count);
    for (let i = 0, at = 0; i < count; i++, at += 4) {
      levels[i] = channels === 1 ? (data[at] * 19595 + data[at + 1] * 38470 + data[at + 2] * 7471 + 0x8000) >> 16
        : data[at + c];
    }
    out.push(...scaledChannel(levels, width, height, cut, size));
  }
  while (out.length < channels * size * size) out.push(0);
  return out;
}

/* A picture file as a square canvas of its own pixels, on black; what is no picture is a sentence. */
async function squareOf(file) {
  let bitmap;
  if (!/^image\/(png|jpeg|webp)$/.test(file.type)) {
    throw new Error(`${file.name || "What came"} is no picture of a known kind: PNG, JPEG or WebP.`);
  }
  try {
    bitmap = await createImageBitmap(file, { colorSpaceConversion: "none" });
  } catch (error) {
    throw new Error(`${file.name || "The picture"} cannot be decoded; it may be damaged.`);
  }
  const { width, height } = bitmap, side = Math.min(width, height), canvas = document.createElement("canvas");
  if (width * height > MOST_PIXELS) throw new Error("The picture has more than 64 million pixels; make it smaller.");
  canvas.width = canvas.height = Math.min(side, LARGEST_CUT);
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.fillStyle = "#000";
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.imageSmoothingQuality = "high";
  const left = (width - side) / 2, top = (height - side) / 2;
  context.drawImage(bitmap, left, top, side, side, 0, 0, canvas.width, canvas.height);
  return canvas;
}

/* The smallest square around what was drawn in light on black, with a margin; null if nothing was. */
function drawnBox(pixels, margin) {
  const { data, width, height } = pixels;
  let left = width, right = -1, top = height, bottom = -1;
  for (let y = 0; y < height; y++) for (let x = 0; x < width; x++) {
    if (data[4 * (y * width + x)] > 40) {
      left = Math.min(left, x); right = Math.max(right, x); top = Math.min(top, y); bottom = Math.max(bottom, y);
    }
  }
  if (right < 0) return null;
  const side = Math.max(right - left + 1, bottom - top + 1) / (1 - 2 * margin);
  return { left: (left + right + 1 - side) / 2, top: (top + bottom + 1 - side) / 2, width: side, height: side };
}
