// Contenders that place the same arrivals at the same time, each on a cluster of its own.
import {bytes, cores, h, table} from "./ui.js";
import {chart} from "./chart.js";

export function race(main, news) {
  const verdict = h("p", {role: "status"}), charts = h("div", {class: "charts"}), waiting = h("div", {class: "charts"});
  main.append(h("h2", {}, "Race"), h("p", {class: "muted"}, "The same pods arrive in the same order on equal clusters, one for each scheduler. The cost is what waiting pods request, as a share of what the nodes offer; less is better. A pod that fits on no node waits, and is created once it fits. The other pages show the cluster of the learned scheduler."), verdict, charts, waiting);
  function draw() {
    const r = news.race;
    if (!r) { verdict.textContent = news.cluster ? "No schedulers race here; gnnsched try starts a race." : ""; return; }
    const last = (s) => s.steps.at(-1) || [0, 0, 0], lines = (k) => r.sides.map((s) => ({name: s.name, values: s.steps.map((v) => [v[0], v[k]])}));
    verdict.replaceChildren(...r.sides.map((s) => h("span", {}, h("b", {}, s.name), ": " + last(s)[0] + " of " + r.arrivals + " pods have arrived, " + s.waiting.length + (s.waiting.length === 1 ? " waits" : " wait") + ", mean cost " + s.mean.toFixed(4) + (s.done ? ", done. " : ". "))),
      ...(r.first ? [h("br"), "They differ first in decision " + r.first.decision + ", about pod ", h("b", {}, r.first.pod), ": " + r.sides[1].name + " chose " + r.first.node + ", where " + r.sides[0].name + " would have chosen " + r.first.other + ". ", h("a", {href: r.first.sandbox}, "That decision in the sandbox")] : []));
    charts.replaceChildren(chart("Cost after each arrival", lines(1), Math.round), chart("Pods that wait", lines(2), Math.round));
    waiting.replaceChildren(...r.sides.map((s) => table(s.name + ": " + (s.waiting.length ? "these wait" : "no pod waits"), [
      {title: "Pod", name: true, text: (p) => p.pod}, {title: "CPU", right: true, text: (p) => cores(p.cpu)}, {title: "Memory", right: true, text: (p) => bytes(p.memory)}], s.waiting)));
  }
  draw();
  return {race: draw, cluster: draw};
}
