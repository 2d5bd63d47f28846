// The page of caches: an overview, and one cache with its charts, tables and actions. The
// part of the address behind # says which.
import { el, fill, byId, busy, bytes, count, percent, duration, clock, call, post, stream, confirm, chart, spark, span, short } from "./page.js";

const forever = 9.2e18;
const api = path => "api/" + path;
const query = o => new URLSearchParams(o).toString();

let chosen = null;   // the name of the cache that is shown, or null for all
let stop = () => {}; // ends the stream
let detail = null;   // the last Detail
let samples = [], events = [];
let hotOrder = "byReads";
let names = [];

// Texts of numbers.
const rate = n => count(n) + "/s";
const perSecond = ns => duration(ns) + "/s";
const age = ns => ns >= forever ? "no end" : duration(ns);

function badge(kind, text) { return el("span", { class: "badge " + kind }, text); }

// unheard says what is wrong with a bus. It may deliver messages and not be connected, since L2 does not
// answer: then messages may have been missed.
const silentAfter = 3e9;
const unheard = bus => bus.silence < silentAfter ? "not connected" : "silent for " + duration(bus.silence);

// counted is a number of things.
function counted(n, thing) { return `${count(n)} ${thing}${n === 1 ? "" : "s"}`; }

// health returns badges for what is not as it should be, and for what is fine.
function health(n, info) {
  const all = [];
  if (n.memory.off) all.push(badge("warn", "off"));
  if (n.guard && n.guard.exhausted) all.push(badge("bad", "no memory left to evict"));
  if (n.loads.failing) all.push(badge("bad", `origin failing for ${duration(n.loads.failing)}`));
  else if (n.loads.slow) all.push(badge("warn", `origin slow for ${duration(n.loads.slow)}`));
  if (info.l2) {
    const l2 = info.l2Server ? "L2 " + info.l2Server : "L2";
    all.push(n.remote.breakerOpen ? badge("bad", l2 + ": breaker open") : badge("ok", l2));
    if (n.remote.storingStopped) all.push(badge("bad", l2 + " stores nothing"));
    if (!n.remote.breakerOpen) for (const server of n.remote.serversLeftAlone || []) all.push(badge("bad", `L2 ${server}: breaker open`));
    if (!n.remote.storingStopped) for (const server of n.remote.serversWithoutStores || []) all.push(badge("bad", `L2 ${server} stores nothing`));
  }
  if (info.bus) all.push(n.bus.connected ? badge("ok", "bus") : badge("bad", "bus " + unheard(n.bus)));
  if (n.bus.pending) all.push(badge("warn", counted(n.bus.pending, "drop") + " pending"));
  if (n.memory.callbacksDropped) all.push(badge("warn", count(n.memory.callbacksDropped) + " events left out"));
  return all;
}

function fact(label, value, more) {
  return el("div", null, el("dt", null, label), el("dd", null, value, more === undefined ? null : el("small", null, more)));
}

// limits are the sources of the limit of a guard.
const limits = { Limit: "by a limit of", GOMEMLIMIT: "by a GOMEMLIMIT of", cgroup: "by a cgroup of" };

function limit(n, most) { return most > 0 ? `of ${count(most)}, ${percent(n, most)}` : "no limit"; }

// The overview.

function drawNav() {
  const link = (name, hash, current) => el("a", { href: hash, "aria-current": current ? "page" : null }, name);
  const nav = byId("nav");
  if (names.length > 8) {
    const choose = el("select", { id: "choose", "aria-label": "Cache", change: e => { location.hash = e.target.value; } },
      el("option", { value: "" }, "All caches"), names.map(n => el("option", { value: hashOf(n), selected: n === chosen }, n)));
    fill(nav, choose);
    return;
  }
  fill(nav, link("All caches", "#", chosen === null), names.map(n => link(n, hashOf(n), n === chosen)));
}

function hashOf(name) { return "#" + query({ cache: name }); }

