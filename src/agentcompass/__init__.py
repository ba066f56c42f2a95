"""AgentCompass: measure LLM agents on benchmarks, with a number that can be trusted."""

__version__ = "0.1.0"
