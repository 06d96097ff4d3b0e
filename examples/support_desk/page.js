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
  // Comes back by itself, exactly where it was: after a cut, and to see what becomes of a run that waits.
  const events = new EventSource(`/agent/runs/${run}/events`)
  let question, hasText
  events.onmessage = ({ data }) => {
    const event = JSON.parse(data)
    if (event.scope) return
    question?.remove() // the run goes on: somebody has decided
    if (event.kind === "step_started") hasText = false
    if (event.kind === "text_delta") { hasText = true; show(event.text) }
    if (event.kind === "tool_dispatched") show(`\n  ${event.call.name} ${JSON.stringify(event.call.args)}`, "call")
    if (event.kind === "tool_completed") show(` → ${JSON.stringify(event.value)}\n`, "call")
    if (event.kind === "run_interrupted" && event.pending?.length) return (question = ask(run, event.pending))
    if (event.kind === "run_interrupted") show(`\n— ${event.reason} —\n`, "wrong")
    if (event.kind === "run_failed") show(`\n${event.message}\n`, "wrong")
    if (event.kind === "run_completed") show(`${hasText ? "" : event.output}\n— done —\n`)
    if (event.kind.startsWith("run_") && event.kind !== "run_started") events.close()
  }
  events.onerror = () => { if (events.readyState === EventSource.CLOSED) show("\nthere is no such run\n", "wrong") }
}

function ask(run, pending) {
  const box = show("", "asks")
  const decisions = {} // of all calls that wait, sent together
  for (const { token, call } of pending) {
    const line = document.createElement("div")
    line.textContent = `${call.name} ${JSON.stringify(call.args)} waits: `
    for (const kind of ["approve", "refuse"]) {
      const button = document.createElement("button")
      button.textContent = kind
      button.onclick = async () => {
        decisions[token] = { kind }
        line.textContent = `${call.name}: ${kind}d`
        if (Object.keys(decisions).length < pending.length) return
        const answer = await post(`/agent/runs/${run}/decisions`, decisions)
        if (answer.status === 409) show(`\n${(await answer.json()).error}\n`, "wrong") // somebody was faster
      }
      line.append(button, " ")
    }
    box.append(line)
  }
  return box
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
