"use strict";
// One page without libraries. Text of the cluster is hostile: it goes into text nodes only.

const PAUSE = 2000;
const KEPT = 300;
const RESTING = ["Suspended", "Finished"];
const main = document.getElementById("main");
const said = document.getElementById("said");
let filter = "";
let chosen = 0;
let rows = [];
let round = 0;
const history = new Map();

function element(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value);
  }
  for (const child of children.flat()) if (child !== null && child !== undefined) made.append(child);
  return made;
}

async function ask(path) {
  const response = await fetch(path);
  const body = await response.json();
  if (!response.ok) throw new Error(body.message + (body.remedy ? " — " + body.remedy : ""));
  return body;
}

const number = (value) => (value === null || value === undefined ? "?" : Number(value).toLocaleString("en"));

function age(time) {
  const seconds = Math.max(0, (Date.now() - Date.parse(time)) / 1000);
  if (Number.isNaN(seconds)) return "?";
  for (const [unit, size] of [["d", 86400], ["h", 3600], ["min", 60]])
    if (seconds >= 2 * size) return Math.floor(seconds / size) + " " + unit;
  return Math.floor(seconds) + " s";
}

function kind(ready, state) {
  if (ready === "True" || RESTING.includes(state)) return RESTING.includes(state) ? "soft" : "good";
  return state === "Failed" ? "bad" : "wait";
}

const isWell = (row) => row.ready === "True" || RESTING.includes(row.state);

// The list

async function list() {
  const found = await ask("/api/jobs");
  const order = (row) => (isWell(row) ? "1" : "0") + row.namespace + "/" + row.name;  // what needs a look comes first
  rows = found.jobs.sort((a, b) => order(a).localeCompare(order(b)));
  drawList();
}

function shown() {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  return rows.filter((row) => {
    const text = [row.namespace + "/" + row.name, row.state, row.reason, row.sink].join(" ").toLowerCase();
    return words.every((word) => text.includes(word));
  });
}

function drawList() {
  if (location.hash.length > 1) return;
  let search = document.getElementById("filter");
  if (!search) {
    search = element("input", { id: "filter", type: "search", placeholder: "namespace, name, state, topic", "aria-label": "filter", value: filter,
      oninput: (event) => { filter = event.target.value; chosen = 0; drawList(); } });
    main.replaceChildren(element("div", { class: "bar" }, search, element("span", { class: "count", id: "count" })), element("div", { id: "table" }));
  }
  const visible = shown();
  chosen = Math.max(0, Math.min(chosen, visible.length - 1));
  const unwell = visible.filter((row) => !isWell(row)).length;
  document.getElementById("count").textContent = visible.length + " of " + rows.length + " jobs, " + unwell + " not Ready";
  const heads = [["Job"], ["State"], ["In/s", 1], ["Out/s", 1], ["Lag", 1], ["Checkpoint", 1], ["Parallelism", 1], ["Restarts", 1], ["Age", 1], ["Message"]];
  const body = element("tbody", { class: "list" }, visible.map((row, index) =>
    element("tr", { class: index === chosen ? "chosen" : "", onclick: () => open(row) },
      element("td", {}, element("a", { href: address(row) }, row.namespace + "/" + row.name)),
      element("td", { class: "state " + kind(row.ready, row.state) }, row.state || "no status"),
      ...[row.in, row.out, row.lag, row.checkpoint, row.parallelism, row.restarts].map((value) => element("td", { class: "number" }, number(value))),
      element("td", { class: "number" }, age(row.created)),
      element("td", { class: "message", title: row.message || "" }, row.ready === "True" ? "" : row.message || ""))));
  const head = element("thead", {}, element("tr", {}, heads.map(([text, right]) => element("th", { class: right ? "number" : "" }, text))));
  document.getElementById("table").replaceChildren(element("table", {}, head, body));
}

const address = (row) => "#" + encodeURIComponent(row.namespace) + "/" + encodeURIComponent(row.name);
const open = (row) => { location.hash = address(row); };

// A job

async function detail(namespace, name) {
  const path = "/api/jobs/" + encodeURIComponent(namespace) + "/" + encodeURIComponent(name);
  const found = await ask(path);
  const [lag, output] = await Promise.all([
    ask(path + "/lag").catch((error) => error),
    found.hasOutput ? ask(path + "/output").catch((error) => error) : null,
  ]);
  remember(namespace + "/" + name, found.job.status || {});
  if (location.hash !== address({ namespace, name })) return;
  drawJob(found, lag, output, history.get(namespace + "/" + name));
}

function remember(key, status) {
  const points = history.get(key) || [];
  const source = status.source || {}, sink = status.sink || {}, checkpoint = status.checkpoint || {};
  points.push({ time: Date.now(), lag: source.lagRecords, in: source.recordsPerSecond, out: sink.recordsPerSecond, took: checkpoint.durationMillis });
  history.set(key, points.slice(-KEPT));
}

