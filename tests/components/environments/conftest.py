import pytest

pytest.register_assert_rewrite(
    "tests.conformance.environment",
    "tests.conformance.environment_commands",
    "tests.conformance.environment_endings",
    "tests.conformance.environment_files",
    "tests.conformance.environment_network",
    "tests.conformance.environment_pressure",
    "tests.conformance.environment_uploads",
)