function learn(all) {
  if (all.join("\n") === names.join("\n") && byId("nav").firstChild) return;
  names = all;
  drawNav();
}

function drawOverview(o) {
  learn(o.caches.map(c => c.name));
  if (busy(byId("cards"))) return;
  const focus = document.activeElement && document.activeElement.dataset ? document.activeElement.dataset.cache : undefined;
  if (!o.caches.length) {
    fill(byId("cards"), el("p", { class: "card" }, "The program has given no caches to this page."));
    return;
  }
  fill(byId("cards"), o.caches.map(c => {
    const n = c.numbers, now = c.latest, total = now ? sum(now.answers) : NaN;
    return el("a", { class: "card cache", href: hashOf(c.name), "data-cache": c.name },
      el("div", { class: "row ends" }, el("h2", null, c.info.service ? c.info.service + " / " + c.name : c.name), el("span", { class: "row" }, health(n, c.info))),
      spark(c.spark, `Reads per second in the last ten minutes, at most ${count(Math.max(0, ...c.spark))}`),
      el("dl", { class: "facts" },
        fact("reads", now ? rate(total) : "–", count(n.reads.total) + " in all"),
        fact("from L1", now ? percent(now.answers.l1, total) : percent(n.reads.l1, n.reads.total), percent(n.reads.l1, n.reads.total) + " in all"),
        fact("time saved", duration(n.loads.saved), now ? perSecond(now.saved / 2) : ""),
        fact("load p99, 5 min", n.loads.p99 ? "≤ " + duration(n.loads.p99) : "–", count(n.loads.running) + " in flight"),
        fact("entries", count(n.memory.entries), limit(n.memory.entries, n.memory.maxEntries)),
        fact("failed loads", now ? rate(now.errors) : "–", `${count(n.loads.errors + n.loads.panics)} in all, ${count(n.reads.stale)} stale served`)));
  }));
  if (focus !== undefined) for (const a of byId("cards").children) if (a.dataset.cache === focus) a.focus();
}

function sum(answers) { return Object.values(answers).reduce((a, b) => a + b, 0); }

// One cache.

const sources = [["l1", "L1", 1], ["l2", "L2", 2], ["loaded", "loaded", 3], ["joined", "joined another load", 4], ["stale", "stale", 5], ["remembered", "remembered", 6], ["none", "no value", 8]];
let charts = null;

function makeCharts() {
  const make = (id, title, format, series, more) => chart(byId("chart-" + id), { title, format, axis: format === duration ? span : format, series, least: 120, ...more });
  return {
    answers: make("answers", "Answers by source, per second", count, sources.map(([, label, c]) => ({ label, c })), { stacked: true }),
    load: make("load", "Duration of loads", duration, [{ label: "p99 (upper bound)", c: 3 }]),
    running: make("running", "Loads in flight", count, [{ label: "loads", c: 3 }]),
    saved: make("saved", "Time saved, per second", duration, [{ label: "not spent waiting for the origin", c: 1 }]),
    entries: make("entries", "Entries in L1", count, [{ label: "entries", c: 1 }, { label: "limit", c: 6 }]),
    heap: make("heap", "Live heap of the process", bytes, [{ label: "at the last look of the guard", c: 1 }, { label: "the guard evicts from here", c: 6 }]),
    bus: make("bus", "Bus", duration, [{ label: "since the last message", c: 6 }, { label: "echo p99 (upper bound)", c: 2 }]),
    errors: make("errors", "Failures, per second", count, [{ label: "loads", c: 5 }, { label: "operations on L2", c: 4 }]),
  };
}

