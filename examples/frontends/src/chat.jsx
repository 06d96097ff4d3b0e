// The AI SDK's useChat with an agent of Wesichain: text as it comes, a tool of this page, and an approval.
import { useChat } from "@ai-sdk/react"
import {
  DefaultChatTransport,
  lastAssistantMessageIsCompleteWithApprovalResponses,
  lastAssistantMessageIsCompleteWithToolCalls,
} from "ai"
import { useState } from "react"
import { createRoot } from "react-dom/client"

const TOOLS = { paint: { description: "Paint the page.", parameters: {
  type: "object", properties: { colour: { type: "string" } }, required: ["colour"] } } }
const transport = new DefaultChatTransport({ api: "/agent/ai-sdk", body: { tools: TOOLS } })

function Page() {
  const [text, setText] = useState("")
  const { messages, sendMessage, addToolApprovalResponse, addToolOutput, status, error } = useChat({
    transport,
    sendAutomaticallyWhen: (given) =>
      lastAssistantMessageIsCompleteWithApprovalResponses(given) || lastAssistantMessageIsCompleteWithToolCalls(given),
    onToolCall({ toolCall }) {
      if (toolCall.toolName !== "paint") return
      document.body.style.background = toolCall.input.colour
      addToolOutput({ tool: "paint", toolCallId: toolCall.toolCallId, output: { painted: true } })
    },
  })
  return (
    <main>
      {messages.map((message) => (
        <article key={message.id} className={message.role}>
          {message.parts.map((part, index) => <Part key={index} part={part} answer={addToolApprovalResponse} />)}
        </article>
      ))}
      <form onSubmit={(event) => { event.preventDefault(); sendMessage({ text }); setText("") }}>
        <input id="text" value={text} onChange={(event) => setText(event.target.value)} />
        <button id="send">Send</button> <span id="status">{status}</span> <span id="error">{error?.message}</span>
      </form>
    </main>
  )
}

function Part({ part, answer }) {
  if (part.type === "text") return <p className="text">{part.text}</p>
  if (!part.type.startsWith("tool-")) return null
  const about = `${part.type.slice(5)} ${JSON.stringify(part.input)}`
  if (part.state === "approval-requested")
    return (
      <p>
        {about}: <button className="approve" onClick={() => answer({ id: part.approval.id, approved: true })}>Yes</button>
        <button className="refuse" onClick={() => answer({ id: part.approval.id, approved: false })}>No</button>
      </p>
    )
  return <p className="call">{about}: {part.state} {JSON.stringify(part.output)}</p>
}

createRoot(document.getElementById("root")).render(<Page />)
