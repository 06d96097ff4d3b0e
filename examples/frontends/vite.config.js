import react from "@vitejs/plugin-react"
import { defineConfig } from "vite"

export default defineConfig({
  plugins: [react()],
  base: "./",
  build: { rollupOptions: { input: ["chat.html", "copilot.html"] }, chunkSizeWarningLimit: 20_000 },
  server: { proxy: { "/agent": "http://127.0.0.1:8020" } },
})
