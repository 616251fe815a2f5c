// The pages that ask the server every few seconds: a node and the events.
import {age, bytes, clock, cores, devices, every, get, h, percent, share, table, update} from "./ui.js";
import {decisionColumns} from "./decisions.js";

// rebuild is update for what holds rows that the reader has opened: it waits while the reader is in it.
const rebuild = (body, ...children) => { if (!body.querySelector(":focus")) body.replaceChildren(...children); };

// asking fills body with what draw makes of the answer of path, again and again.
export function asking(body, path, draw, put = update) {
  const abort = new AbortController();
  const end = every(5000, async () => {
    try {
      put(body, ...draw(await get(path, abort.signal)));
    } catch (e) {
      if (!abort.signal.aborted) body.replaceChildren(h("p", {class: "bad"}, e.message));
    }
  });
  return {end() { end(); abort.abort(); }};
}

// cards lists the GPUs of a node and who has them: whole, in shares, or in partitions.
const cards = (list) => table("GPUs: " + list.length, [
  {title: "GPU", node: (c) => c.name || String(list.indexOf(c))}, {title: "Requested", right: true, node: (c) => share(c.requested / 1000)}, {title: "In partitions", text: (c) => c.partitions ? "yes" : "-"},
  {title: "By", node: (c) => lines(parts(c))},
], list);

// parts says who has how much of a GPU, a line each.
export function parts(c) {
  const lines = c.parts.map((p) => [p.pod || "no pod on this node", percent(p.gpu / 1000), ...(p.device && p.device !== c.name ? ["partition " + p.device] : []), ...(p.claim ? ["claim " + p.claim] : [])].join(" · "));
  if (c.unnamed > 0) lines.push("pods that name no device · " + percent(c.unnamed / 1000));
  if (c.more) lines.push(c.more + " more");
  return lines;
}
export const lines = (list) => list.length ? h("ul", {class: "lines"}, ...list.map((l) => h("li", {}, l))) : "-";

export const part = (rows, total) => rows.length < total ? rows.length + " of " + total : String(total);

export function node(main, news, name) {
  const figures = h("p"), body = h("div");
  main.append(h("p", {}, h("a", {href: "#cluster"}, "Cluster")), h("h2", {}, "Node " + name), figures, body);
  function cluster() {
    const n = news.cluster?.nodes.find((x) => x.name === name);
    if (!news.cluster) return;
    figures.textContent = !n ? "There is no such node now." : [n.status, "CPU " + cores(n.cpu[0]) + "/" + cores(n.cpu[1]), "memory " + bytes(n.memory[0]) + "/" + bytes(n.memory[1]),
      n.gpu[1] ? "GPU " + devices(n.gpu[0]) + "/" + devices(n.gpu[1]) + (n.gpuModel ? " " + n.gpuModel : "") : "",
      n.pods[0] + "/" + n.pods[1] + " pods", n.zone ? "zone " + n.zone : ""].filter(Boolean).join(" · ");
  }
  cluster();
  const asked = asking(body, "api/node?" + new URLSearchParams({name}), (d) => [
    ...(d.cards.length ? [cards(d.cards), h("p")] : []),
    table(news.shadow ? "Last pods that would go to this node" : "Last decisions for this node", decisionColumns(false, Boolean(news.shadow)), d.decisions),
    h("p"),
    table("Pods: " + part(d.pods.rows, d.pods.total), [
      {title: "Pod", name: true, text: (p) => p.pod}, {title: "Workload", text: (p) => p.workload || "-"}, {title: "CPU", right: true, text: (p) => cores(p.cpu)}, {title: "Memory", right: true, text: (p) => bytes(p.memory)},
      {title: "GPU", right: true, text: (p) => p.gpu ? devices(p.gpu) + (p.devices ? " on " + p.devices.join(",") : "") : "-"}, {title: "Age", right: true, text: (p) => age(p.created)}, {title: "Scheduler", text: (p) => p.scheduler},
    ], d.pods.rows),
  ], rebuild);
  return {cluster, end: asked.end};
}

export function events(main) {
  const body = h("div");
  main.append(h("h2", {}, "Events"), body);
  return asking(body, "api/events", (d) => [
    ...(d.error ? [h("p", {class: "bad"}, d.error)] : []),
    table("The newest first: " + part(d.rows, d.total), [
      {title: "Time", text: (e) => clock(e.time)}, {title: "Reason", node: (e) => h("span", {class: e.type === "Warning" ? "warn" : null}, e.reason)}, {title: "Object", name: true, text: (e) => e.object},
      {title: "Message", text: (e) => e.message}, {title: "From", text: (e) => e.from}, {title: "Count", right: true, text: (e) => e.count},
    ], d.rows),
  ]);
}
