"""Moved: import from `components/configuration/variables`."""

from agentcompass.components.configuration.variables import check_name, from_shell, resolved

__all__ = ["check_name", "from_shell", "resolved"]
