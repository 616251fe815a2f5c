// The pages of pending pods and of GPUs, which the server searches with ktop's filter.
import {age, devices, h, nodeLink, percent, table} from "./ui.js";
import {asking, lines, part, parts} from "./details.js";

// searching is a page that asks the server for what passes the reader's filter.
function searching(main, title, about, path, draw) {
  const body = h("div"), filter = h("input", {type: "search", size: "24", input: () => { asked.end(); asked = ask(); }});
  const ask = () => asking(body, path + "?" + new URLSearchParams({filter: filter.value}), draw);
  main.append(h("h2", {}, title), h("p", {class: "muted"}, about), h("div", {class: "controls"}, h("label", {}, "Filter ", filter)), body);
  let asked = ask();
  return {end: () => asked.end()};
}

const empty = (all, none, hidden) => [h("p", {}, all ? hidden : none)];

export const pending = (main) => searching(main, "Pending pods", "Pods without a node. The reasons are the scheduler's; a pod that waits for several counts for each of them.", "api/pending", (d) => !d.pods.total ? empty(d.all, "No pod is pending.", "No pending pod passes the filter.") : [
  table("Why they wait: " + part(d.causes.rows, d.causes.total), [
    {title: "Reason", name: true, text: (c) => c.reason}, {title: "Pods", right: true, text: (c) => c.pods}, {title: "Nodes that it excludes", right: true, text: (c) => c.nodes || "-"},
  ], d.causes.rows, (c) => c.reason),
  h("p"),
  table("The oldest first: " + part(d.pods.rows, d.pods.total), [
    {title: "Pod", name: true, text: (p) => p.pod}, {title: "Workload", name: true, text: (p) => p.workload || "-"}, {title: "Waits", right: true, text: (p) => age(p.created)}, {title: "Scheduler", text: (p) => p.scheduler},
    {title: "Reason", name: true, text: (p) => p.reason || "-"}, {title: "Message", text: (p) => p.message || (p.reason ? "-" : "no scheduler has tried it yet")},
  ], d.pods.rows, (p) => p.pod),
]);

const given = (gpu) => devices(gpu[0]) + "/" + devices(gpu[1]);

export const gpus = (main) => searching(main, "GPU devices", "How much of each device is given, in per cent, and to whom: whole devices, shares, partitions and claims. A dot: idle.", "api/devices", (d) => !d.nodes.total ? empty(d.all, "No node has GPUs.", "No node with GPUs passes the filter.") : [
  h("ul", {class: "figures"}, ...d.models.rows.map((m) => h("li", {}, (m.name || "GPUs") + " ", h("b", {}, given(m.gpu))))),
  table("By name: " + part(d.nodes.rows, d.nodes.total), [
    {title: "Node", name: true, node: (n) => nodeLink(n.node)}, {title: "Model", text: (n) => n.model || "-"}, {title: "Given", right: true, text: (n) => given(n.gpu)},
    {title: "% of each device", text: (n) => n.cards.map((c) => c.requested ? percent(c.requested / 1000).slice(0, -1) : "·").join(" ")},
    {title: "To", name: true, node: (n) => lines(n.cards.flatMap((c, i) => parts(c).map((line) => (c.name || i) + ": " + line)))},
  ], d.nodes.rows, (n) => n.node),
]);
