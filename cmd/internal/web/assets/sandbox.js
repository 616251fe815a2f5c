// The sandbox: a small simulated cluster, played decision by decision.
import {bytes, cores, devices, fraction, get, h, percent, table} from "./ui.js";
import {heat, scale} from "./heat.js";
import {chart} from "./chart.js";

const groups = [
  {label: "small", cpu: 16, memory: 64, gpus: 0, count: 6}, {label: "medium", cpu: 32, memory: 128, gpus: 0, count: 3},
  {label: "large", cpu: 64, memory: 256, gpus: 0, count: 1}, {label: "with GPUs", cpu: 96, memory: 384, gpus: 8, count: 0},
];
const empty = () => ({nodes: [], steps: [], end: null, places: [], names: []});

// number and choice make a labelled control. fault() says what is wrong with it, in the words and units of its label.
function number(label, value, props, changed) {
  const input = h("input", {type: "number", value, title: props.min + " to " + props.max, ...props, input: changed});
  const whole = !(props.step < 1), range = props.min + " to " + props.max;
  return {
    input, element: h("label", {}, label + " ", input), initial: String(value), get: () => input.value, set: (text) => { input.value = text; }, value: () => Number(input.value),
    fault() {
      const v = input.valueAsNumber, wrong = Number.isNaN(v) || v < props.min || v > props.max || (whole && !Number.isInteger(v));
      input.setAttribute("aria-invalid", String(wrong));
      return wrong ? label + ": " + (Number.isNaN(v) ? "nothing" : v) + " is not a " + (whole ? "whole number" : "number") + " from " + range : "";
    },
  };
}
function choice(label, values, chosen, changed) {
  const input = h("select", {change: changed}, ...values.map((v) => h("option", {value: v, selected: v === chosen}, v)));
  return {
    input, element: h("label", {}, label + " ", input), initial: chosen, get: () => input.value, set: (text) => { input.value = text; }, value: () => input.value,
    fault: () => values.includes(input.value) ? "" : label + ": the address names none of the choices",
  };
}
function checkbox(label, name, changed) {
  const input = h("input", {type: "checkbox", name, change: changed});
  return {input, element: h("label", {}, input, " " + label), initial: "false", get: () => String(input.checked), set: (text) => { input.checked = text === "true"; }, value: () => input.checked, fault: () => ""};
}

