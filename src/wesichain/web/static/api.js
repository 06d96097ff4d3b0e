// The API: the token, requests, and streams of events (with fetch: an EventSource cannot send a token).

const KEY = "wesichain-token";

// The address carries the token behind the '#', which no server sees; it is taken out of the address at once.
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
    // an answer without JSON: its status has to do
  }
  throw new ApiError(answer.status, message);
}

export async function get(path, { signal } = {}) {
  return (await request(path, { signal })).json();
}

export async function post(path, body) {
  const headers = { "content-type": "application/json" };
  return (await request(path, { method: "POST", headers, body: JSON.stringify(body) })).json();
}

// A file of the API, as something that a link can offer.
export async function download(path) {
  return (await request(path)).blob();
}

export function runPath(id, tail = "") {
  return `/api/runs/${encodeURIComponent(id)}${tail}`;
}

// Follows a run: calls `onEvents` with what is new, and comes back after a break of the connection.
export async function follow(id, { after, signal, onEvents, onEnd }) {
  let last = after;
  let pause = 500;
  while (!signal.aborted) {
    try {
      const answer = await request(runPath(id, `/events?after=${last}`), { signal });
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let held = "";
      for (;;) {
        const { value, done } = await reader.read();
        if (done) break;
        pause = 500;
        const parts = (held + value).split("\n\n");
        held = parts.pop();
        const events = [];
        for (const part of parts) {
          if (/^event: (end|gone)/.test(part)) {
            if (events.length) onEvents(events);
            onEnd();
            return;
          }
          const data = /^data: (.*)$/m.exec(part);
          if (data) events.push(JSON.parse(data[1]));
        }
        if (events.length) {
          last = events.at(-1).seq;
          onEvents(events);
        }
      }
    } catch (error) {
      if (signal.aborted || (error instanceof ApiError && error.status < 500)) return;
    }
    await new Promise((resolve) => setTimeout(resolve, pause));
    pause = Math.min(pause * 2, 10_000);
  }
}
