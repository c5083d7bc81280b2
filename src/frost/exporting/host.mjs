// Runs a package that `frost export` wrote, under Node 18 or newer. Needs onnxruntime-node, or onnxruntime-web:
//
//     npm install onnxruntime-node
//     node host.mjs --check
//
//     import { Host } from "./host.mjs";
//     const host = await Host.open();
//     for (const { output, depth, score } of await host.predict(rows, 4)) …     // rows: Float32Array each
//
// `begin.onnx` takes the first step of a batch, `step.onnx` one more of every row, whatever step that row is at. A row
// that has stopped gives its slot to the next input.

import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { inflateRawSync } from "node:zlib";

const HERE = dirname(fileURLToPath(import.meta.url));
const TOLERANCE = 1e-4;
const DIVERGED = "the model answers this input with NaN or infinity; it diverged";
const ARRAYS = {
  float32: Float32Array, int64: BigInt64Array, int32: Int32Array, int16: Int16Array, int8: Int8Array, uint8: Uint8Array,
  bool: Uint8Array,
};
const NUMPY = { f4: "float32", i8: "int64", i4: "int32", i2: "int16", i1: "int8", u1: "uint8", b1: "bool" };

/** A package, ready to run. */
export class Host {
  /** @param {string} folder the package; @param {number} slots most inputs that run together */
  static async open(folder = HERE, slots = 16) {
    if (!(slots >= 1)) throw new Error(`slots must be at least 1, got ${slots}.`);
    const host = new Host();
    const ort = await runtime();
    Object.assign(host, { folder, slots, ort, policy: JSON.parse(await verified(folder, "policy.json")) });
    // idle threads that wait busily would take the core that the other session needs
    const options = {
      intraOpNumThreads: Number(process.env.OMP_NUM_THREADS) || availableParallelism(), logSeverityLevel: 3,
      extra: { session: { intra_op: { allow_spinning: "0" } } },
    };
    host.begins = await ort.InferenceSession.create(await verified(folder, "begin.onnx"), options);
    host.steps = await ort.InferenceSession.create(await verified(folder, "step.onnx"), options);
    return host;
  }

  /**
   * The answers for a batch, in its order.
   *
   * @param {Array} rows an input each: a typed array, or one for each of the model's inputs
   * @param {number} [budget] mean depth; the nearest one of the package's. Without, the rule that was chosen at export.
   * @returns {Promise<Array<{output, depth, score, error}>>}
   */
  async predict(rows, budget) {
    const rule = this.rule(budget);
    const answers = new Array(rows.length);
    let next = 0, live = null, stage = null;
    for (;;) {
      while (next < rows.length || stage) {
        if (live && live.numbers.every((number) => number >= 0)) break;
        if (!stage) {
          stage = await this.begun(rows, next, rule);
          next += stage.count;
          this.harvest(stage, rule, answers);
        }
        if (!live || live.numbers.every((number) => number < 0)) [live, stage] = [stage, null];
        else fill(live, stage);
        if (stage && stage.numbers.every((number) => number < 0)) stage = null;
      }
      if (!live || live.numbers.every((number) => number < 0)) return answers;
      if (next >= rows.length && !stage) live = shrunk(live, this.slots);
      await this.stepped(live, rule);
      this.harvest(live, rule, answers);
    }
  }

  /** The thresholds of a mean depth and the most steps. */
  rule(budget) {
    const { depth, budgets } = this.policy;
    let found = this.policy.rule;
    if (budget !== undefined) {
      if (!(budget >= 1 && budget <= depth)) {
        throw new Error(`budget is a mean depth between 1 and ${depth}, got ${budget}.`);
      }
      const gap = (known) => Math.abs(known.mean_depth - budget);
      found = budgets.reduce((best, known) => (gap(known) < gap(best) ? known : best));
    }
    return { limit: found.limit, table: Float32Array.from(found.thresholds.flat(), Number) };
  }

  /** Stem and first step of up to `slots` inputs; what is left over of a shape repeats the last one. */
  async begun(rows, first, rule) {
    const count = Math.min(this.slots, rows.length - first);
    const size = rung(count, this.slots);
    const given = {};
    this.policy.inputs.forEach((part, place) => {
      const length = part.shape.reduce((product, side) => product * side, 1);
      const data = new ARRAYS[part.dtype](size * length);
      for (let row = 0; row < size; row++) {
        const input = rows[first + Math.min(row, count - 1)];
        const values = this.policy.inputs.length === 1 && !Array.isArray(input) ? input : input[place];
        if (values?.length !== length) throw new Error(`${part.name} has ${length} numbers, got ${values?.length}.`);
        if (part.dtype === "float32" && !values.every(Number.isFinite)) {
          throw new Error(`${part.name} holds NaN or infinity.`);
        }
        data.set(values, row * length);
      }
      given[part.name] = new this.ort.Tensor(part.dtype, data, [size, ...part.shape]);
    });
    const found = await this.ran(this.begins, { ...given, table: this.table(rule, size) });
    const held = {};
    for (const name of this.steps.inputNames) if (name in found) held[name] = copied(found[name]);
    const numbers = Array.from({ length: size }, (_, row) => (row < count ? first + row : -1));
    return { count, held, numbers, steps: new BigInt64Array(size).fill(1n), answers: found };
  }

