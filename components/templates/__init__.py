"""What `agentcompass new` writes: for each kind a working component and its test, as real code.

The class `Example` and this package's module names are replaced by the user's own.
"""
