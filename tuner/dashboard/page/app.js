// The page: panels, each of one endpoint of the daemon, kept up to date by its events.

import { h, fill } from "./dom.js";
import { Refused, get, listen, modelPath, post, token } from "./api.js";
import { badge, source, tick, verdict } from "./parts.js";
import { relative, times } from "./format.js";
import { now } from "./panel/now.js";
import { host } from "./panel/host.js";
import { answer } from "./panel/answer.js";
import { certificate } from "./panel/certificate.js";
import { convergence } from "./panel/convergence.js";
import { space } from "./panel/space.js";
import { kernels } from "./panel/kernels.js";
import { timeline } from "./panel/timeline.js";
import { advice } from "./panel/advice.js";
import { fleet } from "./panel/fleet.js";
import { engines } from "./panel/engines.js";
import { events } from "./panel/events.js";
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
  said.hidden = !problem || problem.expected;
  fill(said, problem && !problem.expected ? `${data ? `Not brought up to date since ${relative(at)}` : "Not available"}: ${problem.message}` : []);
  section.setAttribute("aria-busy", String(!data && !problem));
  try {
    if (data) {
      fill(body, panel.render(data, view));
      panel.after?.(body, data, view);
    } else if (problem) {
      fill(body, h("p", { class: "empty" }, problem.expected ? problem.message : ""));
    }
  } catch (error) {
    console.error(error);
    said.hidden = false;
    fill(said, `This part cannot be shown: ${error.message}`);
  }
}

// load asks for the data of a panel. An answer that is overtaken by a later one, or by another model, is dropped.
async function load(panel) {
  const entry = known.get(panel.id), model = view.model;
  const asked = entry.asked = (entry.asked ?? 0) + 1;
  try {
    const data = await get(panel.path(encodeURIComponent(model)));
    if (entry.asked !== asked) return;
    Object.assign(entry, { data, problem: null, at: new Date().toISOString() });
  } catch (error) {
    if (entry.asked !== asked) return;
    if (!(error instanceof Refused)) throw error;
    // 404 of a model's part: there is nothing yet, which is no fault.
    entry.problem = { message: error.message, expected: error.status === 404 && places.model.includes(panel) };
    if (entry.problem.expected) entry.data = undefined;
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
      known.get(panel.id).problem = { message: error.message };
      draw(panel);
    }
  }
}

// take takes a state of the daemon in. The stream sends it without the events, which it sends one by one.
function take(state) {
  const before = view.state;
  state.events ??= before?.events ?? [];
  view.state = state;
  for (const panel of [now, events]) Object.assign(known.get(panel.id), { data: state, problem: null, at: state.at });
  draw(now);
  draw(events);
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
  for (const panel of places.model) Object.assign(known.get(panel.id), { data: undefined, problem: null });
  drawModels();
  refreshModel();
}

function drawModels() {
  fill(document.getElementById("models"), h("ul", {}, view.state.models.map((m) => h("li", { "data-key": m.name },
    h("a", { href: `#${encodeURIComponent(m.name)}`, "aria-current": m.name === view.model ? "true" : null },
      h("span", { class: "name" }, m.name),
      h("span", { class: "soft" }, m.error ? badge("bad", m.error) : [source(m.plan.source), m.verdict && verdict(m.verdict), m.plan.ratio?.estimate > 0 && h("span", { class: "figure" }, times(m.plan.ratio.estimate))]))))));
}

const refreshModel = () => view.model && Promise.all(places.model.map(load));

// refresh asks for everything, state first: it says which models there are.
async function refresh() {
  await loadState();
  await Promise.all([host, fleet, engines].map(load).concat(refreshModel()));
}

let due;

// soon asks for a model's parts once what has changed has had the time to change.
function soon() {
  clearTimeout(due);
  due = setTimeout(() => {
    refreshModel();
    [fleet, engines].forEach(load);
  }, 300);
}

function heard(name, data) {
  if (name === "state") take(data);
  if (name === "changed" && (!data.model || data.model === view.model)) soon();
  if (name === "log" && view.state) {
    view.state.events = [...view.state.events, data].slice(-100);
    draw(events);
  }
}

const links = { live: "live", reconnecting: "reconnecting", locked: "token needed" };

function connection(state) {
  const link = document.getElementById("link"), was = link.className;
  link.className = `link ${state}`;
  document.getElementById("link-text").textContent = links[state];
  if (state === "live" && was !== "link connecting") refresh(); // what happened in between was not heard
}

function say(text) {
  document.getElementById("say").textContent = text;
}

let locked = false;

// lock asks for the token that even reading needs, once.
async function lock() {
  if (locked) return;
  locked = true;
  await unlock("Reading needs the daemon's token.");
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
  const model = view.model, plan = known.get("answer").data;
  if (!plan || (!token.get() && !(await unlock()))) return;
  const done = await confirmAct(what, plan, async (body) => {
    try {
      await post(modelPath(model, what), body);
    } catch (error) {
      if (error.status !== 401) throw error;
      token.forget();
      showToken();
      if (!(await unlock(error.message))) throw error;
      await post(modelPath(model, what), body);
    }
  });
  if (!done) return;
  say(`${model}: ${done}`);
  await loadState();
  soon();
}

function begin() {
  build();
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
  setInterval(tick, 1000);
  refresh();
  listen(heard, connection);
}

begin();
