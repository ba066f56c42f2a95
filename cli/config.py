"""`agentcompass config`: what can be configured, explained."""

from agentcompass.cli.lazy_group import Entry, LazyGroup

config = LazyGroup(
    "config",
    help="Explain what can be configured.",
    entries={
        "docs": Entry(
            "agentcompass.cli.config_docs:config_docs",
            "Every parameter of a component: type, default, meaning.",
        )
    },
)
