// What a scheduler in the shadow of another one has found.
import {chart} from "./chart.js";
import {clock, h, nodeLink, percent, short, table, update} from "./ui.js";

const signed = (v) => (v > 0 ? "+" : "") + Number(v.toPrecision(3));
const interval = (e, sign) => e ? `${signed(sign * e.mean)} (${signed(Math.min(sign * e.low, sign * e.high))} to ${signed(Math.max(sign * e.low, sign * e.high))})` : "not yet known";

export function shadow(main, news) {
  const body = h("div");
  main.append(h("h2", {}, "In the shadow"), body);
  function draw() {
    const r = news.shadow;
    if (!r) {
      update(body, h("p", {}, "This scheduler places pods itself. With ", h("code", {}, "--shadow"), " it places nothing, and says what it would do."));
      return;
    }
    const c = r.counts, whole = r.whole, named = Object.fromEntries(r.results.map((x) => [x.what, x]));
    let t = Date.parse(r.from);
    const course = r.course.map((b) => [t += b.seconds * 1000, b]), time = (x) => new Date(x).toLocaleTimeString("en-GB");
    const costs = [
      ["cost", whole.theirs, whole.ours, interval(r.gain, -1)],
      ["pods waiting", whole.theirsWaiting, whole.oursWaiting, interval(r.moreWaiting, 1)],
    ];
    update(body,
      h("p", {}, h("strong", {class: r.verdict.answer === "safe to switch" ? "good" : "warn"}, r.verdict.answer.toUpperCase()), ` · ${r.profile} in the shadow of ${r.of.join(", ")} since ${clock(r.from)}, by ${r.objective}`),
      h("ul", {}, ...[...r.verdict.why || [], ...r.verdict.notes || []].map((line) => h("li", {}, line))),
      table("Mean over the time, with the 95 % interval of the difference", [
        {title: "", text: (x) => x[0]}, {title: "Real", right: true, text: (x) => Number(x[1].toPrecision(4))}, {title: "With " + r.profile, right: true, text: (x) => Number(x[2].toPrecision(4))}, {title: "Difference", right: true, text: (x) => x[3]},
      ], costs),
      table(`Pods: ${c.bound} bound by ${r.of.join(", ")}, ${c.compared} compared; agreement ${percent(r.agreement)}`, [
        {title: r.profile + " would choose", text: (x) => x.text}, {title: "Pods", right: true, text: (x) => x.pods}, {title: "Share", right: true, text: (x) => c.compared ? percent(x.share) : "-"},
      ], r.results),
      h("p", {class: "muted"}, `One step from the real state: better ${r.oneStep.better}, equal ${r.oneStep.equal}, worse ${r.oneStep.worse}. A decision takes ${short(r.time.median * 1000)} ms, 99 % within ${short(r.time.p99 * 1000)} ms. ` +
        `${c.fallbacks} were made by upstream's scores after a failure; waiting now with ${r.profile}: ${c.waitingOurs}.`),
      h("div", {class: "charts"},
        chart("Cost", [{name: "real", values: course.map(([x, b]) => [x, b.theirs])}, {name: "with " + r.profile, values: course.map(([x, b]) => [x, b.ours])}], time, true),
        chart("Pods waiting", [{name: "real", values: course.map(([x, b]) => [x, b.theirsWaiting])}, {name: "with " + r.profile, values: course.map(([x, b]) => [x, b.oursWaiting])}], time)),
      table("The last bindings", [
        {title: "Time", text: (x) => clock(x.time)}, {title: "Pod", name: true, text: (x) => x.pod}, {title: "Node", node: (x) => nodeLink(x.theirs)}, {title: r.profile + " would choose", node: (x) => x.node ? nodeLink(x.node) : h("span", {class: "warn"}, "none")},
        {title: "Result", node: (x) => h("span", {class: named[x.what]?.fails ? "bad" : null}, (named[x.what]?.text || x.what) + (x.why ? ": " + x.why : ""))},
        {title: "Cost saved", right: true, text: (x) => x.what === "different" ? signed(x.gained) : ""}, {title: "ms", right: true, text: (x) => short(x.took * 1000)},
      ], r.recent, (x) => x.pod + " " + x.time),
    );
  }
  draw();
  return {shadow: draw};
}
