// What the scheduler learns.
import {h, table} from "./ui.js";
import {chart} from "./chart.js";

export function learning(main, news) {
  const body = h("div");
  main.append(h("h2", {}, "Learning"), body);
  function draw() {
    const samples = news.learning;
    if (!samples?.length) {
      body.replaceChildren(h("p", {}, "No profile of this scheduler learns. With ", h("code", {}, "--learn"), " it explores, and learns from every placement."));
      return;
    }
    const parts = [], now = samples.at(-1).profiles;
    for (const name of Object.keys(now).sort()) {
      const own = samples.filter((x) => x.profiles[name]).map((x) => [Date.parse(x.time), x.profiles[name]]);
      const rate = (field) => own.slice(1).map(([t, v], i) => [t, Math.max(0, (v[field] - own[i][1][field]) / Math.max(t - own[i][0], 1) * 60000)]);
      const level = (field) => own.filter(([, v]) => v[field] !== undefined).map(([t, v]) => [t, v[field]]);
      const p = now[name], time = (t) => new Date(t).toLocaleTimeString("en-GB");
      const charts = [
        chart("Placements a minute", [{name: "to the trainer", values: rate("sent")}, {name: "dropped", values: rate("dropped")}, {name: "not bound", values: rate("unbound")}], time),
        chart("Random decisions a minute", [{name: "explored", values: rate("explored")}], time),
        chart("Weights read from the trainer", [{name: "in all", values: level("loads")}], time),
      ];
      if (p.epsilon !== undefined) charts.push(chart("Probability of a random decision", [{name: "epsilon", values: level("epsilon")}], time));
      parts.push(h("h3", {}, name), table("Since the scheduler began", [
        {title: "To the trainer", right: true, text: (v) => v.sent}, {title: "Dropped", right: true, text: (v) => v.dropped}, {title: "Not bound", right: true, text: (v) => v.unbound}, {title: "Overruled", right: true, text: (v) => v.overruled},
        {title: "Explored", right: true, text: (v) => v.explored}, {title: "Pods that waited", right: true, text: (v) => v.waited}, {title: "Weights read", right: true, text: (v) => v.loads}, {title: "Trainer restarts", right: true, text: (v) => v.restarts},
      ], [p]), h("div", {class: "charts"}, ...charts));
    }
    body.replaceChildren(...parts);
  }
  draw();
  return {learning: draw};
}
