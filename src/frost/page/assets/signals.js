"use strict";
/* What a stopping rule looks at, one number after each step, larger for "stop"; as frost.halting.signals. */

function classNumbers(output, classes) {
  const rows = output.length / classes, each = [];
  for (let row = 0; row < rows; row++) {
    const logits = output.subarray(row * classes, (row + 1) * classes);
    const most = logits.reduce((a, b) => Math.max(a, b), -Infinity);
    const parts = Float64Array.from(logits, (logit) => Math.exp(logit - most));
    const total = parts.reduce((a, b) => a + b, 0);
    let first = -Infinity, second = -Infinity, best = 0, others = 0, entropy = 0;
    for (let k = 0; k < classes; k++) {
      if (parts[k] > first) [second, first, best] = [first, parts[k], k];
      else if (parts[k] > second) second = parts[k];
      const chance = parts[k] / total;
      if (chance > 0) entropy += chance * Math.log(chance);
    }
    for (let k = 0; k < classes; k++) if (k !== best) others += parts[k] / first;
    each.push({ best, others, margin: Math.fround(first / total) - Math.fround(second / total), entropy });
  }
  return each;
}

const least = (values) => values.reduce((a, b) => Math.min(a, b), Infinity);
const mean = (values) => values.reduce((a, b) => a + b, 0) / values.length;
const softplus = (z) => Math.max(z, 0) + Math.log1p(Math.exp(-Math.abs(z)));
const logistic = (z) => (z >= 0 ? 1 / (1 + Math.exp(-z)) : Math.exp(z) / (1 + Math.exp(z)));

function distance(a, b) {
  let square = 0;
  for (let i = 0; i < a.length; i++) square += (a[i] - (b ? b[i] : 0)) ** 2;
  return Math.sqrt(square);
}

const SIGNALS = {
  rank: (now) => now.score,
  confidence: (now) => -Math.log1p(-least(now.rows().map((row) => -row.others))),
  "confidence-mean": (now) => {
    const share = mean(now.rows().map((row) => row.others / (1 + row.others)));
    return now.rows().length === 1 ? -Math.log1p(now.rows()[0].others) : Math.log1p(-share);
  },
  margin: (now) => least(now.rows().map((row) => row.margin)),
  "margin-mean": (now) => mean(now.rows().map((row) => row.margin)),
  entropy: (now) => least(now.rows().map((row) => row.entropy)),
  "entropy-mean": (now) => mean(now.rows().map((row) => row.entropy)),
  patience: (now, memory) => {
    const classes = now.rows().map((row) => row.best), last = memory.classes;
    memory.count = last && classes.every((best, i) => best === last[i]) ? memory.count + 1 : 0;
    memory.classes = classes;
    return memory.count;
  },
  residual: (now) => (now.step < 2 ? -Infinity : -distance(now.hidden, now.before)),
  change: (now) => (now.step < 2 ? -Infinity
    : -distance(now.hidden, now.before) / Math.max(distance(now.hidden), 1.2e-38)),
  "second-order": (now, memory) => {
    const last = memory.movement;
    memory.movement = now.before ? now.hidden.map((value, i) => value - now.before[i]) : null;
    return now.step < 3 ? -Infinity : -distance(memory.movement, last);
  },
  fixed: (now) => now.step,
  act: (now, memory) => (memory.total = (memory.total || 0) + logistic(now.score)),
  ponder: (now, memory) => (memory.total = (memory.total || 0) + softplus(now.score)),
};

function signalReader(names) {
  const memories = Object.fromEntries(names.map((name) => [name, {}]));
  return (now) => {
    let rows = null;
    const reading = { ...now, rows: () => (rows = rows || classNumbers(now.output, now.classes)) };
    return Object.fromEntries(names.map((name) => [name, Math.fround(SIGNALS[name](reading, memories[name]))]));
  };
}

/* A signal in the unit that people know it by. */
const SHOWN = {
  rank: { word: "halting score", of: logistic }, confidence: { word: "confidence", of: Math.exp },
  margin: { word: "margin", of: (v) => v }, entropy: { word: "entropy", of: (v) => -v, falls: true },
  residual: { word: "movement", of: (v) => -v, falls: true },
  change: { word: "relative change", of: (v) => -v, falls: true },
  "second-order": { word: "second-order change", of: (v) => -v, falls: true },
  patience: { word: "steps unchanged", of: (v) => v }, fixed: { word: "steps", of: (v) => v },
  act: { word: "halting probability", of: (v) => v },
  ponder: { word: "probability of having halted", of: (v) => -Math.expm1(-v) },
};
const shownSignal = (name) => SHOWN[name.replace(/-mean$/, "")];

/* Where a signal stands between "not at all" (0) and "surely" (1): logarithmic, so that 0.999 and 0.9999 differ. */
function placeOf(name, value, depth) {
  const kind = name.replace(/-mean$/, "");
  if (value === Infinity) return 1;
  if (value === -Infinity) return 0;
  const logit = (p) => Math.log(p / Math.max(1 - p, 1e-12)), share = () => 16 * value / depth - 5;
  const sure = { rank: () => value, confidence: () => logit(Math.exp(value)), margin: () => logit(value),
    ponder: () => logit(-Math.expm1(-value)), patience: share, fixed: share,
    act: () => 16 * Math.min(value, 1) - 5 }[kind] || (() => -1.5 * Math.log(Math.max(-value, 1e-12)));
  return Math.min(1, Math.max(0, (sure() + 5) / 16));
}

/* The step where a rule stops a trajectory of signals: the first that exceeds its threshold, else the last. */
function stopUnder(rule, signals, depth) {
  for (let step = 1; step <= Math.min(depth, signals.length); step++) {
    if (signals[step - 1][rule.signal] > thresholdAt(rule, step)) return step;
  }
  return signals.length >= depth ? depth : null;
}

const thresholdAt = (rule, step) => number(rule.thresholds[Math.min(step, rule.thresholds.length) - 1]);
