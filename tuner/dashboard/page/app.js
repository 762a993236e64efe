// The page: panels, each of one endpoint of the daemon, kept up to date by its events.

import { h, fill } from "./dom.js";
import { Refused, get, listen, modelPath, post, token } from "./api.js";
import { badge, empty, source, tick, verdict } from "./parts.js";
import { relative, times } from "./format.js";
import { now } from "./panel_now.js";
import { host } from "./panel_host.js";
import { answer } from "./panel_answer.js";
import { certificate } from "./panel_certificate.js";
import { convergence } from "./panel_convergence.js";
import { space } from "./panel_space.js";
import { kernels } from "./panel_kernels.js";
import { timeline } from "./panel_timeline.js";
import { advice } from "./panel_advice.js";
import { fleet } from "./panel_fleet.js";
import { engines } from "./panel_engines.js";
import { events } from "./panel_events.js";
import { confirmAct, askToken } from "./dialog.js";

const places = { top: [now, host], model: [answer, certificate, convergence, space, kernels, timeline, advice], bottom: [fleet, engines, events] };
const panels = Object.values(places).flat();

const view = {
  state: null,
  model: "",
  picks: {},
  // chosen is what the reader picked among the options, else the first.
  chosen: (name, options) => (options.includes(view.picks[name]) ? view.picks[name] : options[0]),
};

// known is what was last heard of each panel: data, or why there is none, or both: the data of before.
const known = new Map(panels.map((p) => [p.id, {}]));

function build() {
  for (const [place, list] of Object.entries(places)) {
    document.getElementById(place).append(...list.map((p) => h("section", { id: p.id, class: `card ${p.size}`, "aria-labelledby": `${p.id}-title`, "aria-busy": "true" },
      h("h2", { id: `${p.id}-title` }, p.title), h("p", { class: "problem", hidden: true }), h("div", { class: "body" }, h("p", { class: "empty" }, "…")))));
  }
}

// draw shows what is known of a panel. One whose data cannot be drawn says so, and the others go on.
function draw(panel) {
  const section = document.getElementById(panel.id), body = section.querySelector(".body");
  const { data, problem, at } = known.get(panel.id);
  const said = section.querySelector(".problem");
  const trouble = problem ? `${data ? `Not brought up to date since ${relative(at)}` : "Not available"}: ${problem}` : data?.damage && `Not everything could be read: ${data.damage}`;
  said.hidden = !trouble;
  fill(said, trouble);
  const busy = !data && !problem; // then another model's data may still stand there
  section.setAttribute("aria-busy", String(busy));
  body.inert = busy;
  try {
    if (data?.none) {
      fill(body, empty(data.none));
    } else if (data) {
      fill(body, panel.render(data, view));
      panel.after?.(body, data, view);
    } else if (problem) {
      fill(body);
    }
  } catch (error) {
    console.error(error);
    said.hidden = false;
    fill(said, `This part cannot be shown: ${error.message}`);
  }
}

// load asks for the data of a panel. An answer that is overtaken by a later one, or by another model, is dropped.
async function load(panel) {
  const entry = known.get(panel.id);
  const asked = entry.asked = (entry.asked ?? 0) + 1;
  try {
    const data = await get(places.model.includes(panel) ? modelPath(view.model, panel.from) : panel.from);
    if (entry.asked !== asked) return;
    Object.assign(entry, { data, problem: null, at: data.as_of });
  } catch (error) {
    if (entry.asked !== asked) return;
    if (!(error instanceof Refused)) throw error;
    entry.problem = error.message;
    if (error.status === 401) lock();
  }
  draw(panel);
}

async function loadState() {
  try {
    take(await get("state"));
  } catch (error) {
    if (error.status === 401) lock();
    for (const panel of [now, events]) {
      known.get(panel.id).problem = error.message;
      draw(panel);
    }
  }
}

// take takes a state of the daemon in.
function take(state) {
  const before = view.state;
  view.state = state;
  for (const panel of [now, events]) Object.assign(known.get(panel.id), { data: state, problem: null, at: state.at });
  draw(now);
  draw(events);
  document.title = `${state.phase} · bitnet-autotune`;
  if (before && before.phase !== state.phase) say(`${state.phase}: ${state.reason}`);
  const names = state.models.map((m) => m.name);
  if (!names.includes(view.model)) choose(fromAddress(names));
  else {
    drawModels();
    draw(answer);
  }
}

const fromAddress = (names) => names.find((n) => `#${encodeURIComponent(n)}` === location.hash) ?? names[0] ?? "";

function choose(model) {
  if (view.model === model) return;
  view.model = model;
  for (const panel of places.model) {
    Object.assign(known.get(panel.id), { data: undefined, problem: null });
    draw(panel);
  }
  drawModels();
  refreshModel();
}

