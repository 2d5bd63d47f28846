// The page of the stage: buttons that post actions, one greeting on all instances, and charts
// in which each action is a mark.
import { el, fill, byId, bytes, count, percent, duration, clock, post, stream, chart, span } from "./page.js";

const shown = 300; // samples
let samples = [], marks = [], watched = "", broken = {}, memory = {};

const series = [
  ["memory", "memory", 1], ["stale", "stale", 5], ["l2", "L2", 2], ["shared", "shared a load", 4], ["loaded", "waited for the origin", 3],
];

const charts = {};

function makeCharts() {
  const marked = () => marks.map(m => ({ at: m.at / 1000, label: m.action ? String(m.action) : "!" }));
  const make = (id, title, format, lines, more) => chart(byId("chart-" + id), { title, format, axis: format === duration ? span : format, series: lines, least: 60, marks: marked, ...more });
  charts.answers = make("answers", "Answers by source, per second", count, series.map(([, label, c]) => ({ label, c })), { stacked: true });
  charts.queries = make("queries", "Queries of the origin, per second", count, [{ label: "queries", c: 3 }]);
  charts.latency = make("latency", "Latency of requests", duration, [{ label: "p50", c: 2 }, { label: "p99", c: 4 }]);
  charts.memory = make("memory", "Live heap, at the last look of the guard", bytes, [{ label: "live heap", c: 1 }, { label: "the guard evicts from here", c: 6 }]);
  charts.evicted = make("evicted", "Evicted by the guard, per second", count, [{ label: "greetings", c: 5 }, { label: "reports", c: 2 }]);
  charts.errors = make("errors", "Failed requests, per second", count, [{ label: "failures", c: 5 }]);
}

// sources makes the parts of a sample add up to its requests. Refreshes read L2, too, but answer none.
function sources(x) {
  const rest = Math.max(0, x.requests - x.memory - x.stale - x.shared - x.errors), l2 = Math.min(x.l2, rest);
  return { memory: x.memory, stale: x.stale, l2, shared: x.shared, loaded: rest - l2 };
}

function drawCharts() {
  const times = samples.map(x => x.at / 1000), by = samples.map(sources);
  charts.answers(times, series.map(([field]) => by.map(x => x[field])));
  charts.queries(times, [samples.map(x => x.queries)]);
  charts.latency(times, [samples.map(x => x.p50), samples.map(x => x.p99)]);
  charts.memory(times, [samples.map(x => x.heap || null), samples.map(() => memory.ceiling || null)]);
  charts.evicted(times, [samples.map(x => x.greetings), samples.map(x => x.reports)]);
  charts.errors(times, [samples.map(x => x.errors)]);
  drawWhy();
}

// drawWhy says why the last failed requests have failed.
function drawWhy() {
  const failed = samples.filter(x => x.errors > 0).pop();
  byId("why").textContent = failed ? `Last failures at ${clock(failed.at)}: ${failed.why}` : "No request has failed in the last minutes.";
}

function drawSeen(s) {
  fill(byId("seen"), s.seen.map((x, i) => {
    const here = s.instances[i];
    const words = { fresh: `fresh for ${duration(x.fresh)}`, stale: "stale", old: `old: ${x.number} of ${s.newest}`, absent: "not in memory" };
    return el("div", { class: "place " + x.state, "data-state": x.state },
      el("h3", null, "Instance " + x.instance, el("span", { class: "row" }, health(s, here))),
      el("p", { class: "value" }, x.state === "absent" ? "–" : x.text),
      el("p", { class: "dim" }, x.state === "absent" ? "" : `number ${x.number}, ${duration(x.age)} old, `, words[x.state]),
      el("p", { class: "dim small" }, `${count(here.entries)} greetings in memory`));
  }));
}

function health(s, x) {
  if (s.mode !== "strata") return [];
  const badge = (kind, text) => el("span", { class: "badge " + kind }, text);
  return [
    x.leftAlone ? badge("bad", "L2 breaker open") : badge("ok", "L2"),
    x.connected ? badge("ok", "bus") : badge("bad", "bus silent"),
    x.pending ? badge("warn", `${x.pending} pending`) : null,
  ];
}

