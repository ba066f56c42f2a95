"""The error of commands other than a run."""


class CommandFailed(Exception):
    """A command could not do its work; one line. Exit 4."""