// drawCharts leaves a gap where no samples were taken.
function drawCharts(d) {
  charts ||= makeCharts();
  const rows = [];
  for (const s of samples) {
    const last = rows[rows.length - 1];
    if (last && s.at - last.at > 10000) rows.push({ at: last.at + 2000, gap: true });
    rows.push(s);
  }
  const times = rows.map(r => r.at / 1000);
  const of = get => rows.map(r => r.gap ? null : get(r));
  const limits = d.numbers.memory.maxEntries;
  charts.answers(times, sources.map(([field]) => of(r => r.answers[field])));
  charts.load(times, [of(r => r.loadP99 || null)]);
  charts.running(times, [of(r => r.running)]);
  charts.saved(times, [of(r => r.saved / 2)]);
  charts.entries(times, [of(r => r.entries), of(() => limits > 0 ? limits : null)]);
  const guard = d.numbers.guard;
  byId("chart-heap").classList.toggle("hidden", !guard);
  charts.heap(times, [of(r => r.heap || null), of(() => guard ? guard.ceiling : null)]);
  charts.bus(times, d.info.bus ? [of(r => r.silence), of(r => r.echoP99 || null)] : [of(() => null), of(() => null)]);
  charts.errors(times, [of(r => r.errors), of(r => r.l2Errors)]);
}

function drawFacts(d) {
  const n = d.numbers, now = samples[samples.length - 1], total = now ? sum(now.answers) : NaN;
  const reloads = n.loads.compared.changed + n.loads.compared.unchanged + n.loads.notModified;
  fill(byId("facts"),
    fact("reads", now ? rate(total) : "–", count(n.reads.total) + " in all"),
    fact("from L1", now ? percent(now.answers.l1, total) : "–", percent(n.reads.l1, n.reads.total) + " in all"),
    fact("time saved", duration(n.loads.saved), now ? perSecond(now.saved / 2) : ""),
    fact("load p99, 5 min", n.loads.p99 ? "≤ " + duration(n.loads.p99) : "–", now && now.loadP99 ? "now ≤ " + duration(now.loadP99) : "no loads now"),
    fact("loads in flight", count(n.loads.running), counted(n.loads.waiters, "caller") + " shared loads"),
    fact("entries", count(n.memory.entries), limit(n.memory.entries, n.memory.maxEntries)),
    n.memory.maxWeight > 0 ? fact("weight", count(n.memory.weight), limit(n.memory.weight, n.memory.maxWeight)) : null,
    fact("age at eviction", n.memory.evictionAgeP50 ? "≤ " + duration(n.memory.evictionAgeP50) : "–", count(n.memory.evicted) + " evicted"),
    n.guard ? fact("live heap", bytes(n.guard.heap), `${bytes(n.guard.ceiling)} at most, ${limits[n.guard.source] || n.guard.source} ${bytes(n.guard.limit)}`) : null,
    n.guard ? fact("evicted by the guard", count(n.guard.evicted), n.guard.exhausted ? "nothing is left to evict" : n.guard.active ? "the heap was too large in the last minute" : "the heap is small enough") : null,
    fact("stale served", count(n.reads.stale), count(n.reads.staleError) + " because of errors"),
    fact("negative answers", count(n.reads.negative), "from L1: not found a while ago"),
    d.info.l2 ? fact("waits for other loads", count(n.remote.leaseWaits), count(n.remote.leaseWins) + " got their answer") : null,
    fact("failed loads", now ? rate(now.errors) : "–", `${count(n.loads.errors + n.loads.panics)} in all, ${count(n.loads.notFound)} not found`),
    fact("loads with news", reloads ? percent(n.loads.compared.changed, reloads) : "–", counted(reloads, "value") + " compared with the one before"),
    fact("origin", n.loads.failing ? "failing" : n.loads.slow ? "slow" : "well", n.loads.failing || n.loads.slow ? "for " + duration(n.loads.failing || n.loads.slow) : "as far as loads tell"),
    fact("L2", !d.info.l2 ? "none" : n.remote.breakerOpen ? "breaker open" : (n.remote.serversLeftAlone || []).length ? "in use, but " + n.remote.serversLeftAlone.join(", ") : "in use",
      d.info.l2 ? `${counted(n.remote.errors, "error")}, ${counted(n.remote.timedOut, "time-out")} of them, ${counted(n.remote.breakerChanges, "change")} of the breaker` : "values stay on this instance"),
    fact("bus", !d.info.bus ? "none" : n.bus.connected ? "connected" : n.bus.silence < silentAfter ? "not connected" : "silent", d.info.bus ? `heard ${duration(n.bus.silence)} ago, ${counted(n.bus.gaps, "gap")}${n.bus.unreadable ? `, ${count(n.bus.unreadable)} unreadable` : ""}` : ""),
    d.info.bus ? fact("bus echo p99, 5 min", n.bus.echoP99 ? "≤ " + duration(n.bus.echoP99) : "–", "as late are invalidations") : null,
    fact("pending drops", count(n.bus.pending), `${count(n.bus.invalidations)} here, ${count(n.bus.heard)} heard`),
    n.memory.callbacksLate ? fact("slow hooks, tracer, log", count(n.memory.callbacksLate) + " calls", count(n.memory.callbacksDropped) + " events left out") : null);
}