// drawMemory shows what the process has, and what the guard of all caches leaves in it.
function drawMemory() {
  const fact = (label, value, more) => el("div", null, el("dt", null, label), el("dd", null, value, el("small", null, more)));
  fill(byId("memory"),
    fact("the process has", bytes(memory.used), `of ${bytes(memory.limit)}, ${percent(memory.used, memory.limit)}`),
    fact("live heap", bytes(memory.heap), `the guard evicts from ${bytes(memory.ceiling)} on`),
    fact("reports in memory", count(memory.held), bytes(memory.stored) + " were stored so far"),
    fact("evicted by the guard", count(memory.reports) + " reports", count(memory.evicted - memory.reports) + " greetings"));
}

function drawMarks() {
  fill(byId("marks"), marks.slice().reverse().map(m => el("li", m.action ? { value: m.action } : { class: "itself" }, el("span", { class: "dim" }, clock(m.at), " "), el("b", null, m.text), ": ", m.said)));
}

function setSelect(id, value) {
  const s = byId(id);
  if (document.activeElement === s) return;
  if (![...s.options].some(o => o.value === value)) s.append(el("option", { value }, value));
  s.value = value;
}

function draw(s) {
  for (const x of s.samples || []) if (!samples.length || x.at > samples[samples.length - 1].at) samples.push(x);
  samples = samples.slice(-shown);
  memory = s.memory;
  const had = marks.length;
  for (const m of s.marks || []) if (!marks.length || m.number > marks[marks.length - 1].number) marks.push(m);
  marks = marks.slice(-100);
  if (had !== marks.length || s.samples) drawCharts();
  if (had !== marks.length) drawMarks();
  for (const b of byId("modes").children) b.setAttribute("aria-pressed", String(b.dataset.do === "mode " + s.mode));
  for (const b of byId("jitters").children) b.setAttribute("aria-pressed", String(b.dataset.do === (s.jitter > 0 ? "jitter on" : "jitter off")));
  for (const b of byId("fills").children) b.setAttribute("aria-pressed", String(b.dataset.do === (s.filling ? "fill on" : "fill off")));
  drawMemory();
  broken = s.broken;
  const names = { l2: "L2", bus: "bus", origin: "origin" };
  for (const b of byId("parts").children) {
    b.dataset.broken = String(broken[b.dataset.part]);
    b.textContent = (broken[b.dataset.part] ? "Mend " : "Break ") + names[b.dataset.part];
  }
  setSelect("rate", String(s.rate));
  setSelect("slow", milliseconds(s.latency));
  if (s.watched !== watched) { watched = s.watched; byId("name").value = watched; byId("invalidate").textContent = "Invalidate " + watched; }
  drawSeen(s);
}

function milliseconds(ns) { return ns === 0 ? "0s" : ns % 1e9 === 0 ? ns / 1e9 + "s" : Math.round(ns / 1e6) + "ms"; }

async function act(action) {
  const said = byId("said");
  said.className = "note";
  said.textContent = action + " …";
  try {
    const r = await post("api/do", { action });
    said.className = "note " + (r.ok ? "ok" : "bad");
    said.textContent = r.said;
  } catch (e) {
    said.className = "note bad";
    said.textContent = e.message;
  }
}

for (const b of document.querySelectorAll("[data-do]")) b.addEventListener("click", () => act(b.dataset.do));
for (const b of document.querySelectorAll("[data-part]")) b.addEventListener("click", () => act((broken[b.dataset.part] ? "mend " : "break ") + b.dataset.part));
for (const b of document.querySelectorAll("[data-start]")) b.addEventListener("click", () => act(`restart ${byId("which").value} ${b.dataset.start}`));
byId("slow").addEventListener("change", e => act("slow " + e.target.value));
byId("rate").addEventListener("change", e => act("rate " + e.target.value));
byId("invalidate").addEventListener("click", () => act("invalidate " + watched));
byId("watch").addEventListener("submit", e => { e.preventDefault(); act("watch " + byId("name").value.trim()); });

makeCharts();
const words = { live: ["ok", "live"], polling: ["warn", "polling"], away: ["bad", "no answer"] };
stream("api/stream", "api/state", draw, s => {
  const [kind, text] = words[s];
  byId("state").className = "badge " + kind;
  byId("state").textContent = text;
});
