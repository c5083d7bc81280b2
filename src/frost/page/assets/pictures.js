"use strict";
/* Pictures with one answer: a stage to draw on, files and the clipboard, bars of the best five classes. */

const BRUSHES = ["#111111", "#ffffff", "#d92d20", "#f28c18", "#f5d21f", "#2e8b3d", "#2f6fde", "#7a4b2a"];
const BAD_KIND = "A picture is needed, PNG, JPEG or WebP; what came is none.";

function chancesOf(logits) {
  const chances = Float64Array.from(logits);
  softmax(chances);
  return chances;
}

function bestOf(output, classes, count) {
  const chances = chancesOf(output);
  return Array.from(chances.keys()).sort((a, b) => chances[b] - chances[a] || a - b).slice(0, count)
    .map((place) => ({ place, name: classes[place], chance: chances[place] }));
}

const percent = (share) => (share > 0.9995 ? "> 99.9 %" : `${(100 * share).toFixed(share > 0.995 ? 1 : 0)} %`);

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name in element && name !== "list") element[name] = value; else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

/* Inputs (channels, size, size) in [0, 1] on a canvas, a pixel each. */
function paintPixels(canvas, inputs, channels, size) {
  canvas.width = canvas.height = size;
  const image = new ImageData(size, size), plane = size * size;
  for (let i = 0; i < plane; i++) {
    for (let c = 0; c < 3; c++) image.data[4 * i + c] = Math.round(255 * inputs[(channels < 3 ? 0 : c * plane) + i]);
    image.data[4 * i + 3] = 255;
  }
  canvas.getContext("2d").putImageData(image, 0, 0);
}

function pictureView(facts, parts) {
  const [channels, size] = facts.shape, { stage, seen, tools } = parts, grey = channels < 3;
  const side = 448, blank = grey ? "#000000" : "#ffffff", brush = { colour: grey ? "#ffffff" : BRUSHES[2] };
  let isDrawing = false, isFitted = false, last = null;
  const context = () => stage.getContext("2d", { willReadFrequently: true });

  function fill() {
    stage.width = stage.height = side;
    context().fillStyle = blank;
    context().fillRect(0, 0, side, side);
  }
  function given() {    // what is on the stage, as the model takes it
    const pixels = context().getImageData(0, 0, stage.width, stage.height);
    const box = isFitted && facts.margin != null ? drawnBox(pixels, facts.margin) : null;
    const levels = scaledPicture(pixels, size, channels, box);
    const inputs = Float32Array.from(levels, (value) => value / 255);
    paintPixels(seen, inputs, channels, size);
    seen.hidden = false;
    return inputs;
  }
  function stroke(event) {
    const box = stage.getBoundingClientRect(), ratio = stage.width / box.width;
    const x = (event.clientX - box.left) * ratio, y = (event.clientY - box.top) * ratio, pen = context();
    pen.strokeStyle = brush.colour;
    pen.lineWidth = stage.width / (grey ? 9 : 14);
    pen.lineCap = pen.lineJoin = "round";
    pen.beginPath();
    pen.moveTo(last ? last.x : x, last ? last.y : y);
    pen.lineTo(x + 0.01, y);
    pen.stroke();
    last = { x, y };
  }
  function clear() { fill(); isFitted = true; seen.hidden = true; }

  async function read(file) {
    const canvas = await squareOf(file);
    stage.width = stage.height = canvas.width;
    context().drawImage(canvas, 0, 0);
    isFitted = false;
    parts.change(given(), `your picture${file.name ? `, ${file.name}` : ""}`);
  }

  stage.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    stage.setPointerCapture(event.pointerId);
    if (grey && !isFitted) clear();    // a drawing of its own, not on top of the example
    isDrawing = true;
    last = null;
    stroke(event);
  });
  stage.addEventListener("pointermove", (event) => { if (isDrawing) stroke(event); });
  for (const end of ["pointerup", "pointercancel"]) stage.addEventListener(end, () => {
    if (!isDrawing) return;
    isDrawing = false;
    parts.change(given(), "your drawing");
  });

  const chooser = make("input", { type: "file", accept: "image/png,image/jpeg,image/webp" });
  chooser.addEventListener("change", () => {
    const [file] = chooser.files;
    chooser.value = "";
    if (file) parts.attempt(() => read(file));
  });
  tools.append(make("label", { className: "file" }, "Open a picture…", chooser),
    make("button", { type: "button", onclick: clear }, "Clear to draw"));
  if (!grey) {
    const swatches = make("fieldset", { className: "swatches" }, make("legend", { className: "hidden" }, "Brush"));
    for (const colour of BRUSHES) {
      const input = make("input", { type: "radio", name: "brush", value: colour, checked: colour === brush.colour });
      input.setAttribute("aria-label", `brush ${colour}`);
      input.addEventListener("change", () => { brush.colour = colour; });
      const label = make("label", {}, input);
      label.style.background = colour;
      swatches.append(label);
    }
    tools.append(swatches);
  }
  parts.box.classList.add("pad");

  return {
    hint: "Draw here, drop a picture anywhere, or paste one. " +
      `The model sees ${size} × ${size} ${grey ? "grey " : ""}pixels.`,
    read,
    show(inputs) {    // an example: its very pixels
      const small = document.createElement("canvas");
      paintPixels(small, inputs, channels, size);
      stage.width = stage.height = side;
      context().imageSmoothingEnabled = false;
      context().drawImage(small, 0, 0, side, side);
      seen.hidden = true;
      isFitted = false;
    },
    thumbnail: (canvas, inputs) => paintPixels(canvas, inputs, channels, size),
    answer(output) {
      const [best] = bestOf(output, facts.classes, 1);
      return { said: best.name, share: percent(best.chance), key: best.place, verdict: null };
    },
    card(body, output) {
      body.replaceChildren(...bestOf(output, facts.classes, 5).map(({ name, chance }, rank) => {
        const bar = make("i");
        bar.style.setProperty("--share", `${100 * chance}%`);
        return make("div", { className: rank ? "bar" : "bar first" }, make("span", { title: name }, name),
          make("b", {}, percent(chance)), bar);
      }));
    },
    cardWidth: "10.3rem",
  };
}