// form makes the controls. changed is called when one was changed; request() returns what they say, and faults() what is wrong with them.
// address() holds the controls that differ from the beginning, and restore sets them.
function form(options, changed) {
  const counts = groups.map((g) => number(`${g.label} (${g.cpu} CPU, ${g.memory} GiB${g.gpus ? ", " + g.gpus + " GPUs" : ""})`, g.count, {min: 0, max: options.limits.nodes, name: "nodes-" + g.label.split(" ")[0]}, changed));
  const pods = choice("Pods", options.pods.map((p) => p.name), "mixed", changed), about = h("span", {class: "muted"});
  const load = number("Load in %", 80, {min: 1, max: 100, name: "load"}, changed), turnover = number("Turnover", 0, {min: 0, max: options.limits.turnover, name: "turnover", title: "0 to " + options.limits.turnover + ": how many times as many pods come again while others leave"}, changed);
  const zones = number("Zones", 0, {min: 0, max: options.limits.zones, name: "zones"}, changed), seed = number("Seed", 1, {min: 0, max: 1000000, name: "seed"}, changed);
  const spread = checkbox("spread replicas", "spread", changed);
  const policies = options.policies.concat(options.gpuPolicies);
  const policy = choice("Policy", policies, "gnn", changed), other = choice("beside", policies, policies[0], changed);
  const parts = (names, values, min) => names.map((name) => ({name, ...number(name, values[name] ?? 0, {min, max: options.limits.weight, step: 0.1, name: "weight-" + name}, changed)}));
  const objective = parts(options.terms, {balance: 1}, 0), weights = parts(options.features, Object.fromEntries(options.features.map((f) => [f, Number(options.weights[f].toFixed(3))])), -options.limits.weight);
  const own = h("fieldset", {}, h("legend", {}, "Weights of the policy “own weights”"), ...weights.map((w) => w.element));
  policy.input.name = "policy"; other.input.name = "other"; pods.input.name = "pods";
  const values = (list) => Object.fromEntries(list.map((x) => [x.name, x.value()]).filter(([, v]) => v !== 0));
  const element = h("form", {submit: (e) => e.preventDefault()},
    h("fieldset", {}, h("legend", {}, "Nodes, " + options.limits.nodes + " at most"), ...counts.map((c) => c.element), zones.element),
    h("fieldset", {}, h("legend", {}, "Pods"), pods.element, about, load.element, turnover.element, seed.element, spread.element),
    h("fieldset", {}, h("legend", {}, "Policies"), policy.element, other.element),
    h("fieldset", {}, h("legend", {}, "Objective: what the cost below is, and what “greedy” lowers"), ...objective.map((o) => o.element)), own);
  const all = [...counts, zones, pods, load, turnover, seed, spread, policy, other, ...objective, ...weights];
  return {
    element,
    faults() {
      const wrong = all.filter((c) => own.hidden ? !weights.includes(c) : true).map((c) => c.fault()).filter(Boolean), nodes = counts.reduce((sum, c) => sum + c.value(), 0);
      if (!wrong.length && (nodes < 1 || nodes > options.limits.nodes)) wrong.push("Nodes: " + nodes + " in all; want 1 to " + options.limits.nodes);
      if (!wrong.length && !objective.some((o) => o.value() > 0)) wrong.push("Objective: no weight is over 0");
      return wrong;
    },
    address: () => String(new URLSearchParams(all.filter((c) => c.get() !== c.initial).map((c) => [c.input.name, c.get()]))),
    restore(text) {
      const unknown = [];
      for (const [name, value] of new URLSearchParams(text)) {
        const c = all.find((x) => x.input.name === name);
        if (c) c.set(value); else unknown.push(name);
      }
      return unknown;
    },
    request() {
      const asks = [policy.value(), other.value()];
      own.hidden = !asks.includes("own weights");
      about.textContent = options.pods.find((p) => p.name === pods.value())?.about || "";
      return {
        nodes: groups.map((g, i) => ({count: counts[i].value(), cpu: g.cpu, memory: g.memory, gpus: g.gpus})).filter((g) => g.count > 0), zones: zones.value(),
        pods: pods.value(), load: load.value() / 100, turnover: turnover.value(), spread: spread.value(), seed: seed.value(),
        objective: values(objective), policy: asks[0], other: asks[1], weights: own.hidden ? {} : values(weights),
      };
    },
  };
}

// play asks for a run and calls line with each of its lines.
async function play(request, signal, line) {
  const response = await fetch("api/sandbox", {method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify(request), signal});
  if (!response.ok) throw new Error((await response.text()).slice(0, 600));
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const {done, value} = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const text of lines) line(JSON.parse(text));
  }
}

