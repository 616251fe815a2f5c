// The stream of decisions.
import {clock, get, h, micro, nodeLink, table, tableRow} from "./ui.js";
import {median, passes, tallies} from "./tally.js";

const kept = 1000, shown = 200; // kept as in scheduler/decision

const key = (r) => [r.uid, r.time, r.profile, r.number].join(" ");

// newest are at most n records, of which at most half found no node: pods that wait are tried again and again.
const newest = (records, n) => {
  let none = 0;
  return records.filter((r) => r.node || none++ < n / 2).slice(0, n);
};

// take adds the decisions of a message to those that are kept, the newest first. A stream that begins again repeats some.
export function take(known, message) {
  const begun = !known || message.total < known.total, old = begun ? [] : known.records, has = new Set(old.map(key));
  const fresh = message.records.filter((r) => !has.has(key(r)));
  return {total: message.total, fresh, begun, records: newest(fresh.concat(old), kept)};
}

const chosen = (r) => !r.node ? "none" : r.outcome === "bound" || r.outcome === "shadow" ? nodeLink(r.node) : h("span", {class: "warn"}, r.node + " (" + r.outcome + ")");
const byDefault = (r) => !r.default ? "-" : r.default.node === r.node ? "same" : r.default.node;
const policy = (r) => r.fallback ? "fallback: " + r.fallback : !r.policy && r.feasible === 1 ? "only node" : r.policy || "-";
const refused = (r) => r.node ? "" : r.refused?.length ? r.refused[0].nodes + " " + r.refused[0].reason : r.failure || "";

// why is a button that opens the decision's explanation below its row.
function why(r) {
  const button = h("button", {type: "button", class: "link", "aria-expanded": "false", click: async () => {
    const row = button.closest("tr");
    if (button.getAttribute("aria-expanded") === "true") {
      button.setAttribute("aria-expanded", "false");
      return row.nextElementSibling?.classList.contains("why") && row.nextElementSibling.remove();
    }
    button.setAttribute("aria-expanded", "true");
    let text;
    try { text = (await get("api/decision?" + new URLSearchParams({uid: r.uid, time: r.time}))).why; } catch (e) { text = e.message; }
    if (button.getAttribute("aria-expanded") === "true") row.after(h("tr", {class: "why"}, h("td", {colspan: "12"}, h("pre", {}, text))));
  }}, "why");
  return button;
}

// decisionColumns are those of decisions. Of those in the shadow of another scheduler they say where the pods would go, and where they really are.
export function decisionColumns(withNode, inShadow) {
  return [
    {title: "Time", text: (r) => clock(r.time)},
    {title: "Pod", name: true, text: (r) => r.namespace + "/" + r.pod},
    ...(withNode ? [{title: inShadow ? "Would go to" : "Node", name: true, node: chosen}] : []),
    ...(inShadow ? [{title: "Really on", name: true, node: (r) => r.really ? nodeLink(r.really) : "-"}] : []),
    {title: "Margin", right: true, text: (r) => r.margin === undefined ? "-" : Number(r.margin.toPrecision(3))},
    {title: "Runner-up", text: (r) => r.runnerUp || "-"},
    {title: "Default", node: (r) => h("span", {class: r.default && r.default.node !== r.node ? "warn" : "muted"}, byDefault(r))},
    {title: "Latency", right: true, text: (r) => micro(r.latencyMicroseconds)},
    {title: "Policy", text: policy},
    {title: "Fits", right: true, text: (r) => r.feasible + "/" + (r.nodes || "?")},
    {title: "Why not", text: refused},
    {title: "", node: why},
  ];
}

// summary sums up the decisions of each profile.
const summary = (records) => tallies(records).map((t) => [t.profile + " " + t.list.length, t.asked ? "as default " + t.same + " of " + t.asked : "", t.none ? "no node " + t.none : "", t.fell ? "fallback " + t.fell : "",
  t.latencies.length ? "median " + micro(median(t.latencies)) : ""].filter(Boolean).join(" · ")).join("; ");

export function decisions(main, news) {
  const sum = h("p", {class: "muted"}), body = h("div");
  let paused = false, rows = null, columns;
  const filter = h("input", {type: "search", size: "24", input: () => rebuild()});
  const pause = h("button", {type: "button", "aria-pressed": "false", click: () => { paused = !paused; pause.setAttribute("aria-pressed", String(paused)); if (!paused) rebuild(); }}, "Pause");
  main.append(h("h2", {}, "Decisions"), h("p", {class: "muted"}, "The newest first. Margin: how far the best node that was not chosen is behind, in the policy's scores. Default: what kube-scheduler's default profile would have chosen; a dash: it was not asked."),
    h("div", {class: "controls"}, h("label", {}, "Filter ", filter), pause), sum, body);
  const fits = () => passes(filter.value);
  function note() {
    const all = news.decisions?.records || [];
    sum.textContent = all.length ? summary(all.filter(fits())) || "no decision passes the filter" :
      news.cluster && !news.cluster.decides ? "the scheduler was started with --decisions 0, and keeps none" : "the scheduler has decided nothing yet";
  }
  function row(r) {
    const tr = tableRow(columns, r);
    tr.toggleAttribute("data-none", !r.node);
    return tr;
  }
  function rebuild() {
    const all = newest((news.decisions?.records || []).filter(fits()), shown);
    columns = decisionColumns(true, Boolean(news.shadow));
    const t = table("Decisions of the scheduler", columns, []);
    rows = t.querySelector("tbody");
    rows.append(...all.map(row));
    body.replaceChildren(t);
    note();
  }
  rebuild();
  return {
    cluster: note,
    shadow() { if (!columns.some((c) => c.title === "Would go to")) rebuild(); },
    decisions({fresh, begun}) {
      if (paused) return;
      if (begun) return rebuild();
      rows.prepend(...newest(fresh.filter(fits()), shown).map(row));
      for (const old of [...rows.querySelectorAll("tr[data-none]")].slice(shown / 2)) {
        if (old.nextElementSibling?.classList.contains("why")) old.nextElementSibling.remove();
        old.remove();
      }
      while (rows.rows.length > shown) rows.lastElementChild.remove();
      note();
    },
  };
}
