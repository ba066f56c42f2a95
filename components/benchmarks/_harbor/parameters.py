"""What both benchmarks on Harbor tasks can be told."""

from collections.abc import Mapping
from typing import Literal

from agentcompass.components.benchmarks._harbor.processes import LeftRunning
from agentcompass.components.contracts.parameters import BenchmarkParameters


class HarborParameters(BenchmarkParameters):
    images: Literal["published", "build"] = "published"
    """`published`: the image that a task names; `build`: from its Dockerfile. A task without one
    of them uses the other."""
    from_images: Mapping[str, str] = {}
    """For machines without a registry: image in a Dockerfile's FROM line → image to build on
    instead. Implies `images: build`. Scores are then not those of the published images."""
    left_running: LeftRunning = "services"
    """Which processes the agent left live on while its work is graded: `services` (those that
    listen on a socket, with their families), `nothing`, or `everything`."""
    skip_unsupported: bool = False
    """Leave out tasks that cannot be measured here, naming them in the log, instead of refusing."""