function table(caption, heads, rows) {
  return el("table", null, el("caption", null, caption), el("thead", null, el("tr", null, heads.map(([text, cls]) => el("th", { scope: "col", class: cls }, text)))),
    el("tbody", null, rows));
}

// refill draws into a box, unless nothing is new or the reader uses it.
function refill(box, state, draw) {
  const text = JSON.stringify(state);
  if (box.dataset.state === text || busy(box) || box.contains(document.activeElement) && box !== document.activeElement) return;
  box.dataset.state = text;
  fill(box, draw());
}

function drawHot(d) {
  const hot = d.hot, rows = hot[hotOrder];
  refill(byId("hot"), [hotOrder, rows, d.info.name], () => {
    if (!rows.length) return el("p", { class: "dim" }, "No reads have been counted yet.");
    const all = hotOrder === "byReads" ? hot.reads : hot.loadTime;
    return table(`Since ${clock(hot.since)}, ${hot.every > 1 ? `one read in ${hot.every} is counted` : "all reads are counted"}${d.info.showKeys ? "" : "; keys are hashes, since the cache does not show them"}.`,
      [["key"], ["reads", "num"], ["loads", "num"], ["load time", "num"], ["share", "num"]],
      rows.map(k => el("tr", null,
        el("td", { class: "key" }, d.info.showKeys && d.info.textKeys ? el("button", { type: "button", class: "link", click: () => use(k.key) }, k.key) : k.key),
        el("td", { class: "num" }, k.reads || hot.every < 2 ? count(k.reads) : "< " + hot.every), el("td", { class: "num" }, count(k.loads)), el("td", { class: "num" }, duration(k.loadTime)),
        el("td", { class: "num" }, percent(hotOrder === "byReads" ? k.reads : k.loadTime, all)))));
  });
}

// use takes a key into the forms.
function use(key) {
  byId("explain-key").value = key;
  byId("act-key-text").value = key;
  byId("explain").requestSubmit();
  byId("explain-key").focus();
}

function drawEvents() {
  refill(byId("events"), events.map(e => [e.number, e.text]), () => {
    if (!events.length) return el("p", { class: "dim" }, "Nothing has happened yet: changes of state and invalidations are listed here.");
    const kind = { error: "bad", warn: "warn" };
    return table("The newest first.", [["time"], ["level"], ["event"]], events.slice().reverse().map(e => el("tr", null,
      el("td", null, el("time", { datetime: new Date(e.at).toISOString() }, clock(e.at))), el("td", null, badge(kind[e.level] || "", e.level)), el("td", null, e.text))));
  });
}

