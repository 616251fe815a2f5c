// What the scheduler learns.
import {h, table} from "./ui.js";
import {chart} from "./chart.js";

// totals are the counts since the scheduler began.
const totals = [
  ["To the trainer", "sent"], ["Dropped", "dropped"], ["Not bound", "unbound"], ["Overruled", "overruled"], ["Explored", "explored"], ["Pods that waited", "waited"],
  ["Updates", "updates"], ["Networks passed", "passed"], ["Networks refused", "refused"], ["Weights read", "loads"], ["Trainer restarts", "restarts"],
].map(([title, name]) => ({title, right: true, text: (now) => now[name] ?? "-"}));

export function learning(main, news) {
  const body = h("div");
  main.append(h("h2", {}, "Learning"), body);
  function draw() {
    const all = news.learning;
    if (!all) {
      body.replaceChildren(h("p", {}, "No profile of this scheduler learns. With ", h("code", {}, "--learn"), " it explores, and learns from every placement."));
      return;
    }
    const parts = [], time = (t) => new Date(t * 1000).toLocaleTimeString("en-GB");
    for (const p of all.profiles) {
      const charts = new Map();
      for (const c of p.curves) {
        const values = c.values.map((v, i) => [all.times[i], v]).filter(([, v]) => v !== null);
        charts.set(c.chart, [...charts.get(c.chart) || [], {name: c.name, about: c.about, values}]);
      }
      parts.push(h("h3", {}, p.name), table("Since the scheduler began", totals, [p.now]));
      if (p.now.read === undefined) parts.push(h("p", {class: "muted"}, "The trainer has reported nothing yet."));
      parts.push(h("div", {class: "charts"}, ...[...charts].map(([title, series]) => chart(title, series, time, true))));
    }
    body.replaceChildren(...parts);
  }
  draw();
  return {learning: draw};
}