function chart(points, field, title, unit) {
  const values = points.map((point) => point[field]);
  const known = values.filter((value) => value !== undefined && value !== null);
  const most = Math.max(1, ...known);
  const step = 100 / Math.max(1, values.length - 1);
  let line = "", pen = "M";
  values.forEach((value, index) => {
    if (value === undefined || value === null) { pen = "M"; return; }  // unknown is a gap, and not 0
    line += pen + (index * step).toFixed(2) + " " + (38 - 36 * value / most).toFixed(2);
    pen = "L";
  });
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  svg.setAttribute("viewBox", "0 0 100 40");
  svg.setAttribute("preserveAspectRatio", "none");
  const path = document.createElementNS(space, "path");
  path.setAttribute("d", line);
  svg.append(path);
  const last = known.length ? number(known[known.length - 1]) : "?";
  return element("div", { class: "chart" }, element("span", {}, title + ": " + last + unit + ", at most " + (known.length ? number(most) : "?") + " since the page was opened"), svg);
}

function section(title, ...content) {
  return content.length ? element("section", {}, element("h2", {}, title), ...content) : null;
}

function table(heads, lines) {
  return element("table", {}, element("thead", {}, element("tr", {}, heads.map((head) => element("th", {}, head)))),
    element("tbody", {}, lines.map((line) => element("tr", {}, line.map((cell) => element("td", { class: "wrap" }, cell === null || cell === undefined ? "" : cell))))));
}

function drawJob(found, lag, output, points) {
  const { job, pods, events } = found;
  const meta = job.metadata, spec = job.spec || {}, status = job.status || {};
  const source = status.source || {}, sink = status.sink || {}, attempt = status.attempt || {};
  const conditions = status.conditions || [];
  const ready = (conditions.find((each) => each.type === "Ready") || {}).status || "Unknown";
  const transform = spec.transform || {};
  const what = transform.sql ? "SQL" : transform.arrow ? "Arrow function" : transform.python ? "Python function" : "pass-through";
  const code = (transform.sql && transform.sql.query) || (transform.arrow || transform.python || {}).function || "";
  const scroll = window.scrollY;
  main.replaceChildren(
    element("h1", {}, meta.namespace + "/" + meta.name + " ", element("span", { class: "state " + kind(ready, status.state) }, status.state || "no status"),
      element("span", { class: "soft" }, status.reason && status.reason !== status.state ? " " + status.reason : "")),
    element("p", { class: "wrap" }, status.message || ""),
    element("div", { class: "graph" },
      element("div", { class: "node" }, element("b", {}, "source"), ((spec.source || {}).topics || [(spec.source || {}).topicPattern || "?"]).join(", "),
        element("div", { class: "big" }, number(source.lagRecords)), "records of lag, " + number(source.partitions) + " partitions"),
      element("div", { class: "edge" }, number(source.recordsPerSecond) + "/s →"),
      element("div", { class: "node" }, element("b", {}, what + ", engine " + ((status.engine || {}).name || "?")), element("code", { class: "wrap" }, code.slice(0, 240)),
        element("div", {}, "parallelism " + number(status.parallelism))),
      element("div", { class: "edge" }, number(sink.recordsPerSecond) + "/s →"),
      element("div", { class: "node" }, element("b", {}, "sink, " + ((spec.sink || {}).deliveryGuarantee || "ExactlyOnce")), (spec.sink || {}).topic || "?",
        element("div", { class: "big" }, number(sink.recordsOut)), "records" + (sink.recordsDeadLettered ? ", " + number(sink.recordsDeadLettered) + " dead letters" : ""))),
    element("div", { class: "columns" },
      section("Over time", chart(points, "lag", "Lag", ""), chart(points, "in", "In", "/s"), chart(points, "out", "Out", "/s"), chart(points, "took", "Checkpoint", " ms")),
      element("div", {},
        section("Lag by partition", lag instanceof Error ? element("p", { class: "soft wrap" }, lag.message) : lags(lag)),
        section("Checkpoint and transactions", table(["", ""], facts(status))),
        section("Attempt", table(["", ""], [
          ["attempt", number(attempt.id) + ", " + (attempt.startReason || "?") + ", started " + age(attempt.startedAt) + " ago" + (attempt.outcome ? ", ended: " + attempt.outcome : "")],
          ["restarts", number((status.restarts || {}).total) + ((status.restarts || {}).nextRetryTime ? ", next at " + status.restarts.nextRetryTime : "")]])))),
    status.lastFailure ? section("Why the last restart", element("p", { class: "wrap" }, element("b", {}, status.lastFailure.reason + " "), "in attempt " + status.lastFailure.attempt + ", " + age(status.lastFailure.time) + " ago: " + (status.lastFailure.message || "")),
      status.lastFailure.remedy ? element("p", { class: "wrap" }, "Remedy: " + status.lastFailure.remedy) : null,
      status.lastFailure.log ? element("pre", {}, status.lastFailure.log) : null) : "",
    section("Conditions", table(["condition", "status", "reason", "since", "message"], conditions.map((each) => [each.type, mark(each), each.reason, age(each.lastTransitionTime), each.message]))),
    section("Pods", table(["pod", "phase", "node", "restarts", "age"], pods.map((pod) => [pod.metadata.name,
      pod.metadata.deletionTimestamp ? "Terminating" : pod.status.phase, (pod.spec || {}).nodeName,
      number((pod.status.containerStatuses || []).reduce((sum, each) => sum + each.restartCount, 0)), age(pod.metadata.creationTimestamp)]))),
    section("Events", table(["when", "reason", "times", "message"], events.slice(-40).reverse().map((each) => [age(each.lastTimestamp || each.eventTime), each.reason, number(each.count || 1), each.message]))),
    output === null ? "" : section("Last records of the sink", output instanceof Error ? element("p", { class: "soft wrap" }, output.message) :
      table(["partition", "offset", "key", "value"], (output || []).map((each) => [each.partition, each.offset, each.key, (each.value || "null").slice(0, 400)]))));
  window.scrollTo(0, scroll);
}

