"""SWE-bench Verified: 500 issues of 12 Python repositories, checked by people to be solvable."""

from agentcompass.components.benchmarks._swebench import component

COMPONENT = component("princeton-nlp/SWE-bench_Verified")
