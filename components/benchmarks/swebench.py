"""SWE-bench: 2,294 issues of 12 Python repositories."""

from agentcompass.components.benchmarks._swebench import component

COMPONENT = component("princeton-nlp/SWE-bench")
