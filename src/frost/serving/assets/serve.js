/* The page with a server behind it: a key if it wants one, a run by name, its page, and its live view. */

const SECOND = 1000;
const PARTS = ["stage", "seen", "tools", "examples", "budget", "steps"];    // what a run's page fills or listens to
const PRISTINE = Object.fromEntries(PARTS.map((id) => [id, byId(id).cloneNode(true)]));
let key = "", chosen = null, live = null, timer = 0;

class KeyRefused extends Error {}

/* An answer of this server; what it refuses is an error with its sentence. The key goes as bytes of UTF-8. */
async function asked(path, options = {}) {
  const headers = { ...options.headers };
  if (key) headers.Authorization = `Bearer ${String.fromCharCode(...new TextEncoder().encode(key))}`;
  let reply;
  try {
    reply = await fetch(path, { ...options, headers, cache: "no-store", credentials: "omit" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The server does not answer; it may have ended, or the network is away.");
  }
  const said = await reply.json();
  if (reply.ok) return said;
  throw reply.status === 401 ? new KeyRefused("The server does not know this key.")
    : new Error(`The server refuses this: ${said.error}`);
}

/* An array as NumPy writes it: magic, the length of a header of ASCII that fills up to 64 bytes, then the numbers. */
function npyOf(values, shape) {
  const words = `{'descr': '<f4', 'fortran_order': False, 'shape': (${shape.map((size) => `${size},`).join("")}), }`;
  const header = words.padEnd(64 * Math.ceil((words.length + 11) / 64) - 11) + "\n";
  const bytes = new Uint8Array(10 + header.length + 4 * values.length), view = new DataView(bytes.buffer);
  bytes.set([0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, 1, 0]);
  view.setUint16(8, header.length, true);
  bytes.set(new TextEncoder().encode(header), 10);
  values.forEach((value, i) => view.setFloat32(10 + header.length + 4 * i, value, true));
  return bytes;
}

/* The two verbs of an engine: all steps come with the first answer. A signal that is null has nothing to compare. */
function makeEngine(facts) {
  let readings = [], pending = null;
  return {
    async begin(inputs) {
      if (pending) pending.abort();
      const mine = pending = new AbortController();
      const found = await asked(`/runs/${facts.name}/trajectory`, { method: "POST", signal: mine.signal,
        headers: { "Content-Type": "application/x-npy" }, body: npyOf(inputs, facts.shape) });
      if (mine !== pending) return;
      readings = found.steps.map(({ step, output, score, signals }) => ({ step, score,
        output: Float32Array.from([output].flat(Infinity)),
        signals: Object.fromEntries(Object.entries(signals).map(([name, value]) => [name,
          value === null ? -Infinity : value])) }));
    },
    async step() { return readings.shift(); },
  };
}

/* The page of a run, in the place of the one before. */
async function choose(name) {
  if (globalThis.frost) globalThis.frost.end();
  globalThis.frost = null;
  chosen = name;
  live.past = [];
  look();
  let facts;
  try {
    facts = await asked(`/runs/${name}/page`);
  } catch (error) { if (chosen === name) trouble(error); return; }
  if (chosen !== name) return;
  for (const id of PARTS) byId(id).replaceWith(PRISTINE[id].cloneNode(true));
  byId("stage-box").className = "";
  document.title = document.querySelector("h1").textContent = `frost · ${name}`;
  byId("trouble").hidden = true;
  byId("main").hidden = "missing" in facts;
  byId("lead").textContent = facts.missing ? `No page for this run, only its numbers: ${facts.missing}` : facts.lead;
  byId("foot").textContent = "";
  if (facts.missing) return;
  byId("facts").textContent = JSON.stringify(facts);
  start();
}

function trouble(error) {
  if (error instanceof KeyRefused) { askKey(error.message); return; }
  byId("trouble").textContent = error.message;
  byId("trouble").hidden = false;
}

/* A look at the numbers now, and the next one in a second; none while the page is not to be seen. */
async function look() {
  clearTimeout(timer);
  const name = chosen;
  try {
    const stats = (await asked("/stats")).runs[name];
    if (name !== chosen) return;
    if (stats) live.show(stats);
    byId("live-note").textContent = "";
  } catch (error) {
    if (error instanceof KeyRefused) { askKey(error.message); return; }
    if (name !== chosen) return;
    byId("live-note").textContent = error.message;
  }
  clearTimeout(timer);
  if (!document.hidden) timer = setTimeout(look, SECOND);
}

document.addEventListener("visibilitychange", () => {
  clearTimeout(timer);
  if (!document.hidden && chosen) look();
});

/* The names of the runs need the key; with them the page begins. */
async function enter() {
  let names;
  try {
    names = Object.keys((await asked("/stats")).runs);
  } catch (error) { trouble(error); return; }
  byId("serve").replaceChildren();
  const box = make("section", { className: "serve", id: "live" },
    make("h2", { id: "live-title" }, "Live"), make("p", { className: "quiet", id: "live-note" }));
  box.setAttribute("aria-labelledby", "live-title");
  live = new Live(box);
  const before = byId("live");
  if (before) before.replaceWith(box); else byId("main").before(box);
  if (names.length > 1) byId("serve").append(chooserOf(names));
  await choose(names.includes(chosen) ? chosen : names[0]);
}

function chooserOf(names) {
  const select = make("select", { id: "run" }, ...names.map((name) => make("option", { value: name }, name)));
  select.value = names.includes(chosen) ? chosen : names[0];
  select.addEventListener("change", () => choose(select.value));
  const label = make("label", { className: "chooser" }, "Run", select);
  return label;
}

/* The key stays in this variable: no form is sent, nothing is stored, and a browser is not asked to remember it. */
function askKey(words) {
  clearTimeout(timer);
  if (byId("key")) { byId("key-words").textContent = words; return; }
  const input = make("input", { id: "key", type: "text", autocomplete: "off", spellcheck: false, required: true });
  input.setAttribute("autocapitalize", "off");
  const form = make("form", { className: "key" }, make("label", {}, "Key", input),
    make("button", { type: "submit" }, "Use it"), make("p", { id: "key-words", className: "quiet" }, words));
  byId("key-words")?.remove();
  form.querySelector("p").setAttribute("role", "status");
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    key = input.value.trim();
    if (key) enter();
  });
  byId("serve").replaceChildren(form);
  input.focus();
}

document.head.append(make("style", {}, SERVED.style));
byId("trouble").before(make("section", { className: "serve", id: "serve" }));
if (SERVED.needsKey) {
  askKey("This server asks for a key. It is kept in this page until you leave it.");
} else {
  document.querySelector("footer").append(make("p", { className: "links" },
    ...[["/docs", "routes"], ["/stats", "numbers"], ["/metrics", "metrics"], ["/openapi.json", "OpenAPI"]].flatMap(
      ([href, words], i) => [i ? " · " : "", make("a", { href }, words)])));
  enter();
}
window.frostStarted = true;
