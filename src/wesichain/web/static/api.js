// The API: the token, requests, and streams of events (with fetch: an EventSource cannot send a token).

const KEY = "wesichain-token";
const ENDS = new Set(["run_completed", "run_failed", "run_interrupted"]);

// The token is in the fragment of the address, which is not sent to servers; it is removed from it at once.
export function takeToken() {
  const found = /^#token=([\w~.-]+)$/.exec(location.hash);
  if (!found) return;
  sessionStorage.setItem(KEY, found[1]);
  history.replaceState(null, "", "#/");
}

export function setToken(token) {
  sessionStorage.setItem(KEY, token.trim().replace(/^.*#token=/, ""));
}

export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function request(path, options = {}) {
  const token = sessionStorage.getItem(KEY) ?? "";
  const headers = { authorization: `Bearer ${encodeURIComponent(token)}`, ...options.headers };
  const answer = await fetch(path, { ...options, headers, cache: "no-store", redirect: "error" });
  if (answer.ok) return answer;
  let message = answer.statusText;
  try {
    message = (await answer.json()).error ?? message;
  } catch {
    // no JSON: use the status
  }
  throw new ApiError(answer.status, message);
}

export async function get(path, { signal } = {}) {
  return (await request(path, { signal })).json();
}

export async function post(path, body) {
  return (await send(path, body)).json();
}

function send(path, body, signal) {
  const headers = { "content-type": "application/json" };
  return request(path, { method: "POST", headers, body: JSON.stringify(body), signal });
}

// A file of the API as a URL for a download link.
export async function download(path) {
  return (await request(path)).blob();
}

export function runPath(id, tail = "") {
  return `/api/runs/${encodeURIComponent(id)}${tail}`;
}

// The path of a run of this server's agent, while the server has it in memory.
export function agentPath(id, tail = "") {
  return `/api/agent/runs/${encodeURIComponent(id)}${tail}`;
}

// Starts a run of the agent, which continues when the page is closed; returns its id and the response with its events.
export async function startRun(task, conversation, signal) {
  const answer = await send("/api/agent/runs/stream", { task, conversation, stay: true }, signal);
  return { id: answer.headers.get("x-run-id"), answer };
}

// Follows a run: calls `onEvents` with new events, and reconnects after an interruption. With `live`, its id,
// events are read from the agent, with the text deltas; otherwise from the recording.
export async function follow(id, { live = null, ...options }) {
  const last = live ? await followPath(agentPath(live, "/events"), options) : options.after;
  if (last !== null) await followPath(runPath(id, "/events"), { ...options, after: last, answer: null });
}

// Follows a stream of events to its end; returns the number of the last event if the server has no such run (404).
async function followPath(path, { after, signal, onEvents, onEnd, answer = null }) {
  let last = after;
  let pause = 500;
  while (!signal.aborted) {
    try {
      const headers = last > 0 ? { "last-event-id": last } : {};
      answer ??= await request(`${path}?after=${last}`, { signal, headers });
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      answer = null;
      let held = "";
      let isOver = false; // the run is not active
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        pause = 500;
        const parts = (held + value).split("\n\n");
        held = parts.pop();
        const events = parts.map((part) => /^data: (.*)$/m.exec(part)).filter(Boolean).map((data) => JSON.parse(data[1])).filter((event) => event.kind);
        if (events.length) {
          last = Math.max(last, events.at(-1).seq);
          isOver = !events.at(-1).scope && ENDS.has(events.at(-1).kind);
          onEvents(events);
        }
        if (parts.some((part) => /^event: (end|gone)/.test(part))) {
          onEnd();
          return null;
        }
      }
      if (isOver) {
        onEnd();
        return null;
      }
    } catch (error) {
      if (signal.aborted) return null;
      if (error instanceof ApiError && error.status < 500) return error.status === 404 ? last : null;
    }
    await new Promise((resolve) => setTimeout(resolve, pause));
    pause = Math.min(pause * 2, 10_000);
  }
  return null;
}
