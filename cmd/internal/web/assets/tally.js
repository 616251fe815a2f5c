// What the decisions of each profile come to.

// passes makes a filter of decisions: each word of the text must occur in one of the fields.
export const passes = (text) => {
  const terms = text.toLowerCase().split(/\s+/);
  return (r) => terms.every((term) => [r.namespace + "/" + r.pod, r.node, r.runnerUp, r.profile, r.policy, r.outcome, r.really, r.failure].some((t) => (t || "").toLowerCase().includes(term)));
};

// median is the upper one of two; undefined for none.
export const median = (list) => list.toSorted((a, b) => a - b)[Math.floor(list.length / 2)];

// tally makes the sum of no decisions. latencies and margins are those of the decisions that have one, and nodes counts the bound pods of
// each node.
export const tally = (profile) => ({profile, list: [], asked: 0, same: 0, none: 0, fell: 0, latencies: [], margins: [], nodes: new Map()});

// tallies sums up the decisions of each profile, the one with the most first.
export function tallies(records) {
  const all = new Map();
  for (const r of records) {
    const t = all.get(r.profile) || tally(r.profile);
    all.set(r.profile, t);
    t.list.push(r);
    if (r.latencyMicroseconds > 0) t.latencies.push(r.latencyMicroseconds);
    if (r.margin !== undefined) t.margins.push(r.margin);
    if (r.default) { t.asked++; if (r.default.node === r.node) t.same++; }
    if (r.fallback) t.fell++;
    if (!r.node) t.none++;
    if (r.outcome === "bound" || r.outcome === "shadow") t.nodes.set(r.node, (t.nodes.get(r.node) || 0) + 1);
  }
  return [...all.values()].sort((a, b) => b.list.length - a.list.length || (a.profile < b.profile ? -1 : 1));
}
