// The page of the cluster.
import {bytes, cores, devices, fraction, h, percent, table, age, update} from "./ui.js";
import {nodeColumn, nodeTable} from "./nodes.js";
import {heat, scale} from "./heat.js";

const kinds = {
  cpu: {title: "CPU requested", value: (n) => fraction(n.cpu)},
  memory: {title: "Memory requested", value: (n) => fraction(n.memory)},
  gpu: {title: "GPU requested", value: (n) => n.gpu[1] > 0 ? fraction(n.gpu) : null},
  usedCPU: {title: "CPU used", value: (n) => n.used ? n.used[0] / Math.max(n.cpu[1], 1) : null},
  usedMemory: {title: "Memory used", value: (n) => n.used ? n.used[1] / Math.max(n.memory[1], 1) : null},
};

const about = (n) => [n.name, n.status, "CPU " + percent(fraction(n.cpu)), "memory " + percent(fraction(n.memory)),
  n.gpu[1] > 0 ? "GPU " + devices(n.gpu[0]) + "/" + devices(n.gpu[1]) : "", n.used ? "CPU used " + percent(n.used[0] / Math.max(n.cpu[1], 1)) : "",
  n.pods[0] + "/" + n.pods[1] + " pods"].filter(Boolean).join(" · ");

const part = (u, write) => percent(fraction(u)) + " · " + write(u[0]) + "/" + write(u[1]);

function figures(c) {
  const t = c.totals;
  const list = [["nodes", t.nodes + (t.ready < t.nodes ? " (" + (t.nodes - t.ready) + " not ready)" : "")], ["pods", t.pods[0] + "/" + t.pods[1]], ["pending", t.pending],
    ["CPU", part(t.cpu, cores)], ["memory", part(t.memory, bytes)]];
  if (t.gpu[1] > 0) list.push(["GPU", part(t.gpu, devices)]);
  list.push(["CPU spread", c.cpuSpread.toFixed(3) + " std"]);
  for (const s of c.schedulers) list.push([s.name, s.rate.toFixed(1) + " bound/s, " + s.pending + " pending"]);
  return h("ul", {class: "figures"}, ...list.map(([name, value]) => h("li", {}, name + " ", h("b", {}, value))));
}

const columns = [
  nodeColumn, {id: "zone", title: "Zone", text: (n) => n.zone || "-", name: (n) => n.zone}, {id: "status", title: "Status", text: (n) => n.status, name: (n) => n.status},
  {id: "pods", title: "Pods", right: true, text: (n) => n.pods[0] + "/" + n.pods[1], value: (n) => n.pods[0]},
  {id: "cpu", title: "CPU", right: true, text: (n) => part(n.cpu, cores), value: (n) => fraction(n.cpu)},
  {id: "memory", title: "Memory", right: true, text: (n) => part(n.memory, bytes), value: (n) => fraction(n.memory)},
  {id: "gpu", title: "GPU", right: true, text: (n) => n.gpu[1] > 0 ? part(n.gpu, devices) : "-", value: (n) => fraction(n.gpu)},
];

export function cluster(main, news) {
  const top = h("div"), waiting = h("div"), state = {kind: "cpu", table: false, filter: ""};
  const map = heat("Heat map of the nodes", (name) => { location.hash = "#node/" + encodeURIComponent(name); });
  const list = nodeTable("Nodes", columns, "name");
  const select = h("select", {change: () => { state.kind = select.value; draw(); }}, ...Object.entries(kinds).map(([id, k]) => h("option", {value: id}, k.title)));
  const filter = h("input", {type: "search", size: "18", input: () => { state.filter = filter.value.toLowerCase(); draw(); }});
  const asTable = h("button", {type: "button", "aria-pressed": "false", click: () => { state.table = !state.table; draw(); }}, "As a table");
  list.element.hidden = true;
  main.append(h("h2", {}, "Cluster"), top,
    h("div", {class: "controls"}, h("label", {}, "Show ", select), h("label", {}, "Filter ", filter), asTable, h("span", {class: "muted"}, "0% ", scale(), " 100% · red: more · cross: not ready · grey: not known")),
    map.element, list.element, waiting);
  const fits = (n) => !state.filter || [n.name, n.zone, n.status, n.gpuModel || ""].some((t) => t.toLowerCase().includes(state.filter));
  function draw() {
    const c = news.cluster;
    if (!c) return;
    asTable.setAttribute("aria-pressed", String(state.table));
    map.element.hidden = state.table; list.element.hidden = !state.table;
    update(top, figures(c));
    const workers = c.nodes.some((n) => n.worker) ? c.nodes.filter((n) => n.worker) : c.nodes;
    if (state.table) list.show(c.nodes.filter(fits));
    else map.show(workers.filter(fits).map((n) => ({name: n.name, zone: n.zone, ready: n.ready, value: kinds[state.kind].value(n), about: about(n)})));
    update(waiting, ...(c.pending.length ? [table("Pending pods, the oldest first: " + c.pending.length + " of " + c.totals.pending, [
      {title: "Pod", name: true, text: (p) => p.pod}, {title: "Age", right: true, text: (p) => age(p.created)}, {title: "Scheduler", text: (p) => p.scheduler},
      {title: "Reason", text: (p) => p.reason || "-"}, {title: "Needs", text: (p) => p.needs || "-"}, {title: "Message", text: (p) => p.message || "-"},
    ], c.pending, (p) => p.pod)] : []));
  }
  draw();
  return {cluster: draw, end: map.end};
}