  /** One more step of every row. */
  async stepped(batch, rule) {
    const size = batch.numbers.length;
    for (let row = 0; row < size; row++) batch.steps[row] += 1n;
    const given = { steps: new this.ort.Tensor("int64", batch.steps, [size]), table: this.table(rule, size) };
    for (const [name, { type, data, dims }] of Object.entries(batch.held)) {
      given[name] = new this.ort.Tensor(type, data, dims);
    }
    batch.answers = await this.ran(this.steps, given);
    for (const name of Object.keys(batch.held)) {
      if (`next.${name}` in batch.answers) batch.held[name] = batch.answers[`next.${name}`];
    }
  }

  table(rule, size) {
    const data = new Float32Array(size * rule.table.length);
    for (let row = 0; row < size; row++) data.set(rule.table, row * rule.table.length);
    return new this.ort.Tensor("float32", data, [size, this.policy.signals.length, this.policy.depth]);
  }

  ran(session, given) {
    return session.run(Object.fromEntries(session.inputNames.map((name) => [name, given[name]])));
  }

  /** Answers of rows that stop here, which become free. */
  harvest(batch, rule, answers) {
    const { output, score_logit: logit, stops, is_bad: bad } = batch.answers;
    const length = output.data.length / batch.numbers.length;
    batch.numbers.forEach((number, row) => {
      const depth = Number(batch.steps[row]);
      if (number < 0 || !(stops.data[row] || bad.data[row] || depth >= rule.limit)) return;
      batch.numbers[row] = -1;
      answers[number] = bad.data[row]
        ? { output: null, depth: 0, score: NaN, error: DIVERGED }
        : { output: output.data.slice(row * length, (row + 1) * length), depth, error: null,
          score: this.policy.has_score ? 1 / (1 + Math.exp(-logit.data[row])) : NaN };
    });
  }

  /** The golden inputs, beside the answers that PyTorch gave for them. */
  async check() {
    const golden = npz(await verified(this.folder, "golden.npz"));
    const rows = Array.from({ length: golden.depths.shape[0] },
      (_, row) => this.policy.inputs.map((part) => rowOf(golden[part.name], row)));
    const answers = await this.predict(rows);
    const found = { inputs: rows.length, near: 0, wrong: [], largest: 0, classes: 0 };
    answers.forEach((answer, row) => this.compare(answer, golden, row, found));
    return found;
  }

  compare(answer, golden, row, found) {
    const depth = Number(golden.depths.data[row]), expected = rowOf(golden.outputs, row);
    if (answer.depth !== depth) {
      const step = Math.min(answer.depth, depth) - 1, signals = this.policy.signals.length, { table } = this.rule();
      const isNear = step >= 0 && this.policy.signals.some((_, signal) => {
        const threshold = table[signal * this.policy.depth + step];
        const gap = rowOf(golden.values, row)[step * signals + signal] - threshold;
        return Number.isFinite(threshold) && Math.abs(gap) <= TOLERANCE * Math.max(1, Math.abs(threshold));
      });
      if (isNear) found.near += 1;
      else found.wrong.push(row);
      return;
    }
    const gaps = expected.map((value, place) => Math.abs(answer.output[place] - value));
    found.largest = gaps.reduce((largest, gap) => Math.max(largest, gap), found.largest);
    if (gaps.some((gap, place) => !(gap <= TOLERANCE * Math.max(1, Math.abs(expected[place]))))) found.wrong.push(row);
    if (this.policy.gives !== "classes") return;
    const classes = golden.outputs.shape.at(-1);
    for (let start = 0; start < expected.length; start += classes) {
      if (best(expected.subarray(start, start + classes)) !== best(answer.output.subarray(start, start + classes))) {
        found.classes += 1;
        return;
      }
    }
  }
}

/** The shape that so many rows run at: 1, 2, 4, … up to `slots`. */
function rung(count, slots) {
  return Math.min(slots, 2 ** Math.ceil(Math.log2(Math.max(count, 1))));
}