export function sandbox(main, news, given) {
  const verdict = h("p", {role: "status"}), trouble = h("p", {class: "bad", role: "alert"}), about = h("p"), list = h("div"), results = h("div", {class: "charts"});
  const slider = h("input", {type: "range", min: 0, max: 0, value: 0, "aria-label": "decision", input: () => { stop(); show(); }});
  const map = heat("Heat map of the simulated nodes", () => {});
  let now = empty(), before = null, abort = null, timer = 0, pending = 0, controls = null, drawn = 0, ended = false;

  const stop = () => { clearInterval(timer); timer = 0; playing.textContent = "Play"; playing.setAttribute("aria-pressed", "false"); };
  const go = (by) => { slider.value = Number(slider.value) + by; show(); };
  const button = (text, act) => h("button", {type: "button", click: act}, text);
  const playing = button("Play", () => {
    if (timer) return stop();
    if (Number(slider.value) >= Number(slider.max)) slider.value = 0;
    playing.textContent = "Pause"; playing.setAttribute("aria-pressed", "true");
    timer = setInterval(() => { go(1); if (Number(slider.value) >= Number(slider.max)) stop(); }, 250);
  });
  playing.setAttribute("aria-pressed", "false");
  main.append(h("h2", {}, "Sandbox"), h("p", {class: "muted"}, "A small cluster that is simulated in the scheduler's process. Nothing here touches the real one. Change something, and look at what becomes of the decisions."));
  const place = h("div");
  // The text is shown too, because a browser may refuse the clipboard.
  const text = h("pre"), copied = h("details", {hidden: true}, h("summary", {}, "The scenario, for gnnsched eval"), text);
  const copy = button("Copy as scenario", async () => {
    const faults = controls?.faults() ?? [];
    if (!controls || faults.length) { trouble.textContent = faults.join("; "); return; }
    try {
      const answer = await fetch("api/sandbox/scenario", {method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify(controls.request())});
      if (!answer.ok) throw new Error((await answer.text()).slice(0, 600));
      text.textContent = await answer.text();
      copied.hidden = false;
      await navigator.clipboard.writeText(text.textContent).then(() => { copy.textContent = "Copied"; setTimeout(() => { copy.textContent = "Copy as scenario"; }, 2000); }, () => { copied.open = true; });
    } catch (e) { trouble.textContent = e.message; }
  });
  main.append(place, trouble, verdict, h("div", {class: "controls"}, button("Step back", () => { stop(); go(-1); }), playing, button("Step", () => { stop(); go(1); }), slider, copy), copied, about, h("p", {class: "muted"}, "CPU requested 0% ", scale(), " 100%"), map.element, list, results);

  // requests at the moment of decision k: what the lines up to it say.
  function stateAt(k) {
    const state = now.nodes.map(() => [0, 0, 0]);
    const apply = (changed) => { for (const [row, ...v] of changed) state[row] = v; };
    for (let i = 0; i <= Math.min(k, now.steps.length - 1); i++) apply(now.steps[i].changed);
    if (k >= now.steps.length && now.end) apply(now.end.changed);
    return state;
  }

  function show() {
    drawn = performance.now();
    slider.max = Math.max(now.steps.length - 1, 0);
    if (!now.steps.length) { about.textContent = ""; list.replaceChildren(); map.show([]); return; }
    const k = Number(slider.value), s = now.steps[k], state = stateAt(k);
    slider.setAttribute("aria-valuetext", "decision " + (k + 1) + " of " + now.steps.length);
    const name = (row) => row < 0 ? "none" : now.nodes[row].name;
    const was = before?.steps[k]?.number === s.number && before.steps[k].pod === s.pod ? before.places[k] : undefined, here = name(s.node);
    about.replaceChildren("Decision " + (k + 1) + " of " + now.steps.length + ": pod ", h("b", {}, s.pod), " requests " + cores(s.cpu) + " CPU, " + bytes(s.memory) + (s.gpu ? ", " + devices(s.gpu) + " GPU" : "") + ". ",
      now.names[0] + " chooses ", h("b", {}, here), (s.runnerUp < 0 ? "" : ", " + Number(s.margin.toPrecision(3)) + " before " + name(s.runnerUp)) + "; " + now.names[1] + " would choose ",
      h("b", {class: s.other === s.node ? "" : "warn"}, s.other === s.node ? "the same" : name(s.other)), "." + (s.waiting ? " " + s.waiting + " pods wait." : "") + (was && was !== here ? " Before the change it was " + was + "." : ""));
    map.show(now.nodes.map((n, i) => ({name: n.name, zone: n.zone, ready: true, value: fraction([state[i][0], n.cpu]), about: n.name + " · CPU " + percent(fraction([state[i][0], n.cpu])) + " · memory " + percent(fraction([state[i][1], n.memory]))})), here);
    const score = (scores, i) => { const at = s.rows.indexOf(i); return at < 0 ? "no room" : scores[at] === null ? "not preferred" : String(Number(scores[at].toPrecision(4))); };
    const rows = now.nodes.map((n, i) => ({n, i})).sort((a, b) => rank(s, a.i) - rank(s, b.i) || a.i - b.i);
    list.replaceChildren(table("Nodes when the pod came, the best score first", [
      {title: "Node", name: true, node: ({n, i}) => i === s.node ? h("b", {}, n.name) : h("span", {}, n.name)},
      {title: "Chosen by", text: ({i}) => [i === s.node ? now.names[0] : "", i === s.other ? now.names[1] : ""].filter(Boolean).join(" and ")},
      {title: "Score of " + now.names[0], right: true, text: ({i}) => score(s.scores, i)}, {title: "Score of " + now.names[1], right: true, text: ({i}) => score(s.otherScores, i)},
      {title: "CPU", right: true, text: ({n, i}) => percent(fraction([state[i][0], n.cpu])) + " of " + cores(n.cpu)}, {title: "Memory", right: true, text: ({n, i}) => percent(fraction([state[i][1], n.memory])) + " of " + bytes(n.memory)},
      {title: "GPU", right: true, text: ({n, i}) => n.gpu ? devices(state[i][2]) + "/" + devices(n.gpu) : "-"},
    ], rows));
  }
  const rank = (s, row) => { const at = s.rows.indexOf(row); return at < 0 || s.scores[at] === null ? Infinity : -s.scores[at]; };

  function summary() {
    // The other policy may draw among nodes that it scores alike.
    const others = now.steps.filter((s) => s.node !== s.other), drawn = others.filter((s) => s.otherScores[s.rows.indexOf(s.node)] === s.otherScores[s.rows.indexOf(s.other)]).length;
    const parts = [now.steps.length + " decisions; " + now.names[1] + " would choose otherwise in " + others.length + (drawn ? ", in " + drawn + " of them among equal scores" : "")];
    if (before?.end && before.steps.length) {
      const both = now.steps.filter((s, k) => before.steps[k]?.number === s.number && before.steps[k].pod === s.pod).length;
      const moved = now.steps.filter((s, k) => before.steps[k]?.number === s.number && before.steps[k].pod === s.pod && before.places[k] !== now.places[k]).length;
      parts.push(both ? moved + " of " + both + " pods went elsewhere than before the change" : "other pods than before the change");
    }
    if (now.end?.cut) parts.push("the run was cut " + now.end.cut);
    verdict.textContent = parts.join(" · ");
    const costs = [{name: now.names[0], values: now.steps.map((s, i) => [i + 1, s.cost])}, {name: now.names[1] + " in its own cluster", values: now.steps.map((s, i) => [i + 1, s.otherCost]).filter(([, v]) => v !== null)}];
    const parted = [chart("Cost of the objective after each decision; less is better", costs, (x) => Math.round(x))];
    if (now.end) parted.push(table("At the end, each in its own cluster", [
      {title: "Policy", text: (r) => r.name}, {title: "Cost", right: true, text: (r) => r.cost.toFixed(4)}, {title: "Nodes in use", right: true, text: (r) => r.nodesInUse}, {title: "Pods", right: true, text: (r) => r.arrived}, {title: "Without a node", right: true, text: (r) => r.unscheduled},
    ], [now.end.policy, now.end.other]));
    results.replaceChildren(...parted);
  }

  async function run() {
    abort?.abort();
    const request = controls.request(), faults = controls.faults(), address = controls.address();
    history.replaceState(null, "", "#sandbox" + (address ? "/" + address : ""));
    trouble.textContent = faults.join("; ");
    if (faults.length) return;
    abort = new AbortController();
    const own = abort, at = Number(slider.value);
    if (now.end) before = now;
    now = {...empty(), names: [request.policy, request.other]};
    try {
      await play(request, own.signal, (line) => {
        if (own.signal.aborted) return;
        if (line.start) now.nodes = line.start.nodes;
        if (line.step) { now.steps.push(line.step); now.places.push(now.nodes[line.step.node].name); }
        if (line.end) now.end = line.end;
        if (line.error) trouble.textContent = line.error;
        if (performance.now() - drawn > 200) { show(); summary(); }
      });
      slider.max = Math.max(now.steps.length - 1, 0);
      slider.value = at;
    } catch (e) {
      if (own.signal.aborted) return;
      trouble.textContent = e.message;
    }
    show();
    summary();
  }
  const changed = () => { stop(); clearTimeout(pending); pending = setTimeout(run, 300); };

  get("api/sandbox").then((options) => {
    if (ended) return;
    controls = form(options, changed);
    place.append(controls.element);
    const fields = new URLSearchParams(given);
    slider.max = Number(fields.get("at") || 1) - 1; // until the run has so many decisions
    slider.value = slider.max;
    fields.delete("at");
    const unknown = controls.restore(fields);
    run();
    if (unknown.length) trouble.textContent = "The address has fields that the sandbox does not: " + unknown.join(", ");
  }).catch((e) => { trouble.textContent = e.message; });
  return {end() { ended = true; stop(); clearTimeout(pending); abort?.abort(); map.end(); }};
}
