"""SWE-bench Multilingual: 300 issues of 42 repositories in nine languages."""

from agentcompass.components.benchmarks._swebench import component

COMPONENT = component("SWE-bench/SWE-bench_Multilingual")