function drawSettings(d) {
  const only = byId("only-set").checked;
  refill(byId("settings"), [only, d.settings], () => {
    const rows = d.settings.filter(s => !only || !s.default || s.tuned);
    return table("Defaults are marked.", [["option"], ["value"], [""]], rows.map(s => el("tr", null, el("th", { scope: "row" }, s.name),
      el("td", { class: s.default && !s.tuned ? "dim" : null }, s.value), el("td", null, s.tuned ? badge("warn", "tuned") : s.default ? badge("", "default") : null))));
  });
  const fields = { "Memory.MaxEntries": "maxEntries", "Memory.MaxWeight": "maxWeight", "TTL": "ttl", "Stale.WhileRevalidate": "staleWhileRevalidate", "Stale.OnError": "staleOnError" };
  for (const s of d.settings) if (fields[s.name]) byId("tune-" + fields[s.name]).placeholder = s.value;
}

function drawDetail(d) {
  if (d.name !== chosen) return;
  detail = d;
  const since = d.time - 600000, have = samples.length ? samples[samples.length - 1].at : 0;
  samples = samples.concat(d.samples.filter(s => s.at > have)).filter(s => s.at > since);
  // An event of the last second may come again with a larger count.
  if (d.events.length) events = events.filter(e => e.number < d.events[0].number).concat(d.events).slice(-100);
  byId("name").textContent = d.name;
  fill(byId("badges"), health(d.numbers, d.info));
  const i = d.info;
  byId("info").textContent = [["service", i.service], ["instance", i.instance], ["version", i.version], ["codec", i.schema], ["L2", i.l2 && i.l2Server ? `${i.l2} at ${i.l2Server}` : i.l2], ["bus", i.bus], ["partition", i.l2 || i.bus ? i.partition : ""]]
    .filter(([, v]) => v).map(([k, v]) => k + " " + v).join(" · ");
  byId("actions").classList.toggle("hidden", d.readOnly);
  byId("tune-card").classList.toggle("hidden", d.readOnly);
  byId("no-keys").classList.toggle("hidden", i.textKeys);
  byId("explain").classList.toggle("hidden", !i.textKeys);
  byId("act-key").classList.toggle("hidden", !i.textKeys);
  drawFacts(d);
  drawCharts(d);
  drawHot(d);
  drawEvents();
  drawSettings(d);
}

// Explain.

function place(state, fresh) {
  if (!state) return "–";
  if (state !== "fresh" && state !== "negative") return state;
  return fresh >= forever ? state + ", without end" : `${state} for ${duration(fresh)}`;
}

function drawInstance(x) {
  const row = (k, v) => [el("dt", null, k), el("dd", null, v)];
  if (!x.answered) return el("div", { class: "instance" }, el("h3", null, x.instance, " ", badge("warn", "no answer")), el("p", { class: "small" }, x.verdict));
  return el("div", { class: "instance" }, el("h3", null, x.instance, " ", x.here ? badge("ok", "here") : null), el("p", null, x.verdict),
    el("dl", null, row("L1", place(x.l1, x.l1Fresh)), row("L2", place(x.l2, x.l2Fresh) + (x.l2Size ? ", " + bytes(x.l2Size) : "")),
      x.tags && x.tags.length ? row("tags", x.tags.join(", ")) : null,
      x.loading ? row("load", `runs, for ${counted(x.waiters, "caller")}`) : null,
      x.failures ? row("failures", `${count(x.failures)} in a row, next load in ${duration(x.retryIn)}`) : null,
      x.err ? row("error", x.err) : null, x.here ? null : row("answered in", duration(x.took))));
}

async function explain(event) {
  event.preventDefault();
  const box = byId("explained"), name = chosen, key = byId("explain-key").value;
  fill(box, el("p", { class: "dim" }, "Asking all instances …"));
  try {
    const x = await call(api("explain?" + query({ name, key })));
    if (name !== chosen) return;
    fill(box, x.error ? el("p", { class: "note bad" }, x.error) : null,
      x.instances.length ? el("p", { class: "dim small" }, `Key ${short(x.key)} on ${x.instances.length === 1 ? "one instance" : x.instances.length + " instances"}, at ${clock(Date.now())}`) : null,
      x.instances.map(drawInstance));
  } catch (e) { if (name === chosen) fill(box, el("p", { class: "note bad" }, e.message)); }
}

