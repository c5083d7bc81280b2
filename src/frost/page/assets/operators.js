"use strict";
/* The operations of a graph at batch 1. A value is {shape, data}: dense, row-major, float32; truth is 0 or 1.
   Sums are in double precision. `OPERATORS[name](shapes, ...arguments)` gives the data of each output. */

const sizeOf = (shape) => shape.reduce((product, size) => product * size, 1);
const axisOf = (axis, rank) => (axis < 0 ? axis + rank : axis);

function stridesOf(shape) {
  const strides = new Array(shape.length);
  let stride = 1;
  for (let axis = shape.length - 1; axis >= 0; axis--) { strides[axis] = stride; stride *= shape[axis]; }
  return strides;
}

/* Strides of a value seen in a shape that it broadcasts to: 0 where it has one element for many. */
function broadcastStrides(from, to) {
  const own = stridesOf(from), lead = to.length - from.length;
  return to.map((size, axis) => (axis < lead || from[axis - lead] === 1 ? 0 : own[axis - lead]));
}

/* Calls visit(place, offsets) for every element of a shape in row-major order, with the place that strides give. */
function walk(shape, strides, visit) {
  const rank = shape.length, index = new Int32Array(rank), total = sizeOf(shape);
  let at = 0;
  for (let place = 0; place < total; place++) {
    visit(place, at);
    for (let axis = rank - 1; axis >= 0; axis--) {
      at += strides[axis];
      if (++index[axis] < shape[axis]) break;
      at -= strides[axis] * shape[axis];
      index[axis] = 0;
    }
  }
}

function gathered(shape, source, strides, start = 0) {
  const out = new Float32Array(sizeOf(shape));
  walk(shape, strides, (place, at) => { out[place] = source[start + at]; });
  return out;
}

const unary = (f) => (shapes, x) => {
  const from = x.data, out = new Float32Array(from.length);
  for (let i = 0; i < out.length; i++) out[i] = f(from[i]);
  return [out];
};

const binary = (f) => (shapes, a, b, alpha = 1) => {
  const shape = shapes[0], out = new Float32Array(sizeOf(shape));
  const left = typeof a === "number" ? new Float64Array(out.length).fill(a) : a.data;
  if (typeof b === "number") {
    const right = b * alpha;
    for (let i = 0; i < out.length; i++) out[i] = f(left[i], right);
  } else if (left.length === out.length && b.data.length === out.length) {    // no broadcasting
    const right = b.data;
    for (let i = 0; i < out.length; i++) out[i] = f(left[i], right[i] * alpha);
  } else {
    const first = gathered(shape, left, broadcastStrides(a.shape, shape));
    const second = gathered(shape, b.data, broadcastStrides(b.shape, shape));
    for (let i = 0; i < out.length; i++) out[i] = f(first[i], second[i] * alpha);
  }
  return [out];
};

/* Reduces axes: begin with `start`, join(total, value), then finish(total, count). */
const reduction = (start, join, finish = (total) => total) => (shapes, x, axes) => {
  const rank = x.shape.length, list = axes == null || axes.length === 0 ? x.shape.map((_, axis) => axis)
    : [].concat(axes).map((axis) => axisOf(axis, rank));
  const kept = x.shape.map((size, axis) => (list.includes(axis) ? 1 : size));
  const strides = stridesOf(kept).map((stride, axis) => (kept[axis] === 1 ? 0 : stride));
  const totals = new Float64Array(sizeOf(kept)).fill(start);
  walk(x.shape, strides, (place, at) => { totals[at] = join(totals[at], x.data[place]); });
  const count = x.data.length / Math.max(1, totals.length);
  return [Float32Array.from(totals, (total) => finish(total, count))];
};

/* Along one axis: `each(row)` gets the values of a row in double precision and changes them in place. */
const alongAxis = (each) => (shapes, x, axis) => {
  const at = axisOf(axis, x.shape.length), length = x.shape[at], inner = sizeOf(x.shape.slice(at + 1));
  const out = new Float32Array(x.data.length), row = new Float64Array(length);
  for (let start = 0; start < out.length; start += length * inner) {
    for (let step = 0; step < inner; step++) {
      for (let i = 0; i < length; i++) row[i] = x.data[start + i * inner + step];
      each(row);
      for (let i = 0; i < length; i++) out[start + i * inner + step] = row[i];
    }
  }
  return [out];
};

