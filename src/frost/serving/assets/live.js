/* The live view of a run: five tiles from /stats, drawn anew each second. */

const WINDOW = 60;    // looks, one a second, that the depths of late are counted over
const whole = (value) => value.toLocaleString("en");
const rounded = (value, digits) => value.toFixed(digits).replace(/\.0+$/, "");

/* Bars beside each other, as high as their values; the picture says nothing that the words do not. */
function bars(values) {
  const svg = document.createElementNS(SVG, "svg"), most = Math.max(1, ...values), width = 100 / values.length;
  svg.setAttribute("viewBox", "0 0 100 30");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("aria-hidden", "true");
  values.forEach((value, i) => {
    const height = value ? Math.max(1, (29 * value) / most) : 0.4;
    draw(svg, "rect", { x: i * width + width * 0.08, y: 30 - height, width: width * 0.84, height });
  });
  return svg;
}

function gauge(share) {
  const element = make("div", { className: "gauge" });
  element.setAttribute("aria-hidden", "true");
  element.style.setProperty("--share", `${100 * Math.min(1, Math.max(0, share))}%`);
  return element;
}

const TILES = {
  rate: ["Rate", ({ rates }) => {
    const last = rates.slice(-WINDOW), newest = last.slice(-3);
    const now = newest.reduce((a, b) => a + b, 0) / Math.max(1, newest.length);
    const shown = [...new Array(WINDOW - last.length).fill(0), ...last];
    return [`${rounded(now, now < 10 ? 1 : 0)} answers/s`, bars(shown), "the last minute"];
  }],
  depths: ["Depth", (stats, late) => {
    const isLate = late.some((count) => count > 0), counts = isLate ? late : stats.depths;
    const total = counts.reduce((a, b) => a + b, 0);
    const steps = counts.reduce((sum, count, place) => sum + count * (place + 1), 0);
    const most = counts.indexOf(Math.max(...counts)) + 1;
    if (!total) return ["no answers", bars(counts), `steps from 1 to ${stats.depth}`];
    return [`${rounded(steps / total, 1)} steps`, bars(counts),
      `mean of ${whole(total)} ${isLate ? "of late" : "since the start"}; most often ${most} of ${stats.depth}`];
  }],
  queue: ["Queue", ({ waiting, occupied, slots, state, late, expired }) => [`${whole(waiting)} waiting`,
    gauge(occupied / Math.max(1, slots)), `${whole(occupied)} of ${whole(slots)} slots in use; ${state}` +
    (late + expired ? `; ${whole(late)} late, ${whole(expired)} too late` : "")]],
  efficiency: ["Efficiency", ({ efficiency, answered }) => (!answered || efficiency === null
    ? ["not known yet", gauge(0), "no answers"] : [`${rounded(100 * efficiency, 1)} %`, gauge(efficiency),
      `of the rows computed were of an input; ${whole(answered)} answers`])],
  drift: ["Drift", ({ drift, is_watched: watched }) => {
    if (!drift) return [watched ? "too few inputs" : "not watched", gauge(0),
      watched ? "compared with the calibration from 128 inputs on" : "the run has no calibration"];
    const { distance, limit, inputs } = drift;
    const words = `distance ${rounded(distance, 3)}, limit ${rounded(limit, 3)}, ${whole(inputs)} inputs`;
    return [drift.has_drifted ? "inputs have changed" : "none", gauge(distance / Math.max(limit, 1e-9) / 2),
      drift.has_drifted ? `${words}; the log says how to calibrate anew` : words, drift.has_drifted];
  }],
};

class Live {
  constructor(box) {
    this.past = [];
    this.parts = {};
    const list = make("dl", { className: "tiles" });
    for (const [name, [title]] of Object.entries(TILES)) {
      const value = make("dd", {});
      this.parts[name] = value;
      list.append(make("div", { className: "tile", id: `live-${name}` }, make("dt", {}, title), value));
    }
    box.append(list);
  }

  /* Depths of the answers since the oldest look; a run that was read anew counts from nothing. */
  lately(depths, answered) {
    if (this.past.length && answered < this.past[this.past.length - 1].answered) this.past = [];
    this.past.push({ depths, answered });
    if (this.past.length > WINDOW) this.past.shift();
    return depths.map((count, i) => count - (this.past[0].depths[i] || 0));
  }

  show(stats) {
    const late = this.lately(stats.depths, stats.answered);
    for (const [name, [, tile]] of Object.entries(TILES)) {
      const [value, picture, words, isBad] = tile(stats, late);
      this.parts[name].replaceChildren(make("b", { className: isBad ? "bad" : "" }, value), picture,
        make("small", {}, words));
    }
  }
}
