"""SWE-bench prepared from git repositories: /testbed, its virtual environment first, limits."""

from agentcompass.components.contracts.protocols import Component
from agentcompass.components.contracts.recipe import RecipeParameters
from agentcompass.components.recipes._swebench_images import ClonedRepository

COMPONENT = Component(version="1", create=ClonedRepository, parameters=RecipeParameters)
