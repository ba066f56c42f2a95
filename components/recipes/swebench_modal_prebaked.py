"""SWE-bench on Modal with the published images: image, /testbed, conda environment, limits."""

from functools import partial

from agentcompass.components.contracts.protocols import Component
from agentcompass.components.contracts.recipe import RecipeParameters
from agentcompass.components.recipes._swebench_images import PublishedImage

COMPONENT = Component(
    version="1", create=partial(PublishedImage, "modal"), parameters=RecipeParameters
)
