"use strict";
/* The page: an input goes through an engine step by step, the trajectory is kept, and the budget reads it at once. */

const VIEWS = { picture: pictureView, maze: mazeView, sum: sumView, cells: cellsView };
const byId = (id) => document.getElementById(id);

/* A number with as many digits as tell it from 0 and from 1. */
function shownNumber(value) {
  const gap = Math.min(Math.abs(value), Math.abs(1 - value)), digits = Math.ceil(-Math.log10(Math.max(gap, 1e-7))) + 1;
  return value.toFixed(Math.min(7, Math.max(2, digits))).replace("-", "−");
}

function decoded(text) {
  const binary = atob(text.trim()), bytes = new Uint8Array(binary.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

function exampleInputs(example) {
  const bytes = decoded(example.values), values = example.is_signed ? new Int8Array(bytes.buffer) : bytes;
  return Float32Array.from(values, (value) => value / example.divisor);
}

class Page {
  constructor(facts, engine) {
    Object.assign(this, { facts, engine, trajectory: [], ticket: 0, milliseconds: 0, life: new AbortController() });
    const calm = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.pause = calm ? 0 : Math.min(140, 900 / facts.depth);
    this.view = VIEWS[facts.view](facts, {
      stage: byId("stage"), seen: byId("seen"), tools: byId("tools"), box: byId("stage-box"),
      change: (inputs, name) => { this.mark(null); this.take(inputs, name); },
      say: (words) => this.say(words), attempt: (work) => this.attempt(work) });
    byId("lead").textContent = facts.lead;
    byId("hint").textContent = this.view.hint;
    byId("stage-box").classList.toggle("wide", Boolean(this.view.isWide));
    byId("steps").style.setProperty("--card-width", this.view.cardWidth);
    this.makeExamples();
    this.makeBudget();
    this.listen();
    byId("main").hidden = false;
    this.choose(Math.floor((2 * facts.examples.length) / 3));
  }

  get budget() { return this.facts.budgets[+byId("budget").value]; }

  /* The step where the rule of the budget stops; null while it is not known. */
  get stop() { return stopUnder(this.budget, this.trajectory.map((reading) => reading.signals), this.facts.depth); }

  makeExamples() {
    const box = byId("examples");
    box.className = `${this.facts.view}${this.view.isWide ? " wide" : ""}`;
    this.inputs = this.facts.examples.map(exampleInputs);
    this.buttons = this.facts.examples.map((example, place) => {
      const canvas = make("canvas"), button = make("button", { type: "button", title: example.name }, canvas);
      button.setAttribute("aria-label", `example ${place + 1}: ${example.name}`);
      button.addEventListener("click", () => this.choose(place));
      box.append(button);
      this.view.thumbnail(canvas, this.inputs[place]);
      return button;
    });
  }

  makeBudget() {
    const slider = byId("budget");
    slider.max = this.facts.budgets.length - 1;
    slider.value = this.facts.start;
    slider.addEventListener("input", () => this.render());
  }

  listen() {
    const { signal } = this.life;
    const on = (name, listener) => addEventListener(name, listener, { signal });
    on("dragover", (event) => { event.preventDefault(); byId("drop").hidden = false; });
    on("dragleave", (event) => { if (!event.relatedTarget) byId("drop").hidden = true; });
    on("drop", (event) => {
      event.preventDefault();
      byId("drop").hidden = true;
      this.attempt(() => this.receive(event.dataTransfer));
    });
    on("paste", (event) => {
      if (/^(INPUT|TEXTAREA)$/.test(event.target.tagName) && event.target.type === "text") return;
      this.attempt(() => this.receive(event.clipboardData));
    });
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.repaint(), { signal });
    const watch = new ResizeObserver(() => this.drawChart());
    watch.observe(byId("chart"));
    signal.addEventListener("abort", () => watch.disconnect());
  }

  /* No more steps, and no more listening; whoever puts another page in its place empties what it has filled. */
  end() {
    this.ticket += 1;
    this.life.abort();
  }

  async receive(transfer) {
    const file = transfer && transfer.files[0];
    if (!this.view.read) throw new Error(`This run takes ${this.facts.takes}, no pictures.`);
    if (!file) throw new Error(BAD_KIND);
    await this.view.read(file);
  }

  async attempt(work) {
    this.say("");
    try { await work(); } catch (error) { this.say(error.message); }
  }

  say(words) {
    byId("trouble").textContent = words;
    byId("trouble").hidden = !words;
  }

  mark(place) { this.buttons.forEach((button, i) => button.setAttribute("aria-pressed", String(i === place))); }

  choose(place) {
    this.mark(place);
    this.view.show(this.inputs[place]);
    return this.take(this.inputs[place], this.facts.examples[place].name);
  }

  /* All steps, one after the other; a newer input ends the steps of an older one. */
  async take(inputs, name) {
    const ticket = ++this.ticket;
    this.say("");
    Object.assign(this, { name, trajectory: [], milliseconds: 0 });
    this.makeCards();
    this.render();
    try {
      let began = performance.now();
      await this.engine.begin(inputs);
      if (ticket !== this.ticket) return;
      for (let step = 1; step <= this.facts.depth; step++) {
        const reading = await this.engine.step();
        if (ticket !== this.ticket) return;
        this.milliseconds += performance.now() - began;
        if (!reading.output.every(Number.isFinite)) throw new Error("The model diverged: its answer is no number.");
        this.trajectory.push(reading);
        this.view.card(this.cards[step - 1].querySelector(".body"), reading.output);
        this.render();
        await new Promise((go) => setTimeout(go, this.pause));
        if (ticket !== this.ticket) return;
        began = performance.now();
      }
    } catch (error) {
      if (ticket !== this.ticket) return;
      this.say(error.message);
    }
    byId("foot").textContent = this.facts.foot.replace("{ms}", Math.max(1, Math.round(this.milliseconds)));
  }

  makeCards() {
    this.cards = Array.from({ length: this.facts.depth }, (_, i) => make("li", {},
      make("h4", {}, make("span", {}, `Step ${i + 1}`), make("span", { className: "marks" })),
      make("div", { className: "body" })));
    byId("steps").replaceChildren(...this.cards);
  }

  /* Everything that the budget changes, read from the trajectory. */
  render() {
    const { depth } = this.facts, { budget, stop } = this, taken = this.trajectory.length;
    const at = stop || taken, fixed = Math.min(budget.fixed, taken);
    const adaptive = at ? this.view.answer(this.trajectory[at - 1].output) : null;
    const other = fixed ? this.view.answer(this.trajectory[fixed - 1].output) : null;
    const isBoth = stop && other && fixed === budget.fixed, isSame = isBoth && other.key === adaptive.key;
    const words = stop ? `stopped at step ${stop} of ${depth}` : `step ${taken} …`;
    this.showAnswer("adaptive", adaptive, at, [make("b", {}, words)]);
    this.showAnswer("fixed", other, fixed, [`${budget.fixed} of ${depth} steps for every input`,
      isSame ? ": the same answer" : isBoth ? ": another answer" : ""]);
    this.cards.forEach((card, i) => {
      const marks = [];
      if (stop === i + 1) marks.push(make("span", { className: "mark" }, "stops"));
      if (budget.fixed === i + 1) marks.push(make("span", { className: "mark fixed" }, "fixed"));
      card.className = stop && i + 1 > stop ? "late" : stop === i + 1 ? "stop" : "";
      card.querySelector(".marks").replaceChildren(...marks);
    });
    if (this.view.overlay && at) this.view.overlay(this.trajectory[at - 1].output);
    this.showBudget(budget);
    this.drawChart();
    document.body.dataset.stop = stop || "";
    document.body.dataset.taken = taken;
    if (stop && taken === depth) {
      byId("status").textContent = `${this.name}: ${adaptive.said}, stopped at step ${stop} of ${depth}. ` +
        `Fixed depth after ${budget.fixed} steps: ${other.said}.`;
    }
  }

  showAnswer(kind, answer, steps, beside) {
    const said = byId(`${kind}-said`);
    said.className = answer && answer.isLong ? "said long" : "said";
    const share = answer && answer.share ? [" ", make("small", {}, answer.share)] : [];
    said.replaceChildren(answer ? answer.said : "…", ...share);
    const verdict = answer && answer.verdict;
    byId(`${kind}-beside`).replaceChildren(...beside, ...(verdict ? [", ",
      make("span", { className: verdict.isRight ? "right" : "wrong" }, verdict.words)] : []));
    byId(`${kind}-ticks`).replaceChildren(...Array.from({ length: this.facts.depth }, (_, i) =>
      make("i", { className: i < steps ? "on" : "" })));
  }

  showBudget(budget) {
    const { depth, good } = this.facts, word = shownSignal(budget.signal).word;
    const steps = budget.mean_depth.toFixed(1).replace(/\.0$/, ""), value = `${steps} of ${depth} steps in the mean`;
    byId("budget-value").textContent = value;
    byId("budget").setAttribute("aria-valuetext", value);
    const how = budget.thresholds.length > 1 ? "with a threshold for each step" : "with one threshold for all steps";
    const rule = budget.form === "fixed"
      ? "No rule clearly beats fixed depth at this budget, so every input takes as many steps."
      : `Rule: stop by the ${word}, ${how}.`;
    const digits = (share) => (share > 0.99 && share < 1 ? 2 : 1);
    const [ours, fixed] = (budget.quality || []).map((share) => `${(100 * share).toFixed(digits(share))} %`);
    const inputs = budget.inputs.toLocaleString("en");
    const quality = ` On ${inputs} held-out inputs, each half judged by thresholds of the other half: adaptive ` +
      `${ours} ${good}, fixed depth at the same mean ${fixed}.`;
    byId("budget-note").textContent = rule + (budget.quality ? quality : "");
  }

  drawChart() {
    drawScores(byId("chart"), byId("score-title"), this.budget, this.trajectory, this.stop, this.facts.depth);
  }

  repaint() {    // what is drawn in colours of the theme
    this.buttons.forEach((button, place) => this.view.thumbnail(button.firstChild, this.inputs[place]));
    if (this.view.redraw) this.view.redraw();
    this.trajectory.forEach((reading, i) => this.view.card(this.cards[i].querySelector(".body"), reading.output));
    this.render();
  }
}

function start() {
  const read = (id) => JSON.parse(byId(id).textContent);
  const facts = read("facts");
  globalThis.frost = new Page(facts, makeEngine(facts, read));
}