function softmax(row) {
  const most = row.reduce((a, b) => Math.max(a, b), -Infinity);
  let total = 0;
  for (let i = 0; i < row.length; i++) total += row[i] = Math.exp(row[i] - most);
  for (let i = 0; i < row.length; i++) row[i] /= total;
}

function logSoftmax(row) {
  const most = row.reduce((a, b) => Math.max(a, b), -Infinity);
  const log = most + Math.log(row.reduce((total, value) => total + Math.exp(value - most), 0));
  for (let i = 0; i < row.length; i++) row[i] -= log;
}

/* erf by cubic interpolation of a table; the table by its series. Exact to float32. */
const ERF_STEP = 1 / 512, ERF_END = 6;
const ERF_TABLE = Float64Array.from({ length: ERF_END / ERF_STEP + 2 }, (_, place) => {
  const x = place * ERF_STEP;
  let term = x, total = x;
  for (let n = 1; Math.abs(term) > 1e-18; n++) { term *= (2 * x * x) / (2 * n + 1); total += term; }
  return (2 / Math.sqrt(Math.PI)) * Math.exp(-x * x) * total;
});

function erf(x) {
  const size = Math.abs(x);
  if (!(size < ERF_END)) return Math.sign(x);
  const place = Math.floor(size / ERF_STEP), u = size / ERF_STEP - place, start = place * ERF_STEP;
  const slope = (at) => (2 / Math.sqrt(Math.PI)) * Math.exp(-at * at) * ERF_STEP;
  const a = ERF_TABLE[place], b = ERF_TABLE[place + 1], da = slope(start), db = slope(start + ERF_STEP);
  const value = a + u * (da + u * (3 * (b - a) - 2 * da - db + u * (2 * (a - b) + da + db)));
  return x < 0 ? -value : value;
}

const gelu = (shapes, x, approximate) => unary(approximate === "tanh"
  ? (v) => 0.5 * v * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (v + 0.044715 * v * v * v)))
  : (v) => 0.5 * v * (1 + erf(v * Math.SQRT1_2)))(shapes, x);

/* Rows of `length` to mean 0 and deviation 1; then number `i` of a row is scaled by what factor(row, i) says. */
function normalised(x, length, eps, scaleAt, weight, bias) {
  const out = new Float32Array(x.data.length);
  for (let start = 0, row = 0; start < out.length; start += length, row++) {
    let mean = 0, square = 0;
    for (let i = start; i < start + length; i++) mean += x.data[i];
    mean /= length;
    for (let i = start; i < start + length; i++) square += (x.data[i] - mean) ** 2;
    const factor = 1 / Math.sqrt(square / length + eps);
    for (let i = 0; i < length; i++) {
      const at = scaleAt(row, i);
      const scale = factor * (weight ? weight.data[at] : 1);
      out[start + i] = (x.data[start + i] - mean) * scale + (bias ? bias.data[at] : 0);
    }
  }
  return [out];
}

function batchNorm(shapes, x, weight, bias, mean, variance, momentum, eps) {
  const out = new Float32Array(x.data.length), inner = sizeOf(x.shape.slice(2));
  for (let c = 0; c < x.shape[1]; c++) {
    const factor = (weight ? weight.data[c] : 1) / Math.sqrt(variance.data[c] + eps);
    const shift = (bias ? bias.data[c] : 0) - mean.data[c] * factor;
    for (let i = c * inner; i < (c + 1) * inner; i++) out[i] = x.data[i] * factor + shift;
  }
  return [out];
}

function topk(shapes, x, k) {    // along the last axis, in falling order
  const length = x.shape[x.shape.length - 1], rows = x.data.length / length;
  const values = new Float32Array(rows * k), places = new Float32Array(rows * k);
  for (let row = 0; row < rows; row++) {
    const part = x.data.subarray(row * length, (row + 1) * length);
    const order = Array.from(part.keys()).sort((a, b) => part[b] - part[a] || a - b);
    for (let i = 0; i < k; i++) { values[row * k + i] = part[order[i]]; places[row * k + i] = order[i]; }
  }
  return [values, places];
}

