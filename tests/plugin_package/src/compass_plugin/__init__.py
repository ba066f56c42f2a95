"""Components from outside of AgentCompass."""
