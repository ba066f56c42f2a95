"""`agentcompass config`: what can be configured, what is, and where it was said."""

from agentcompass.cli.lazy_group import Entry, LazyGroup

config = LazyGroup(
    "config",
    help="Explain, show, check or start the configuration.",
    entries={
        "docs": Entry(
            "agentcompass.cli.config_docs:config_docs",
            "Every parameter of a component: type, default, meaning.",
        ),
        "show": Entry("agentcompass.cli.config_files:show", "The configuration that applies here."),
        "validate": Entry(
            "agentcompass.cli.config_files:validate_files", "Check configuration files."
        ),
        "init": Entry("agentcompass.cli.config_files:init", "Write a commented starting file."),
    },
)
