// A page that talks with useChat's own parts: its transport, its parser and its chat. The test says what it does.
//
//   node chat.mjs FOLDER_OF_NODE_MODULES URL STEPS
//
// STEPS is a JSON list: {"say": text}, {"approve": bool, "reason": text}, {"output": value}, {"fail": text},
// {"say": text, "stop": true}. Printed is JSON: the messages, the status and the error at the end, and the streams' headers.
import { createRequire } from "node:module";

const [modules, url, text] = process.argv.slice(2);
const require = createRequire(`${modules}/`);
const ai = await import(require.resolve("ai"));

const seen = { headers: [], messageIds: [] };
class State {
  messages = [];
  status = "ready";
  error = undefined;
  pushMessage = (message) => { this.messages = [...this.messages, message]; };
  popMessage = () => { this.messages = this.messages.slice(0, -1); };
  replaceMessage = (index, message) => { this.messages = this.messages.with?.(index, message) ?? this.messages; };
  snapshot = (value) => structuredClone(value);
}
class Chat extends ai.AbstractChat {
  constructor(options) { super({ ...options, state: new State() }); }
}
const settled = async (chat) => {
  do { await new Promise((done) => setTimeout(done, 20)); } while (["submitted", "streaming"].includes(chat.status));
};
const steps = JSON.parse(text);
const chat = new Chat({
  id: "chat-1",
  transport: new ai.DefaultChatTransport({
    api: url,
    body: steps[0].body,
    fetch: async (...args) => {
      const response = await fetch(...args);
      seen.headers.push(response.headers.get("x-vercel-ai-ui-message-stream"));
      return response;
    },
  }),
  sendAutomaticallyWhen: (given) =>
    ai.lastAssistantMessageIsCompleteWithApprovalResponses(given) ||
    ai.lastAssistantMessageIsCompleteWithToolCalls(given),
});
const waiting = (state) =>
  chat.messages.at(-1).parts.filter((part) => part.type.startsWith("tool-") && part.state === state);
for (const step of steps) {
  if ("say" in step) {
    const sent = chat.sendMessage({ text: step.say });
    if (step.stop) { // as soon as the page shows a call
      while (chat.lastMessage?.role !== "assistant" || !waiting("input-available").length) await new Promise((done) => setTimeout(done, 20));
      await chat.stop();
    }
    await sent;
  } else if ("approve" in step) {
    for (const part of waiting("approval-requested"))
      await chat.addToolApprovalResponse({ id: part.approval.id, approved: step.approve, reason: step.reason });
  } else if ("output" in step || "fail" in step) {
    for (const part of waiting("input-available")) {
      const call = { tool: part.type.slice(5), toolCallId: part.toolCallId };
      await chat.addToolOutput("output" in step ? { ...call, output: step.output }
                                                 : { ...call, state: "output-error", errorText: step.fail });
    }
  }
  await settled(chat);
}
console.log(JSON.stringify({ ...seen, messages: chat.messages, status: chat.status, error: chat.error?.message }));