function lags(found) {
  const most = Math.max(1, ...found.map((each) => each.lag));
  const widest = [...found].sort((a, b) => b.lag - a.lag).slice(0, 24);
  return found.length ? element("div", {}, widest.map((each) => element("div", { class: "lag" },
    element("span", { title: each.topic }, each.topic + "-" + each.partition), element("progress", { max: most, value: each.lag }), element("span", {}, number(each.lag))))) :
    element("p", { class: "soft" }, "unknown: no driver reports it");
}

function facts(status) {
  const checkpoint = status.checkpoint || {}, transactions = status.transactions || {};
  return [
    ["checkpoint", checkpoint.id === undefined ? "none is completed yet" : checkpoint.id + ", " + age(checkpoint.time) + " ago, took " + number(checkpoint.durationMillis) + " ms, " + number(checkpoint.bytes) + " bytes"],
    ["transactions", number(transactions.open) + " open, " + number(transactions.committed) + " committed, " + number(transactions.aborted) + " aborted"],
    ["transactional ids", (transactions.prefix || "?") + "…"]];
}

function mark(condition) {
  const wanted = { Stalled: "False", Reconciling: "False" }[condition.type] || "True";
  return element("span", { class: condition.status === wanted ? "good" : condition.status === "Unknown" ? "soft" : "wait" }, condition.status);
}

// The loop, keys and theme

async function draw() {
  const mine = ++round;
  const [namespace, name] = location.hash.slice(1).split("/").map(decodeURIComponent);
  document.getElementById("where").textContent = name ? namespace + " / " + name : "";
  try {
    await (name ? detail(namespace, name) : list());
    said.textContent = "read at " + new Date().toLocaleTimeString("en-GB");
    said.className = "";
  } catch (error) {
    said.textContent = String(error.message || error);
    said.className = "bad";
  }
  if (mine === round) setTimeout(() => { if (mine === round) draw(); }, document.hidden ? 10 * PAUSE : PAUSE);
}

document.addEventListener("keydown", (event) => {
  const typing = event.target.tagName === "INPUT";
  if (event.key === "Escape") { if (typing) event.target.blur(); else location.hash = ""; }
  else if (event.ctrlKey || event.metaKey || event.altKey) return;
  else if (event.key === "Enter" && !location.hash.slice(1)) { const row = shown()[chosen]; if (row) open(row); }
  else if (typing) return;
  else if (event.key === "/") { const search = document.getElementById("filter"); if (search) { search.focus(); event.preventDefault(); } }
  else if (event.key === "d") toggle();
  else if ((event.key === "j" || event.key === "k") && !location.hash.slice(1)) {
    chosen += event.key === "j" ? 1 : -1;
    drawList();
    const row = document.querySelector("tr.chosen");
    if (row) row.scrollIntoView({ block: "nearest" });
  }
});

function toggle() {
  const root = document.documentElement;
  const isDark = root.classList.contains("dark") || (!root.classList.contains("light") && matchMedia("(prefers-color-scheme: dark)").matches);
  root.classList.toggle("dark", !isDark);
  root.classList.toggle("light", isDark);
}

document.getElementById("theme").addEventListener("click", toggle);
document.getElementById("home").addEventListener("click", (event) => { event.preventDefault(); location.hash = ""; });
window.addEventListener("hashchange", () => { main.replaceChildren(); draw(); });
draw();