function drawModels() {
  fill(document.getElementById("models"), h("ul", {}, view.state.models.map((m) => h("li", { "data-key": m.name },
    h("a", { href: `#${encodeURIComponent(m.name)}`, "aria-current": m.name === view.model ? "true" : null },
      h("span", { class: "name" }, m.name),
      h("span", { class: "soft" }, m.error ? badge("bad", m.error) : [source(m.plan.source), m.verdict && verdict(m.verdict), m.plan.ratio?.estimate > 0 && h("span", { class: "figure" }, times(m.plan.ratio.estimate))]))))));
}

const refreshModel = () => view.model && places.model.forEach(load);

// refresh asks for everything, state first: it says which models there are.
async function refresh() {
  const before = view.model;
  await loadState();
  if (view.model === before) refreshModel(); // else the choice of another one has done so
  [host, fleet, engines].forEach(load);
}

function refreshStored() {
  if (document.hidden) return;
  refreshModel();
  [fleet, engines].forEach(load);
}

// again asks for everything, for a reader who is there: for what no event tells, such as what the host does, and for what the
// daemon had kept when it told that there is more.
function again() {
  if (!document.hidden && linked !== "locked") refresh();
}

let due = null, last;

// changed asks for what comes from the store. A run writes many times a second, and the daemon keeps its answers for a
// moment: so not more often than now and then, and once more when it has become quiet. A page nobody sees asks for nothing.
function changed() {
  due ??= setTimeout(() => {
    due = null;
    refreshStored();
  }, view.state?.phase === "measuring" ? 3000 : 1200);
  clearTimeout(last);
  last = setTimeout(refreshStored, 5000);
}

function heard(name, data) {
  if (name === "state") take({ ...data, events: view.state?.events ?? [] }); // its events come one by one
  if (name === "changed" && (!data.model || data.model === view.model)) changed();
  if (name === "log" && view.state && !view.state.events.some((e) => e.at === data.at && e.what === data.what && e.model === data.model)) {
    view.state.events = [...view.state.events, data].slice(-100);
    draw(events);
  }
}

const links = { live: "live", polling: "polling", reconnecting: "reconnecting", locked: "token needed" };
let linked = "connecting";

function connection(state) {
  const was = linked;
  linked = state;
  if (state !== was) {
    document.getElementById("link").className = `link ${state}`;
    document.getElementById("link-text").textContent = links[state];
  }
  if (state === "live" && was !== "connecting") refresh(); // what happened in between was not heard
  if (state === "polling") again(); // and so each time that there was no stream
  if (state === "locked") lock();
}

function say(text) {
  document.getElementById("say").textContent = text;
}

const notTheToken = "That is not the daemon's token.";

let locked = false;

// lock asks for the token that even reading needs, in one dialog however many answers say so.
async function lock() {
  if (locked) return;
  locked = true;
  await unlock(token.get() ? notTheToken : "Reading needs the daemon's token.");
  locked = false;
}

async function unlock(problem) {
  if (!(await askToken(problem))) return false;
  showToken();
  dispatchEvent(new Event("unlocked"));
  return true;
}

function showToken() {
  document.getElementById("token-button").textContent = token.get() ? "Forget token" : "Token…";
}

// act does what a button of the panels says, once it was confirmed.
async function act(what) {
  if (!token.get() && !(await unlock())) return;
  const model = view.model;
  const done = await confirmAct(what, model, known.get("answer").data, async (body) => {
    try {
      await post(modelPath(model, what), body);
    } catch (error) {
      if (error.status !== 401) throw error;
      token.forget();
      showToken();
      if (!(await unlock(notTheToken))) throw new Error(`Nothing was changed. ${notTheToken}`);
      await post(modelPath(model, what), body);
    }
  });
  if (!done) return;
  say(`${model}: ${done}`);
  await loadState();
  refreshModel();
}

function begin() {
  build();
  document.getElementById("where").textContent = location.host;
  showToken();
  addEventListener("hashchange", () => view.state && choose(fromAddress(view.state.models.map((m) => m.name))));
  addEventListener("click", (event) => {
    const button = event.target.closest("[data-act]");
    if (button) act(button.dataset.act);
  });
  addEventListener("change", ({ target }) => {
    if (target.type !== "radio") return;
    view.picks[target.name] = target.value;
    panels.filter((p) => target.closest(`#${p.id}`)).forEach(draw);
  });
  document.getElementById("token-button").addEventListener("click", () => {
    if (token.get()) {
      token.forget();
      showToken();
    } else unlock();
  });
  document.addEventListener("visibilitychange", again);
  setInterval(tick, 1000);
  setInterval(again, 60000);
  refresh();
  listen(heard, connection);
}

begin();