function cat(shapes, parts, axis = 0) {
  const at = axisOf(axis, shapes[0].length), inner = sizeOf(shapes[0].slice(at));
  const out = new Float32Array(sizeOf(shapes[0]));
  let offset = 0;
  for (const part of parts) {
    const length = sizeOf(part.shape.slice(at));
    for (let from = 0, to = offset; from < part.data.length; from += length, to += inner) {
      out.set(part.data.subarray(from, from + length), to);
    }
    offset += length;
  }
  return [out];
}

function slice(shapes, x, axis, start, end, step) {
  const at = axisOf(axis, x.shape.length), strides = stridesOf(x.shape), from = start == null ? 0 : start;
  const first = Math.min(Math.max(from < 0 ? from + x.shape[at] : from, 0), x.shape[at]);
  const moves = strides.map((stride, place) => (place === at ? stride * (step || 1) : stride));
  return [gathered(shapes[0], x.data, moves, first * strides[at])];
}

function split(shapes, x, sizes, axis) {
  let start = 0;
  return shapes.map((shape, part) => {
    const piece = slice([shape], x, axis, start, null, 1)[0];
    start += sizes[part];
    return piece;
  });
}

const OPERATORS = {
  relu: unary((v) => (v > 0 ? v : v === v ? 0 : v)), exp: unary(Math.exp), neg: unary((v) => -v), abs: unary(Math.abs),
  rsqrt: unary((v) => 1 / Math.sqrt(v)), log1p: unary(Math.log1p), sigmoid: unary((v) => 1 / (1 + Math.exp(-v))),
  isnan: unary((v) => +(v !== v)), logical_not: unary((v) => +!v), gelu,
  add: binary((a, b) => a + b), sub: binary((a, b) => a - b), mul: binary((a, b) => a * b),
  div: binary((a, b) => a / b), pow: binary((a, b) => a ** b), eq: binary((a, b) => +(a === b)),
  maximum: binary(Math.max), minimum: binary(Math.min),
  clamp: (shapes, x, least, most) => unary(
    (v) => (least != null && v < least ? least : most != null && v > most ? most : v))(shapes, x),
  where: (shapes, choice, yes, no) => {
    const seen = (part) => gathered(shapes[0], part.data, broadcastStrides(part.shape, shapes[0]));
    const [c, y, n] = [choice, yes, no].map(seen);
    return [c.map((truth, i) => (truth ? y[i] : n[i]))];
  },
  full_like: (shapes, x, value) => [new Float32Array(x.data.length).fill(value)],
  sum: reduction(0, (total, v) => total + v),
  mean: reduction(0, (total, v) => total + v, (total, count) => total / count),
  amax: reduction(-Infinity, Math.max), amin: reduction(Infinity, Math.min),
  any: reduction(0, (total, v) => +(total || !!v)),
  softmax: alongAxis(softmax), log_softmax: alongAxis(logSoftmax), topk,
  reshape: (shapes, x) => [x.data],
  expand: (shapes, x) => [gathered(shapes[0], x.data, broadcastStrides(x.shape, shapes[0]))],
  permute: (shapes, x, axes) => {
    const strides = stridesOf(x.shape);
    return [gathered(shapes[0], x.data, axes.map((axis) => strides[axisOf(axis, x.shape.length)]))];
  },
  select: (shapes, x, axis, place) => {
    const at = axisOf(axis, x.shape.length), strides = stridesOf(x.shape);
    const start = (place < 0 ? place + x.shape[at] : place) * strides[at];
    return [gathered(shapes[0], x.data, strides.filter((_, other) => other !== at), start)];
  },
  slice, split, cat,
  group_norm: (shapes, x, weight, bias, count, channels, positions, groups, eps) => {
    const each = channels / groups;
    const scaleAt = (row, i) => (row % groups) * each + Math.floor(i / positions);
    return normalised(x, each * positions, eps, scaleAt, weight, bias);
  },
  layer_norm: (shapes, x, shape, weight, bias, eps) => normalised(x, sizeOf(shape), eps, (row, i) => i, weight, bias),
  batch_norm: batchNorm,
};