/** Moves staged rows to free ones, first come, first served. */
function fill(live, stage) {
  live.numbers.forEach((number, slot) => {
    const row = stage.numbers.findIndex((staged) => staged >= 0);
    if (number >= 0 || row < 0) return;
    for (const [name, part] of Object.entries(live.held)) {
      const length = part.data.length / live.numbers.length;
      part.data.set(stage.held[name].data.subarray(row * length, (row + 1) * length), slot * length);
    }
    live.steps[slot] = 1n;
    live.numbers[slot] = stage.numbers[row];
    stage.numbers[row] = -1;
  });
}

/** The rows in use as a smaller batch, once half or less are. */
function shrunk(live, slots) {
  const used = [...live.numbers.keys()].filter((row) => live.numbers[row] >= 0);
  const size = rung(used.length, slots);
  if (size >= live.numbers.length) return live;
  const places = Array.from({ length: size }, (_, row) => used[Math.min(row, used.length - 1)]);
  const held = {};
  for (const [name, part] of Object.entries(live.held)) {
    const length = part.data.length / live.numbers.length;
    const data = new part.data.constructor(size * length);
    places.forEach((place, row) => data.set(part.data.subarray(place * length, (place + 1) * length), row * length));
    held[name] = { type: part.type, data, dims: [size, ...part.dims.slice(1)] };
  }
  const numbers = places.map((place, row) => (row < used.length ? live.numbers[place] : -1));
  return { held, numbers, steps: BigInt64Array.from(places, (place) => live.steps[place]), answers: null };
}

/** A tensor whose numbers may be written to. */
const copied = ({ type, data, dims }) => ({ type, data: data.slice(), dims });

const best = (values) => values.reduce((top, value, place) => (value > values[top] ? place : top), 0);

async function runtime() {
  for (const name of ["onnxruntime-node", "onnxruntime-web"]) {
    try {
      const found = await import(name);
      return found.InferenceSession ? found : found.default;
    } catch (error) {
      if (!/MODULE_NOT_FOUND$/.test(error.code)) console.error(`host.mjs: ${name}: ${error.message}`);
    }
  }
  throw new Error("onnxruntime-node is not there: npm install onnxruntime-node (or onnxruntime-web).");
}

/** A file's content, if it is as the manifest says. */
async function verified(folder, name) {
  const { files } = JSON.parse(await readFile(join(folder, "MANIFEST.json"), "utf8"));
  const content = await readFile(join(folder, name));
  if (files[name]?.sha256 !== createHash("sha256").update(content).digest("hex")) {
    throw new Error(`${join(folder, name)} is damaged: its SHA-256 is not that of the manifest.`);
  }
  return content;
}

/** The arrays of an .npz file: a zip of .npy files. */
function npz(content) {
  const arrays = {};
  let at = content.readUInt32LE(content.lastIndexOf(Buffer.from("PK\x05\x06", "latin1")) + 16);
  while (content.readUInt32LE(at) === 0x02014b50) {
    const [method, packed] = [content.readUInt16LE(at + 10), content.readUInt32LE(at + 20)];
    const [name, extra, comment] = [28, 30, 32].map((place) => content.readUInt16LE(at + place));
    const local = content.readUInt32LE(at + 42);
    const start = local + 30 + content.readUInt16LE(local + 26) + content.readUInt16LE(local + 28);
    const bytes = content.subarray(start, start + packed);
    const title = content.toString("utf8", at + 46, at + 46 + name).replace(/\.npy$/, "");
    arrays[title] = npy(method === 8 ? inflateRawSync(bytes) : bytes);
    at += 46 + name + extra + comment;
  }
  return arrays;
}

function npy(bytes) {
  const header = bytes.toString("latin1", 10, 10 + bytes.readUInt16LE(8));
  const type = NUMPY[/'descr': '[<|](\w+)'/.exec(header)[1]];
  const shape = /'shape': \(([^)]*)\)/.exec(header)[1].split(",").filter((side) => side.trim()).map(Number);
  const content = Uint8Array.prototype.slice.call(bytes, 10 + bytes.readUInt16LE(8));    // a copy, at an even address
  return { shape, data: new ARRAYS[type](content.buffer) };
}

function rowOf(array, row) {
  const length = array.data.length / array.shape[0];
  return array.data.subarray(row * length, (row + 1) * length);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  try {
    if (process.argv[2] !== "--check") throw new Error("--check runs the golden inputs; import { Host } for yours.");
    const found = await (await Host.open()).check();
    console.log(`${found.inputs} inputs: ${found.wrong.length} wrong, ${found.near} depths next to a threshold, ` +
      `outputs within ${found.largest.toExponential(1)}`);
    process.exitCode = found.wrong.length ? 1 : 0;
  } catch (error) {
    console.error(`host.mjs: ${error.message}`);
    process.exitCode = 2;
  }
}
