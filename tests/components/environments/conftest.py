import pytest

pytest.register_assert_rewrite(
    "tests.conformance.environment",
    "tests.conformance.environment_commands",
    "tests.conformance.environment_files",
)
