"""SWE-bench Lite: 300 small issues of 12 Python repositories (split dev: 23 of others)."""

from agentcompass.components.benchmarks._swebench import component

COMPONENT = component("princeton-nlp/SWE-bench_Lite")
