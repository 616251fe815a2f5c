// Two profiles of the scheduler side by side.
import {h, micro, table, update} from "./ui.js";
import {decisionColumns} from "./decisions.js";
import {median, passes, tallies, tally} from "./tally.js";

const shown = 100;
const rounded = (v) => v === undefined ? "-" : String(Number(v.toPrecision(3)));

// measures compare the profiles; s is what the cluster says of the scheduler with the profile's name.
const measures = [
  ["decisions", (t) => t.list.length], ["bound/s now", (t, s) => s ? s.rate.toFixed(1) : "0.0"], ["pending now", (t, s) => s ? s.pending : 0], ["no node", (t) => t.none],
  ["as the default", (t) => t.asked ? t.same + " of " + t.asked : "-"], ["fallbacks", (t) => t.fell], ["nodes used", (t) => t.nodes.size], ["most on a node", (t) => Math.max(0, ...t.nodes.values())],
  ["median margin", (t) => rounded(median(t.margins))], ["median latency", (t) => micro(median(t.latencies))],
];

export function versus(main, news) {
  const body = h("div"), columns = decisionColumns(true).filter((c) => ["Time", "Pod", "Node", "Margin", "Default"].includes(c.title));
  const filter = h("input", {type: "search", size: "24", input: () => draw()}), picked = ["", ""];
  const sides = picked.map((_, i) => h("select", {"aria-label": i ? "Profile at the right" : "Profile at the left", change: (e) => { picked[i] = e.target.value; draw(); }}));
  main.append(h("h2", {}, "Side by side"), h("p", {class: "muted"}, "Two profiles of this scheduler by the last decisions, the newest first. Scores of two policies have different scales, and so have their margins."),
    h("div", {class: "controls"}, h("label", {}, "Profiles ", sides[0]), sides[1], h("label", {}, "Filter ", filter)), body);
  function draw() {
    const records = news.decisions?.records || [], every = tallies(records);
    if (!every.length) {
      update(body, h("p", {class: "muted"}, news.cluster && !news.cluster.decides ? "The scheduler was started with --decisions 0, and keeps none." : "The scheduler has decided nothing yet."));
      return;
    }
    const found = tallies(records.filter(passes(filter.value))), names = every.map((t) => t.profile).sort();
    const most = [...found, ...every].map((t) => t.profile).filter((name, i, all) => all.indexOf(name) === i && !picked.includes(name));
    const both = picked[0] || picked[1] ? picked.map((name) => name || most.shift()) : most.slice(0, 2).sort(); // so that they do not change sides
    sides.forEach((select, i) => {
      update(select, ...names.map((name) => h("option", {value: name}, name)));
      select.value = both[i] || "";
    });
    const two = both.filter(Boolean).map((name) => found.find((t) => t.profile === name) || tally(name));
    const scheduler = (t) => news.cluster?.schedulers.find((s) => s.name === t.profile);
    update(body,
      table(two.length < 2 ? "Only one profile has decided" : "By these decisions", [{title: "", text: ([name]) => name}, ...two.map((t) => ({title: t.profile, right: true, text: ([, of]) => of(t, scheduler(t))}))], measures),
      h("div", {class: "charts"}, ...two.map((t) => table(t.profile + ": " + (t.list.length > shown ? "the last " + shown + " of " : "") + t.list.length, columns, t.list.slice(0, shown), (r) => r.uid + " " + r.time))));
  }
  draw();
  return {decisions: draw, cluster: draw};
}
