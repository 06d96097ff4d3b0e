"""AgentDojo with a model that obeys every injection that it is shown."""
