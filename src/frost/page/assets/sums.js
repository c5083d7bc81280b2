"use strict";
/* Sums of two binary numbers, and problems of any other kind on a line or a grid. */

const grouped = (value) => value.toString().replace(/\B(?=(\d{3})+$)/g, "\u2009");

/* Rows of bits, the lowest on the right; `tone(row, place)` is the colour of a bit and how strong it is. */
function drawBits(canvas, rows, bits, width, height, tone) {
  const pen = sized(canvas, width, height), step = width / bits, tall = height / rows;
  for (let row = 0; row < rows; row++) for (let place = 0; place < bits; place++) {
    const [name, strength] = tone(row, place);
    pen.globalAlpha = strength;
    pen.fillStyle = colour(name);
    pen.fillRect((bits - 1 - place) * step, row * tall + 1, Math.max(1, step - 0.7), tall - 2);
  }
}

function sumView(facts, parts) {
  const bits = facts.shape[1], most = (1n << BigInt(bits)) - 1n, { stage, tools } = parts;
  let pair = [], truth = [], carries = [];
  const wholeOf = (row) => row.reduce((total, bit, place) => (bit ? total | (1n << BigInt(place)) : total), 0n);
  const bitsOf = (value) => Array.from({ length: bits }, (_, place) => Boolean((value >> BigInt(place)) & 1n));

  function set(inputs) {
    pair = [0, 1].map((row) => Array.from(inputs.subarray(row * bits, (row + 1) * bits), (value) => value > 0));
    truth = [];
    carries = [];
    for (let place = 0, carry = 0; place < bits; place++) {
      const total = pair[0][place] + pair[1][place] + carry;
      truth.push(Boolean(total & 1));
      carry = total >> 1;
      carries.push(Boolean(carry));
    }
  }
  function draw() {
    drawBits(stage, 4, bits, 336, 116, (row, place) => (row === 0 ? ["fixed", carries[place] ? 0.85 : 0.1] :
      [row === 3 ? "good" : "ink", (row === 3 ? truth : pair[row - 1])[place] ? 0.9 : 0.13]));
  }
  const boxes = [0, 1].map(() => make("input", { type: "text", inputMode: "numeric", autocomplete: "off",
    spellcheck: false }));
  const labelled = boxes.map((box, i) =>
    make("label", { className: "number" }, `${i ? "Second" : "First"} number`, box));
  function typed() {
    const numbers = boxes.map((box) => box.value.replace(/[\s.,_']/g, ""));
    if (!numbers.every((text) => /^\d+$/.test(text) && BigInt(text) <= most)) {
      parts.say(`Both must be whole numbers from 0 to ${grouped(most)}.`);
      return;
    }
    give(numbers.map(BigInt));
  }
  function give(values) {
    const inputs = Float32Array.from([...bitsOf(values[0]), ...bitsOf(values[1])], (bit) => (bit ? 1 : -1));
    view.show(inputs);
    parts.change(inputs, "your sum");
  }
  const random = () => bitsOf(0n).reduce((total) => (total << 1n) | BigInt(Math.random() < 0.5), 0n);
  boxes.forEach((box) => box.addEventListener("change", typed));
  tools.append(...labelled, make("button", { type: "button", onclick: () => give([random(), random()]) }, "New sum"),
    make("button", { type: "button", onclick: () => give([most >> 1n, 1n]) }, "The longest carry"));

  const view = {
    hint: `Two numbers of ${bits} bits. The rows are the carries (orange), the two numbers, and the right sum ` +
      "(green). The longer a carry travels, the more steps it takes.",
    show(inputs) { set(inputs); boxes.forEach((box, i) => { box.value = grouped(wholeOf(pair[i])); }); draw(); },
    redraw: draw,
    thumbnail(canvas, inputs) {
      const row = (i, place) => inputs[i * bits + place] > 0;
      drawBits(canvas, 2, bits, 160, 30, (i, place) => ["ink", row(i, place) ? 0.9 : 0.13]);
    },
    answer(output) {
      const chances = yesChances(output, 2), verdict = verdictOf(chances, truth, "bit");
      const said = wholeOf(Array.from(chances, (chance) => chance > 0.5));
      return { said: grouped(said), share: "", key: String(said), verdict, isLong: true };
    },
    card(body, output) {
      const canvas = make("canvas"), chances = yesChances(output, 2);
      drawBits(canvas, 1, bits, 256, 22, (_, place) => ((chances[place] > 0.5) !== truth[place] ? ["bad", 1]
        : ["adaptive", chances[place] > 0.5 ? 0.25 + 0.75 * chances[place] : 0.12]));
      body.replaceChildren(canvas, make("p", { className: "note" }, verdictOf(chances, truth, "bit").words));
    },
    cardWidth: "10.3rem",
    isWide: true,
  };
  return view;
}

/* Problems that the page knows nothing of: inputs and answers as shades. */
function cellsView(facts, parts) {
  const [channels, ...space] = facts.shape, rows = space.length > 1 ? space[0] : 1, columns = space[space.length - 1];
  let shown = null;
  function shades(canvas, values, width, name) {
    const height = Math.max(18, (width * rows) / columns), pen = sized(canvas, width, height);
    values.forEach((value, i) => {
      pen.globalAlpha = Math.min(1, Math.max(0.06, value));
      pen.fillStyle = colour(name);
      pen.fillRect(((i % columns) * width) / columns, (Math.floor(i / columns) * height) / rows, width / columns - 0.5,
        height / rows - 0.5);
    });
  }
  const meanOf = (inputs) => Array.from({ length: rows * columns }, (_, i) => {
    let total = 0;
    for (let c = 0; c < channels; c++) total += Math.abs(inputs[c * rows * columns + i]);
    return total / channels;
  });
  return {
    hint: `Inputs of shape ${facts.shape.join(" × ")}, drawn at random: the mean over the channels as a shade.`,
    show(inputs) { shown = inputs; shades(parts.stage, meanOf(inputs), 336, "ink"); },
    redraw() { this.show(shown); },
    thumbnail: (canvas, inputs) => shades(canvas, meanOf(inputs), 120, "ink"),
    answer(output) {
      const count = facts.classes.length, total = output.length / count;
      const best = Array.from({ length: total }, (_, row) =>
        bestOf(output.subarray(row * count, (row + 1) * count), facts.classes, 1)[0].place);
      const often = facts.classes.map((_, place) => best.filter((one) => one === place).length);
      const most = often.indexOf(Math.max(...often));
      const said = `${facts.classes[most]}: ${often[most]} of ${total}`;
      return { said, share: "", key: best.join(","), verdict: null };
    },
    card(body, output) {
      const canvas = make("canvas");
      shades(canvas, yesChances(output, facts.classes.length), 160, "adaptive");
      const last = facts.classes[facts.classes.length - 1];
      body.replaceChildren(canvas, make("p", { className: "note" }, `chance of “${last}”`));
    },
    cardWidth: "9rem",
    isWide: rows === 1,
  };
}