// Actions.

// outcome draws the answer to an action. A change of options concerns neither L2 nor the bus.
function outcome(o, here) {
  const l2 = !o.hasL2 ? "There is no L2." : o.breakerOpen ? "The circuit breaker of L2 is open, since it has failed too often." : o.ok ? "L2 has answered." : "";
  const bus = !o.hasBus ? "There is no bus." : o.connected ? "The bus is connected." : "The bus is not connected: other instances have not heard of it yet.";
  const pending = o.pending === 0 ? "Nothing is pending." : o.pending === 1 ? "One drop is pending, and is sent again until it is confirmed." : `${count(o.pending)} drops are pending, and are sent again until they are confirmed.`;
  return el("div", { class: "note " + (o.ok ? o.pending && !here ? "warn" : "ok" : "bad") },
    el("strong", null, o.ok ? "Done. " : "An error. "), o.ok ? o.did : o.error, el("br"),
    el("span", { class: "small" }, `${clock(Date.now())}, after ${duration(o.took)}. ${here ? "" : [l2, bus, pending].filter(s => s).join(" ")}`));
}

async function act(path, body, title, text, verb, box) {
  if (!await confirm(title, text, verb, true)) return false;
  let note = el("div", { class: "note" }, `${verb} …`);
  // The outcome of an action on a cache that is no longer shown says which one it was.
  const here = () => body.name === chosen;
  const show = () => {
    if (!here()) note.prepend(el("strong", null, `${short(body.name)}: `));
    box.prepend(note);
    if (here()) note.scrollIntoView({ block: "center" });
  };
  show();
  const waiting = note;
  try { note = outcome(await post(api(path), body), path === "tune"); } catch (e) { note = el("div", { class: "note bad" }, el("strong", null, "Refused. "), e.message); }
  waiting.remove();
  show();
  while (box.children.length > 5) box.lastChild.remove();
  return here();
}

const soft = () => document.querySelector("input[name=soft]:checked").value === "yes";
const everywhere = "on this instance, in L2, and on all instances that the bus reaches";

function dropKey(event) {
  event.preventDefault();
  const key = byId("act-key-text").value, s = soft();
  act("invalidate", { name: chosen, key, soft: s }, `${s ? "Expire" : "Invalidate"} one key?`,
    `Key ${short(key)} of ${short(chosen)} becomes ${s ? "stale" : "absent"} ${everywhere}.`, s ? "Expire key" : "Invalidate key", byId("outcomes"));
}

function dropTags(event) {
  event.preventDefault();
  const tags = byId("act-tags-text").value.split(",").map(t => t.trim()).filter(t => t), s = soft();
  if (!tags.length) { byId("act-tags-text").focus(); return; }
  act("tags", { name: chosen, tags, soft: s }, `${s ? "Expire" : "Invalidate"} by tags?`,
    `All entries of ${short(chosen)} with ${tags.length === 1 ? "the tag" : "one of the tags"} ${tags.slice(0, 5).map(short).join(", ")}${tags.length > 5 ? ` and ${tags.length - 5} more` : ""} become ${s ? "stale" : "absent"} ${everywhere}.`, s ? "Expire tags" : "Invalidate tags", byId("outcomes"));
}

function dropAll() {
  const s = soft(), n = detail ? (detail.numbers.memory.entries === 1 ? "one entry" : count(detail.numbers.memory.entries) + " entries") + " here" : "everything";
  act("all", { name: chosen, soft: s }, `${s ? "Expire" : "Invalidate"} everything?`,
    `All entries of ${short(chosen)} (${n}) become ${s ? "stale" : "absent"} ${everywhere}. The origin gets the load of reading them again.`, s ? "Expire everything" : "Invalidate everything", byId("outcomes"));
}

