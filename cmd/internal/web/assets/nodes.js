// Lists of nodes, and the page of what nodes use beside what pods request of them.
import {bytes, clock, cores, fraction, h, natural, nodeLink, percent, share, table, update} from "./ui.js";

const perPage = 100;

// nodeTable lists nodes, a part at a time. A column has an id, and value(node) or name(node) to sort by; first is the id of the column that
// the list is sorted by at first.
export function nodeTable(caption, columns, first) {
  const element = h("div");
  let sort = columns.find((c) => c.id === first), down = Boolean(sort.value), from = 0, nodes = [];
  const choose = (c) => () => { down = sort === c ? !down : Boolean(c.value); sort = c; draw(); };
  const step = (by) => () => { from += by; draw(); };
  function draw() {
    const order = sort.value ? (a, b) => sort.value(a) - sort.value(b) : (a, b) => natural(sort.name(a), sort.name(b));
    const all = nodes.toSorted((a, b) => (down ? -1 : 1) * order(a, b) || natural(a.name, b.name));
    from = Math.min(from, Math.max(0, Math.floor((all.length - 1) / perPage) * perPage));
    const headed = columns.map((c) => ({...c, name: c.link, head: h("button", {type: "button", click: choose(c)}, c.title + (sort === c ? down ? " ▼" : " ▲" : ""))}));
    update(element, table(caption, headed, all.slice(from, from + perPage), (n) => n.name), h("div", {class: "controls"},
      h("button", {type: "button", disabled: from === 0, click: step(-perPage)}, "Previous"), (all.length ? from + 1 : 0) + " to " + Math.min(from + perPage, all.length) + " of " + all.length,
      h("button", {type: "button", disabled: from + perPage >= all.length, click: step(perPage)}, "Next")));
  }
  return {element, show(list) { nodes = list; draw(); }};
}

// nodeColumn is the column of the nodes' names.
export const nodeColumn = {id: "name", title: "Node", link: true, node: (n) => nodeLink(n.name), name: (n) => n.name};

const used = (n, i) => n.used ? fraction([n.used[i], (i ? n.memory : n.cpu)[1]]) : null;
const column = (id, title, f) => ({id, title, right: true, node: (n) => share(f(n)), value: (n) => f(n) ?? -1});
const usedColumns = [
  nodeColumn, column("cpu", "CPU requested", (n) => fraction(n.cpu)), column("usedCPU", "CPU used", (n) => used(n, 0)),
  column("memory", "Memory requested", (n) => fraction(n.memory)), column("usedMemory", "Memory used", (n) => used(n, 1)),
];

// usage is the page of used beside requested, the node that uses most CPU first.
export function usage(main, news) {
  const sum = h("p"), scored = h("section"), list = nodeTable("Of what is allocatable; a dash: the node is not measured", usedColumns, "usedCPU");
  const filter = h("input", {type: "search", size: "18", input: () => draw()});
  main.append(h("h2", {}, "Used beside requested"), sum, scored, h("div", {class: "controls"}, h("label", {}, "Filter ", filter)), list.element);
  function draw() {
    if (!news.cluster) return;
    const nodes = news.cluster.nodes, workers = nodes.filter((n) => n.worker), of = workers.length ? workers : nodes, measured = of.filter((n) => n.used);
    const part = (name, i, all, write) => { const v = measured.reduce((s, n) => s + n.used[i], 0); return name + " " + percent(fraction([v, all[1]])) + " " + write(v) + "/" + write(all[1]); };
    const {cpu, memory} = news.cluster.totals;
    sum.textContent = !measured.length ? "No node is measured: metrics.k8s.io does not answer." :
      "Used " + [part("CPU", 0, cpu, cores), part("memory", 1, memory, bytes), ...(measured.length < of.length ? [measured.length + " of " + of.length + " nodes measured"] : [])].join(" · ");
    list.show(nodes.filter((n) => [n.name, n.zone, n.status].some((t) => t.toLowerCase().includes(filter.value.toLowerCase()))));
  }
  // reports says by what the scheduler scores the nodes.
  function reports() {
    update(scored, ...(news.usage || []).map((r) => h("p", {class: r.failed || r.degraded ? "warn" : null},
      "The scheduler scores " + r.measured + " of " + (r.measured + r.degraded) + " nodes by the usage that " + r.source + " measures; " +
      (r.newest ? "the newest value is from " + clock(r.newest * 1000) + ", asked at " + clock(r.polled * 1000) : "it has measured nothing yet") + (r.failed ? ", without an answer" : "") + "." +
      (r.degraded ? " By requests: " + r.named.map((d) => d.node + " (" + d.reason + ")").join(", ") + (r.degraded > r.named.length ? " and " + (r.degraded - r.named.length) + " more" : "") + "." : ""))));
  }
  draw();
  reports();
  return {cluster: draw, usage: reports};
}
