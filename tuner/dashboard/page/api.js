// The daemon's JSON and its stream of events.

const root = "api/v1/";
const tokenKey = "bitnet-autotune token";

export const token = {
  get: () => sessionStorage.getItem(tokenKey) ?? "",
  set: (text) => sessionStorage.setItem(tokenKey, text),
  forget: () => sessionStorage.removeItem(tokenKey),
};

// Refused is an answer that is none: status is HTTP's, 0 where there was no answer at all.
export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export const modelPath = (model, what) => `models/${encodeURIComponent(model)}/${what}`;

export const get = (path, signal) => ask(path, { signal });

export const post = (path, body) => ask(path, { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" } });

async function ask(path, options) {
  const answer = await reach(path, { signal: AbortSignal.timeout(20000), ...withToken(options) });
  const text = await answer.text();
  let body = {};
  try {
    body = JSON.parse(text);
  } catch {
    if (answer.ok) throw new Refused(answer.status, `${path}: the answer is not JSON`);
  }
  if (!answer.ok) throw new Refused(answer.status, body.error ?? `${path}: HTTP ${answer.status}`);
  return body;
}

function withToken(options) {
  const headers = { ...options.headers };
  if (token.get()) headers.Authorization = `Bearer ${token.get()}`;
  return { ...options, headers, cache: "no-store", credentials: "same-origin" };
}

async function reach(path, options) {
  try {
    return await fetch(root + path, options);
  } catch {
    throw new Refused(0, "the daemon does not answer");
  }
}

// silence is how long a stream may say nothing, its heartbeat included, before it counts as broken.
const silence = 45000;

// listen calls heard(name, data) for every event, for ever, and tell(state) with "live", "reconnecting", "polling", where there
// is no stream to be had for now, or "locked". It is fetch and not EventSource, which cannot send a token.
export async function listen(heard, tell) {
  let pause = 500, last = "";
  for (;;) {
    let state = "reconnecting";
    try {
      last = await follow(last, heard, () => {
        pause = 500;
        tell("live");
      });
    } catch (error) {
      if (error.status === 401) {
        tell("locked");
        await new Promise((resolve) => addEventListener("unlocked", resolve, { once: true }));
        continue;
      }
      if (error.status === 503) state = "polling";
    }
    tell(state);
    await new Promise((resolve) => setTimeout(resolve, pause));
    pause = Math.min(2 * pause, 8000);
  }
}

async function follow(last, heard, begun) {
  const stop = new AbortController();
  let timer;
  const wait = () => {
    clearTimeout(timer);
    timer = setTimeout(() => stop.abort(), silence);
  };
  wait();
  try {
    const answer = await reach("events", withToken({ signal: stop.signal, headers: last ? { "Last-Event-ID": last } : {} }));
    if (!answer.ok) throw new Refused(answer.status, `HTTP ${answer.status}`);
    begun();
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let rest = ""; ;) {
      const { done, value } = await reader.read().catch(() => ({ done: true })); // the connection broke
      if (done) return last;
      wait();
      const blocks = (rest + value).split(/\r?\n\r?\n/);
      rest = blocks.pop();
      for (const block of blocks) last = dispatch(block, heard) || last;
    }
  } finally {
    clearTimeout(timer);
    stop.abort(); // or a stream that nobody reads any more would stay open
  }
}

// dispatch reads one event and returns its id.
function dispatch(block, heard) {
  const fields = { event: "message", data: [], id: "" };
  for (const line of block.split(/\r?\n/)) {
    const [, name, value] = /^([a-z]+): ?(.*)$/.exec(line) ?? [];
    if (name === "data") fields.data.push(value);
    else if (name) fields[name] = value;
  }
  try {
    if (fields.data.length > 0) heard(fields.event, JSON.parse(fields.data.join("\n")));
  } catch (error) {
    console.error(error); // the events after it are heard
  }
  return fields.id;
}
