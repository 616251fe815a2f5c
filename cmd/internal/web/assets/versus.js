// Two profiles of the scheduler side by side, or one beside another scheduler, which the API knows by the pods that it has bound.
import {every, get, h, micro, table, update} from "./ui.js";
import {decisionColumns} from "./decisions.js";
import {median, passes, tallies, tally} from "./tally.js";

const shown = 100;
const rounded = (v) => v === undefined ? "-" : String(Number(v.toPrecision(3)));

// measures compare the profiles; s is what the cluster says of the scheduler with the profile's name, and p what it has placed. They are
// all that is known of a scheduler that has told no decisions.
const counted = [
  ["bound now", (t, s, p) => p ? p.bound + " on " + p.nodes + (p.nodes === 1 ? " node" : " nodes, most " + p.most) : "0"],
  ["bound/s now", (t, s) => s ? s.rate.toFixed(1) : "0.0"], ["pending now", (t, s) => s ? s.pending : 0],
];
const measures = [
  ["decisions", (t) => t.list.length], ...counted, ["no node", (t) => t.none],
  ["as the default", (t) => t.asked ? t.same + " of " + t.asked : "-"], ["fallbacks", (t) => t.fell], ["nodes used", (t) => t.nodes.size], ["most on a node", (t) => Math.max(0, ...t.nodes.values())],
  ["median margin", (t) => rounded(median(t.margins))], ["median latency", (t) => micro(median(t.latencies))],
];

export function versus(main, news) {
  const body = h("div"), columns = (...titles) => decisionColumns(true).filter((c) => titles.includes(c.title)), abort = new AbortController();
  let placed = [];
  const filter = h("input", {type: "search", size: "24", input: () => draw()}), picked = ["", ""];
  const sides = picked.map((_, i) => h("select", {"aria-label": i ? "Profile at the right" : "Profile at the left", change: (e) => { picked[i] = e.target.value; draw(); }}));
  main.append(h("h2", {}, "Side by side"), h("p", {class: "muted"}, "Two profiles of this scheduler by the last decisions, or one beside another scheduler by the pods that it has bound, the newest first. Scores of two policies have different scales, and so have their margins."),
    h("div", {class: "controls"}, h("label", {}, "Profiles ", sides[0]), sides[1], h("label", {}, "Filter ", filter)), body);
  function draw() {
    const records = news.decisions?.records || [], told = tallies(records), fits = passes(filter.value);
    const others = placed.filter((p) => !told.some((t) => t.profile === p.scheduler)).map((p) => ({...tally(p.scheduler), counted: true, list: p.last}));
    const all = [...told, ...others];
    if (!all.length) {
      update(body, h("p", {class: "muted"}, news.cluster && !news.cluster.decides ? "The scheduler was started with --decisions 0, and keeps none." : "The scheduler has decided nothing yet."));
      return;
    }
    const found = [...tallies(records.filter(fits)), ...others.map((t) => ({...t, list: t.list.filter(fits)}))], names = all.map((t) => t.profile).sort();
    const most = [...found, ...all].map((t) => t.profile).filter((name, i, all) => all.indexOf(name) === i && !picked.includes(name));
    const both = picked[0] || picked[1] ? picked.map((name) => name || most.shift()) : most.slice(0, 2).sort(); // so that they do not change sides
    sides.forEach((select, i) => {
      update(select, ...names.map((name) => h("option", {value: name}, name)));
      select.value = both[i] || "";
    });
    const two = both.filter(Boolean).map((name) => found.find((t) => t.profile === name) || tally(name));
    const title = (t) => t.profile + (t.counted ? " (bound pods)" : "");
    const value = ([name, of], t) => t.counted && !counted.some((m) => m[0] === name) ? "-" : of(t, news.cluster?.schedulers.find((s) => s.name === t.profile), placed.find((p) => p.scheduler === t.profile));
    update(body,
      table(two.length < 2 ? "Only one profile has decided" : "By these decisions", [{title: "", text: ([name]) => name}, ...two.map((t) => ({title: title(t), right: true, text: (m) => value(m, t)}))], measures),
      h("div", {class: "charts"}, ...two.map((t) => table(title(t) + ": " + (t.list.length > shown ? "the last " + shown + " of " : "") + t.list.length,
        t.counted ? columns("Time", "Pod", "Node") : columns("Time", "Pod", "Node", "Margin", "Default"), t.list.slice(0, shown), (r) => [r.uid, r.namespace, r.pod, r.time].join(" ")))));
  }
  const end = every(5000, async () => {
    try { placed = (await get("api/placed", abort.signal)).rows; } catch { return; /* the line above the page says so */ }
    draw();
  });
  draw();
  return {decisions: draw, cluster: draw, end() { end(); abort.abort(); }};
}
