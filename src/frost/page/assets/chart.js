"use strict";
/* The score after each step against its threshold, as SVG. */

const SVG = "http://www.w3.org/2000/svg";

function draw(parent, tag, attributes, text) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text != null) element.textContent = text;
  parent.append(element);
  return element;
}

/* What a threshold asks for, in words. */
function needed(name, threshold) {
  if (threshold === Infinity) return "goes on";
  if (threshold === -Infinity) return "stops all";
  const signal = shownSignal(name);
  return `${signal.falls ? "<" : ">"} ${shownNumber(signal.of(threshold))}`;
}

/* Where steps and scores stand in a picture of this width. */
function frameOf(width, depth) {
  const height = 150, top = 22, bottom = height - 40, column = (width - 16) / depth;
  return { width, height, column, isWide: column > 62, x: (step) => 8 + (step - 0.5) * column,
    y: (place) => bottom - place * (bottom - top) };
}

function drawThresholds(svg, frame, budget, stop, depth) {
  const { x, y, column, height, isWide } = frame;
  for (let step = 1; step <= depth; step++) {
    const threshold = thresholdAt(budget, step), isLast = step === depth;
    const at = y(isLast ? 0 : placeOf(budget.signal, threshold, depth));
    const below = { x: x(step), "text-anchor": "middle" };
    if (step === stop) {
      draw(svg, "rect", { x: x(step) - column / 2 + 1, y: 4, width: column - 2, height: height - 8, rx: 6,
        fill: "var(--adaptive-soft)" });
    }
    draw(svg, "line", { x1: x(step) - column * 0.4, x2: x(step) + column * 0.4, y1: at, y2: at, stroke: "var(--fixed)",
      "stroke-width": 2.5, "stroke-linecap": "round", opacity: threshold === Infinity && !isLast ? 0.35 : 1 });
    if (isWide || depth <= 12 || step % 4 === 0 || step === 1) {
      draw(svg, "text", { ...below, y: height - 22, fill: "var(--ink)" }, isWide ? `step ${step}` : step);
    }
    if (isWide) {
      const words = isLast ? "the last step" : needed(budget.signal, threshold);
      draw(svg, "text", { ...below, y: height - 7, fill: "var(--fixed)" }, words);
    }
  }
}

function drawPoints(svg, frame, budget, points, stop, depth) {
  const { x, isWide } = frame, signal = shownSignal(budget.signal);
  const y = (point) => frame.y(placeOf(budget.signal, point.value, depth));
  draw(svg, "polyline", { points: points.map((point) => `${x(point.step)},${y(point)}`).join(" "), fill: "none",
    stroke: "var(--adaptive)", "stroke-width": 1.5, opacity: 0.45 });
  for (const point of points) {
    const isStop = point.step === stop, words = shownNumber(signal.of(point.value));
    const dot = draw(svg, "circle", { cx: x(point.step), cy: y(point), r: isStop ? 6 : 4.5, stroke: "var(--adaptive)",
      "stroke-width": 2, fill: isStop ? "var(--adaptive)" : "var(--card)", opacity: point.isLate ? 0.45 : 1 });
    draw(dot, "title", {}, `step ${point.step}: ${words}, ${needed(budget.signal, point.threshold)}`);
    if (isWide || isStop) {
      const above = y(point) - frame.y(placeOf(budget.signal, point.threshold, depth));    // the dash, not the number
      const at = above > 0 && above < 26 && point.step < depth ? y(point) + 19 : y(point) - 10;
      draw(svg, "text", { x: x(point.step), y: Math.max(14, at), "text-anchor": "middle", fill: "var(--ink)",
        "font-weight": isStop ? 700 : 400, opacity: point.isLate ? 0.5 : 1 }, words);
    }
  }
}

/* Why an input stopped where it did. */
function reasonOf(budget, point, depth) {
  if (!point) return "";
  if (point.step === depth) return " The last step stops every input.";
  if (point.threshold === -Infinity) return ` Step ${point.step} stops every input at this budget.`;
  const value = shownNumber(shownSignal(budget.signal).of(point.value));
  return ` ${value} at step ${point.step}, and ${needed(budget.signal, point.threshold)} was asked for.`;
}

function drawScores(box, title, budget, trajectory, stop, depth) {
  const svg = document.createElementNS(SVG, "svg"), frame = frameOf(Math.max(260, box.clientWidth - 14), depth);
  svg.setAttribute("viewBox", `0 0 ${frame.width} ${frame.height}`);
  svg.setAttribute("role", "img");
  const points = trajectory.map((reading, i) => ({ step: i + 1, value: reading.signals[budget.signal],
    threshold: thresholdAt(budget, i + 1), isLate: stop !== null && i + 1 > stop }));
  drawThresholds(svg, frame, budget, stop, depth);
  drawPoints(svg, frame, budget, points.filter((point) => Number.isFinite(point.value)), stop, depth);
  const name = capital(shownSignal(budget.signal).word);
  title.replaceChildren(name, " after each step (", inked("adaptive", "blue points"), ") and its threshold (",
    inked("fixed", "orange dashes"), ").",
    reasonOf(budget, points.find((point) => point.step === stop), depth));
  svg.setAttribute("aria-label", title.textContent);
  box.replaceChildren(svg);
}

const capital = (words) => words[0].toUpperCase() + words.slice(1);

function inked(name, words) {
  const element = make("b", {}, words);
  element.style.color = `var(--${name})`;
  return element;
}
