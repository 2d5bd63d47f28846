// Functions that the scripts of strata's pages share. Text from the server becomes text
// nodes and attributes; nothing here writes markup.

const svgSpace = "http://www.w3.org/2000/svg";

function build(node, attrs, children) {
  for (const [name, value] of Object.entries(attrs || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") node.addEventListener(name, value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  add(node, children);
  return node;
}

function add(node, children) {
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

// el returns an element. An attribute that is a function is a listener of that event.
export function el(tag, attrs, ...children) { return build(document.createElement(tag), attrs, children); }

// svg returns an element of an SVG picture.
export function svg(tag, attrs, ...children) { return build(document.createElementNS(svgSpace, tag), attrs, children); }

// fill replaces the content of a node.
export function fill(node, ...children) { node.replaceChildren(); add(node, children); return node; }

// byId returns the element of the page with an id.
export function byId(id) { return document.getElementById(id); }

// busy reports that the reader presses or selects something in a node. A part that is drawn
// anew meanwhile would lose the click, or the selection.
let pressed = 0;
addEventListener("pointerdown", () => { pressed = Date.now(); }, true);
for (const end of ["pointerup", "pointercancel"]) addEventListener(end, () => { pressed = 0; }, true);
export function busy(node) {
  const s = getSelection();
  return Date.now() - pressed < 3000 || Boolean(s && !s.isCollapsed && node.contains(s.anchorNode));
}

// Numbers as text, in three digits. Durations are nanoseconds, as Go has them. A unit is chosen for the
// number as it is rounded: 999.6 ms are 1 s.
const round3 = x => Math.abs(x) >= 100 ? Math.round(x) : Number(x.toPrecision(3));

// inUnits is x in the first of units, [name, size, least x], for which it is not too small.
function inUnits(units, x) {
  for (const [name, size, from] of units) if (round3(Math.abs(x) / size) * size >= from) return round3(x / size) + name;
  return String(round3(x));
}

const spans = [[" d", 86400e9, 172800e9], [" h", 3600e9, 7200e9], [" min", 60e9, 120e9], [" s", 1e9, 1e9], [" ms", 1e6, 1e6], [" µs", 1e3, 1e3], [" ns", 1, 0]];
const counts = [[" T", 1e12, 1e12], [" G", 1e9, 1e9], [" M", 1e6, 1e6], [" k", 1e3, 1e4]];
const sizes = [[" GiB", 2 ** 30, 2 ** 30], [" MiB", 2 ** 20, 2 ** 20], [" KiB", 1024, 1024], [" B", 1, 0]];

export function count(n) {
  if (!Number.isFinite(n)) return "–";
  const a = Math.abs(n);
  if (a > 0 && a < 0.01) return "< 0.01";
  if (a < 10) return String(Math.round(n * 100) / 100);
  return a < 9999.5 ? String(round3(n)) : inUnits(counts, n);
}

const doubles = Array.from({ length: 50 }, (_, i) => 2 ** i); // steps on an axis of bytes

export function bytes(n) { return Number.isFinite(n) ? inUnits(sizes, n) : "–"; }

export function percent(part, whole) {
  if (!(whole > 0)) return "–";
  const p = 100 * part / whole;
  return (p > 99.9 && p < 100 ? "> 99.9" : p < 0.1 && p > 0 ? "< 0.1" : round3(p)) + " %";
}

export function duration(ns) {
  if (!Number.isFinite(ns)) return "–";
  if (Math.abs(ns) >= 9.2e18) return "no end";
  return ns === 0 ? "0 s" : inUnits(spans, ns);
}

// span is a duration at an axis: short.
export function span(ns) { return ns === 0 ? "0" : duration(ns); }

// short is a text in quotation marks for a sentence; the middle of a long one is left out.
export function short(text) {
  const all = [...text];
  return JSON.stringify(all.length <= 120 ? text : all.slice(0, 80).join("") + " … " + all.slice(-30).join(""));
}

export function clock(when) { return new Date(when).toLocaleTimeString([], { hour12: false }); }

// call sends a request and returns the answer; the error of a refusal has the server's text.
export async function call(url, options) {
  let answer;
  try { answer = await fetch(url, { cache: "no-store", ...options }); } catch { throw new Error("The server does not answer."); }
  let body = null;
  try { body = await answer.json(); } catch { /* an answer of something else */ }
  if (!answer.ok) throw new Error(body && body.error || `The server answers ${answer.status}.`);
  return body;
}

// post sends a value as JSON.
export function post(url, value) {
  return call(url, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(value) });
}

// stream calls event with each event of a stream. It is closed while nobody sees the page,
// since a browser opens few connections to one server. If the stream does not come about,
// poll is fetched instead. state is called with "live", "polling" or "away". The result ends it.
export function stream(url, poll, event, state) {
  let source = null, timer = 0, ended = false, tries = 0;
  const stop = () => { if (source) source.close(); source = null; clearTimeout(timer); };
  const fetchOnce = async () => {
    try { event(await call(poll)); state("polling"); } catch { state("away"); }
    if (ended || document.hidden) return;
    timer = setTimeout(tries++ % 5 ? fetchOnce : open, 2000);
  };
  const open = () => {
    stop();
    if (ended || document.hidden) return;
    source = new EventSource(url);
    source.onmessage = m => { tries = 1; state("live"); event(JSON.parse(m.data)); };
    source.onerror = () => { stop(); tries ||= 1; timer = setTimeout(fetchOnce, 1000); };
  };
  const seen = () => document.hidden ? stop() : open();
  document.addEventListener("visibilitychange", seen);
  open();
  return () => { ended = true; stop(); document.removeEventListener("visibilitychange", seen); };
}

// confirm asks in a dialog of the page. It is true if the button with the verb was chosen.
export function confirm(title, text, verb, danger) {
  return new Promise(resolve => {
    const no = el("button", { type: "button", click: () => dialog.close("") }, "Cancel");
    const yes = el("button", { type: "submit", value: "yes", class: danger ? "danger" : "primary" }, verb);
    const dialog = el("dialog", { "aria-labelledby": "confirm-title", "aria-describedby": "confirm-text" },
      el("form", { method: "dialog" },
        el("h2", { id: "confirm-title" }, title), el("p", { id: "confirm-text" }, text),
        el("div", { class: "row" }, no, yes)));
    dialog.addEventListener("close", () => { dialog.remove(); resolve(dialog.returnValue === "yes"); });
    document.body.append(dialog);
    dialog.showModal();
    no.focus();
  });
}

const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// chart draws lines over time, or areas on top of each other, and returns a function that
// sets the data: times in seconds, and one array of numbers for each series. Options:
// title, series: [{label, c: 1 to 8}], stacked, format: number → text, axis: the same for the axis, least: the seconds that
// are shown at least, marks: () => [{at, label}].
export function chart(host, o) {
  const values = o.series.map(() => el("b", null, "–"));
  const plot = el("div", { class: "plot", "aria-hidden": "true" });
  fill(host, el("figure", { class: "chart" }, el("figcaption", null, o.title), plot,
    el("ul", { class: "legend" }, o.series.map((s, i) =>
      el("li", null, svg("svg", { viewBox: "0 0 10 10", "aria-hidden": "true" }, svg("rect", { class: "f" + s.c, width: 10, height: 10, rx: 2 })), s.label, " ", values[i])))));
  let u = null, times = [], data = o.series.map(() => []);
  const show = at => {
    const i = at === null || at === undefined ? times.length - 1 : at;
    values.forEach((v, k) => { const x = data[k][i]; v.textContent = x === null || x === undefined ? "–" : o.format(x); });
  };
  // The last series of a stack is drawn first, as the sum of all, and covered by the others.
  const order = o.series.map((_, i) => i);
  if (o.stacked) order.reverse();
  const drawn = () => {
    if (!o.stacked) return [times, ...data];
    const sums = [];
    data.forEach((ys, k) => sums.push(ys.map((y, i) => y === null ? null : y + (k ? sums[k - 1][i] ?? 0 : 0))));
    return [times, ...order.map(k => sums[k])];
  };
  const marks = chartNow => {
    for (const old of plot.querySelectorAll(".mark-label")) old.remove();
    if (!o.marks) return;
    const ctx = chartNow.ctx;
    let last = null;
    for (const m of o.marks()) {
      const x = chartNow.valToPos(m.at, "x", true), box = chartNow.bbox;
      if (!(x >= box.left && x <= box.left + box.width)) continue;
      ctx.save();
      ctx.strokeStyle = colour("--dim"); ctx.setLineDash([4, 4]); ctx.lineWidth = devicePixelRatio;
      ctx.beginPath(); ctx.moveTo(x, box.top); ctx.lineTo(x, box.top + box.height); ctx.stroke();
      ctx.restore();
      const label = el("span", { class: "mark-label" }, m.label), css = x / devicePixelRatio;
      plot.append(label);
      label.style.left = Math.min(css, plot.clientWidth - label.offsetWidth) + "px";
      if (last && last.offsetLeft + last.offsetWidth > label.offsetLeft) { // two labels in one place
        last.textContent = /^\d/.test(m.label) && /^\d/.test(last.textContent) ? last.textContent.replace(/–.*/, "") + "–" + m.label : last.textContent.replace(m.label, "") + m.label;
        last.style.left = Math.min(last.offsetLeft, plot.clientWidth - last.offsetWidth) + "px";
        label.remove();
      } else last = label;
    }
  };
  const draw = () => {
    if (u) u.destroy();
    u = null;
    if (!(plot.clientWidth > 0)) return;
    const axis = { stroke: colour("--dim"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
    u = new uPlot({
      width: plot.clientWidth, height: plot.clientHeight, legend: { show: false }, padding: [o.marks ? 16 : 8, 18, 0, 0],
      cursor: { y: false, drag: { x: false, y: false }, points: { show: !o.stacked } },
      scales: { x: { time: true, range: (_, lo, hi) => [Math.min(lo, hi - (o.least || 0)), hi] }, y: { range: (_, _lo, hi) => [0, hi > 0 ? hi * 1.05 : 1] } },
      axes: [
        { ...axis, space: 74, size: 28, values: (_, ticks, _axis, _space, step) => ticks.map(t => step < 60 ? clock(t * 1000) : clock(t * 1000).slice(0, 5)) },
        { ...axis, size: 58, space: 32, incrs: o.format === bytes ? doubles : undefined, values: (_, ticks) => ticks.map(o.axis || o.format) },
      ],
      series: [{}, ...order.map(k => {
        const c = colour("--c" + o.series[k].c);
        return { label: o.series[k].label, stroke: c, fill: o.stacked ? c : undefined, width: o.stacked ? 0.5 : 1.75, points: { show: false } };
      })],
      hooks: { setCursor: [at => show(at.cursor.idx)], draw: [marks] },
    }, drawn(), plot);
  };
  new ResizeObserver(() => {
    if (u && plot.clientWidth > 0) u.setSize({ width: plot.clientWidth, height: plot.clientHeight }); else draw();
  }).observe(plot);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  return (x, ys) => {
    times = x; data = ys;
    if (u) u.setData(drawn()); else draw();
    show(u && u.cursor.idx);
  };
}

// spark returns a small picture of numbers, from 0 to their maximum. It leaves a gap where a
// number is null.
export function spark(numbers, label) {
  const top = Math.max(1e-9, ...numbers), step = 100 / Math.max(numbers.length, 1);
  let line = "", area = "";
  numbers.forEach((y, i) => {
    if (y === null) return;
    const begins = i === 0 || numbers[i - 1] === null, ends = i === numbers.length - 1 || numbers[i + 1] === null;
    const left = (i * step).toFixed(1), right = ((i + 1) * step).toFixed(1), at = (32 - 30 * y / top).toFixed(1);
    line += `${begins ? "M" : "L"}${left},${at}H${right}`;
    area += `${begins ? `M${left},34` : ""}L${left},${at}H${right}${ends ? "V34Z" : ""}`;
  });
  return svg("svg", { class: "spark", viewBox: "0 0 100 34", preserveAspectRatio: "none", role: "img", "aria-label": label },
    svg("path", { class: "area", d: area }), svg("path", { d: line }));
}
