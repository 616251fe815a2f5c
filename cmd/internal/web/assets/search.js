// The page of pending pods, which the server searches with ktop's filter.
import {age, h, table} from "./ui.js";
import {asking, part} from "./details.js";

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