async function tune(event) {
  event.preventDefault();
  const body = { name: chosen }, said = [], box = byId("tuned");
  const text = id => byId("tune-" + id).value.trim();
  for (const id of ["maxEntries", "maxWeight"]) {
    const v = text(id);
    if (!v) continue;
    if (!/^\d{1,15}$/.test(v)) { fill(box, el("p", { class: "note bad" }, `${JSON.stringify(v)} is not a whole number.`)); byId("tune-" + id).focus(); return; }
    body[id] = Number(v);
    said.push(`${id} ${v}`);
  }
  for (const id of ["ttl", "staleWhileRevalidate", "staleOnError"]) if (text(id)) { body[id] = text(id); said.push(`${id} ${text(id)}`); }
  const off = byId("tune-off").value;
  if (off) { body.off = off === "yes"; said.push(off === "yes" ? "off" : "on"); }
  if (!said.length) { fill(box, el("p", { class: "note" }, "No field has a new value.")); return; }
  if (await act("tune", body, "Change options at run time?", `${short(chosen)}: ${said.map(s => s.length > 100 ? s.slice(0, 100) + " …" : s).join(", ")}. This is so on this instance until the program ends.`, "Change options", box)) byId("tune").reset();
}

// Which cache is shown.

function route() {
  const name = new URLSearchParams(location.hash.slice(1)).get("cache");
  chosen = name;
  stop();
  samples = []; events = []; detail = null;
  for (const id of ["explained", "outcomes", "tuned"]) fill(byId(id));
  for (const id of ["hot", "events", "settings"]) { delete byId(id).dataset.state; fill(byId(id)); }
  byId("overview").classList.toggle("hidden", name !== null);
  byId("detail").classList.toggle("hidden", name === null);
  byId("problem").classList.add("hidden");
  document.title = name === null ? "strata" : `${name} – strata`;
  drawNav();
  const state = s => {
    const b = byId("state"), text = { live: "live", polling: "every 2 s", away: "no answer" }[s];
    if (b.textContent !== text) { b.textContent = text; b.className = "badge " + (s === "away" ? "bad" : "ok"); }
  };
  if (name === null) {
    stop = stream(api("stream"), api("caches"), drawOverview, state);
    return;
  }
  byId("name").textContent = name;
  call(api("caches")).then(o => {
    learn(o.caches.map(c => c.name));
    if (o.caches.some(c => c.name === name) || name !== chosen) return;
    stop();
    const p = byId("problem");
    p.textContent = `There is no cache ${JSON.stringify(name)} on this page.`;
    p.classList.remove("hidden");
    byId("detail").classList.add("hidden");
  }).catch(() => {});
  stop = stream(api("stream?" + query({ name })), api("cache?" + query({ name })), drawDetail, state);
}

// nameButtons names the buttons by what they do: what becomes of entries is chosen above them.
function nameButtons() {
  const verb = soft() ? "Expire" : "Invalidate";
  document.querySelector("#act-key button").textContent = verb + " key";
  document.querySelector("#act-tags button").textContent = verb + " tags";
  byId("act-all").textContent = verb + " everything";
}

for (const radio of document.querySelectorAll("input[name=soft]")) radio.addEventListener("change", nameButtons);
nameButtons();
byId("explain").addEventListener("submit", explain);
byId("act-key").addEventListener("submit", dropKey);
byId("act-tags").addEventListener("submit", dropTags);
byId("act-all").addEventListener("click", dropAll);
byId("tune").addEventListener("submit", tune);
byId("only-set").addEventListener("change", () => detail && drawSettings(detail));
byId("hot-order").addEventListener("click", e => {
  if (e.target.tagName !== "BUTTON") return;
  hotOrder = e.target.value;
  for (const b of byId("hot-order").children) b.setAttribute("aria-pressed", String(b === e.target));
  if (detail) drawHot(detail);
});
addEventListener("hashchange", () => { route(); byId("main").focus({ preventScroll: true }); scrollTo(0, 0); });
route();
