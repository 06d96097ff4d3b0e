// The page: asks, follows the events of the run, and lets a person decide. Whoever watches a run may decide on it.
const $ = (id) => document.getElementById(id)
const post = (path, body) =>
  fetch(path, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) })

function show(text, kind = "") {
  const line = document.createElement("span")
  line.className = kind
  line.textContent = text // never as HTML: a model wrote it
  $("log").append(line)
  return line
}

function follow(run) {
  const events = new EventSource(`/agent/runs/${run}/events`) // comes back by itself, exactly where it was
  events.onmessage = ({ data }) => {
    const event = JSON.parse(data)
    if (event.scope) return
    if (event.kind === "text_delta") show(event.text)
    if (event.kind === "tool_dispatched") show(`\n  ${event.call.name} ${JSON.stringify(event.call.args)}`, "call")
    if (event.kind === "tool_completed") show(` → ${JSON.stringify(event.value)}\n`, "call")
    if (event.kind === "run_failed") show(`\n${event.message}\n`, "wrong")
    if (event.kind === "run_completed") show("\n— done —\n")
    if (event.kind === "run_interrupted") ask(run, event.pending ?? [])
    if (["run_completed", "run_failed", "run_interrupted"].includes(event.kind)) events.close()
  }
  events.onerror = () => { if (events.readyState === EventSource.CLOSED) show("\nthere is no such run\n", "wrong") }
}

function ask(run, pending) {
  for (const { token, call } of pending) {
    const box = show(`\n${call.name} ${JSON.stringify(call.args)} waits: `, "asks")
    for (const kind of ["approve", "refuse"]) {
      const button = document.createElement("button")
      button.textContent = kind
      button.onclick = async () => {
        box.remove()
        const answer = await (await post(`/agent/runs/${run}/decisions`, { [token]: { kind } })).json()
        show(`\n${answer.output ?? answer.error ?? "it waits again"}\n— ${kind}d —\n`)
      }
      box.append(button, " ")
    }
  }
}

$("login").onsubmit = async (event) => {
  event.preventDefault()
  const { user, team } = await (await post("/login", { user: $("user").value })).json()
  $("who").textContent = `${user} of ${team}`
}
$("ask").onsubmit = async (event) => {
  event.preventDefault()
  const run = crypto.randomUUID()
  show(`\nrun ${run}\n`, "call")
  const order = { task: $("task").value, run_id: run, conversation: `desk of ${$("user").value}`, stay: true }
  const answer = await post("/agent/runs/stream", order) // begun when it answers; stays when this page is closed
  if (!answer.ok) return show(`\n${(await answer.json()).error}\n`, "wrong")
  await answer.body.cancel()
  follow(run)
}
$("watch").onsubmit = (event) => { event.preventDefault(); follow($("run").value.trim()) }
