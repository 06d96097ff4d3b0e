// CopilotKit with an agent of Wesichain, over AG-UI.
import { HttpAgent } from "@ag-ui/client"
import { CopilotChat, CopilotKitProvider, useFrontendTool, useInterrupt } from "@copilotkit/react-core/v2"
import "@copilotkit/react-core/v2/styles.css"
import { createRoot } from "react-dom/client"
import { z } from "zod"

const agents = { default: new HttpAgent({ url: "/agent/ag-ui" }) }

function Page() {
  useFrontendTool({
    name: "paint",
    description: "Paint the page.",
    parameters: z.object({ colour: z.string() }),
    handler: async ({ colour }) => {
      document.body.style.background = colour
      return { painted: true }
    },
  })
  useInterrupt({
    agentId: "default", // the interrupts of a run are calls that wait for approval
    render: ({ interrupts, resolve }) => (
      <div className="approvals">
        {interrupts.map(({ id, message }) => (
          <p key={id}>
            {message}{" "}
            <button className="approve" onClick={() => resolve({ approved: true }, id)}>Approve</button>{" "}
            <button className="refuse" onClick={() => resolve({ approved: false, reason: "not now" }, id)}>Refuse</button>
          </p>
        ))}
      </div>
    ),
  })
  return <CopilotChat agentId="default" />
}

createRoot(document.getElementById("root")).render(
  <CopilotKitProvider selfManagedAgents={agents}>
    <div style={{ height: "90vh" }}><Page /></div>
  </CopilotKitProvider>,
)
