"""The families of components, as the command line calls them."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentcompass.components.registry.registry import Family

FAMILIES: "dict[str, Family]" = {
    "benchmark": "benchmarks",
    "harness": "harnesses",
    "env": "environments",
    "recipe": "recipes",
    "analyzer": "analyzers",
    "model-protocol": "models",
}
FAMILY = "{" + "|".join(FAMILIES) + "}"


def family_of(word: str) -> "Family":
    """The family a user names; an unknown word is refused with the nearest one."""
    if word in FAMILIES:
        return FAMILIES[word]
    from agentcompass.components.configuration.spelling import nearest
    from agentcompass.components.contracts.errors import RequestError

    raise RequestError("family", f"no family {word!r}", nearest(word, FAMILIES))
