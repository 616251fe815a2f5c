// The stream of the server and the pages. A page is a function of the element that it fills; it returns what is called
// at news of a topic, and at its end.
import {cluster} from "./cluster.js";
import {decisions, take} from "./decisions.js";
import {events, node} from "./details.js";
import {learning} from "./learning.js";
import {pending} from "./search.js";
import {race} from "./race.js";
import {usage} from "./nodes.js";
import {sandbox} from "./sandbox.js";
import {shadow} from "./shadow.js";
import {versus} from "./versus.js";

const pages = {cluster, pending, used: usage, decisions, versus, learning, shadow, race, events, node, sandbox};
const main = document.getElementById("main"), line = document.getElementById("state");

// news is the newest message of each topic.
const news = {cluster: null, learning: null, race: null, shadow: null, trouble: null, usage: null, decisions: null};
let page = {}, live = false;

function status() {
  const c = news.cluster;
  const texts = [];
  if (!live) texts.push("not connected to the scheduler; trying again");
  else if (news.trouble) texts.push("the cluster cannot be read: " + news.trouble.message);
  else if (!c) texts.push("reading the cluster");
  else if (c.lost) texts.push("the API server has not answered since " + new Date(c.lost.since).toLocaleTimeString("en-GB") + ": " + c.lost.reason);
  line.className = texts.length && (c || !live || news.trouble) ? "bad" : "";
  line.textContent = texts.length ? texts.join("; ") : "live";
  document.getElementById("title").textContent = c ? c.title : "";
}

// menu shows the links to the pages of this scheduler: one in the shadow has one profile, and does not learn. Few race.
function menu() {
  for (const a of document.querySelectorAll("nav a")) {
    if (a.hash === "#shadow") a.parentElement.hidden = !news.shadow;
    if (a.hash === "#race") a.parentElement.hidden = !news.race;
    if (a.hash === "#versus" || a.hash === "#learning") a.parentElement.hidden = Boolean(news.shadow);
  }
}

function show() {
  const [name, argument] = location.hash.slice(1).split("/", 2);
  const chosen = pages[name] ? name : "cluster";
  page.end?.();
  main.replaceChildren();
  for (const a of document.querySelectorAll("nav a")) {
    if (a.hash === "#" + chosen) a.setAttribute("aria-current", "page");
    else a.removeAttribute("aria-current");
  }
  let given = "";
  try { given = decodeURIComponent(argument || ""); } catch { /* not an address of this page */ }
  page = pages[chosen](main, news, given) || {};
}
addEventListener("hashchange", () => { if (location.hash !== "#main") show(); });

let source = null, again = 0;
function close() { source?.close(); source = null; clearTimeout(again); }
function open() {
  close();
  source = new EventSource("api/stream");
  source.onopen = () => { live = true; status(); };
  source.onerror = async () => {
    live = false;
    status();
    if (source?.readyState !== EventSource.CLOSED) return; // the browser tries again
    again = setTimeout(open, 5000);
    const answer = await fetch("icon.svg", {method: "HEAD"}).catch(() => null);
    if (answer?.status === 401) line.textContent = "the scheduler was started again: open the address that it printed";
  };
  for (const topic of ["cluster", "learning", "race", "shadow", "trouble", "usage", "decisions"]) {
    source.addEventListener(topic, (e) => {
      const message = JSON.parse(e.data);
      news[topic] = topic === "decisions" ? take(news.decisions, message) : message;
      status();
      menu();
      page[topic]?.(news[topic]);
    });
  }
}
// A page that nobody sees costs the scheduler nothing.
document.addEventListener("visibilitychange", () => { if (document.hidden) close(); else open(); });

show();
status();
if (!document.hidden) open();
