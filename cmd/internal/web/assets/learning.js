// What the scheduler learns.
import {h, table, update} from "./ui.js";
import {chart} from "./chart.js";

export function learning(main, news) {
  const body = h("div");
  main.append(h("h2", {}, "Learning"), body);
  function draw() {
    const all = news.learning;
    if (!all) {
      update(body, h("p", {}, "No profile of this scheduler learns. With ", h("code", {}, "--learn"), " it explores, and learns from every placement."));
      return;
    }
    const parts = [], time = (t) => new Date(t * 1000).toLocaleTimeString("en-GB");
    for (const p of all.profiles) {
      const charts = new Map();
      for (const c of p.curves) {
        const values = c.values.map((v, i) => [all.times[i], v]).filter(([, v]) => v !== null);
        charts.set(c.chart, [...charts.get(c.chart) || [], {name: c.name, about: c.about, values}]);
      }
      parts.push(h("h3", {}, p.name), table("Since the scheduler began", p.totals.map((t) => ({title: t.title, right: true, text: () => t.count ?? "-"})), [p]));
      if (!p.reported) parts.push(h("p", {class: "muted"}, "The trainer has reported nothing yet."));
      parts.push(h("div", {class: "charts"}, ...[...charts].map(([title, series]) => chart(title, series, time, true))));
    }
    update(body, ...parts);
  }
  draw();
  return {learning: draw};
}
