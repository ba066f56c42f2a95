import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest

from agentcompass.components.benchmarks._swebench import specs
from agentcompass.components.benchmarks._swebench.protected import (
    changed_paths,
    runner_settings,
    sort_paths,
)
from agentcompass.components.benchmarks._swebench.rows import Instance
from agentcompass.components.benchmarks._swebench.test_run import probe_command, watching

PATCH = """\
diff --git a/tests/model_forms/tests.py b/tests/model_forms/tests.py
--- a/tests/model_forms/tests.py
+++ b/tests/model_forms/tests.py
@@ -1 +1 @@
-a
+b
diff --git a/tests/data/x.json b/tests/data/x.json
"""


def instance(repo: str, version: str = "", **changes: str) -> Instance:
    return Instance(
        instance_id="x-1",
        repo=repo,
        base_commit="a" * 40,
        patch=PATCH,
        test_patch=PATCH,
        problem_statement="x",
        fail_to_pass=("x",),
        pass_to_pass=(),
        version=version,
        **changes,
    )


def test_well_known_repositories_need_no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(specs, "_tables", dict)
    assert specs.spec_for(instance("pallets/flask", "2.3")).test_commands == (
        "pytest -rA tests/model_forms/tests.py",
    )
    [django] = specs.spec_for(instance("django/django", "4.2")).test_commands
    assert django.startswith("./tests/runtests.py ")
    assert django.endswith(" model_forms.tests")
    assert specs.spec_for(instance("example/shapes")).test_commands == ()
    own = instance("pallets/flask", test_command="make check")
    assert specs.spec_for(own).test_commands == ("make check",)


def test_the_package_is_read_as_data() -> None:
    try:
        distribution("swebench")
    except PackageNotFoundError:
        pytest.skip("needs agentcompass[swebench]")
    spec = specs.spec_for(instance("pallets/flask", "2.3"))
    assert spec.python == "3.11"
    assert "Werkzeug==2.3.7" in spec.pip_packages
    assert spec.requirements == ("requirements/dev.txt",)
    django = specs.spec_for(instance("django/django", "3.2"))
    assert django.before_tests == ()  # it only chose a locale
    assert not any(name.partition(".")[0] == "swebench" for name in sys.modules)
    for repo, command in specs.KNOWN_COMMANDS.items():
        tables = specs._tables()["py"]["specs"]
        assert command in {known["test_cmd"] for known in tables[repo].values()}, repo


@pytest.mark.parametrize(
    ("command", "how", "probe"),
    [
        ("pytest -rA t.py", "plugin", "pytest --help"),
        ("python -m pytest t.py", "plugin", "python -m pytest --help"),
        ("tox --current-env -epy39 -v -- t.py", "plugin", "python -m pytest --help"),
        ("python3 -m unittest -v t", "script", "python3 -m unittest --help"),
        ("./tests/runtests.py --verbosity 2 a.b", "script", "./tests/runtests.py --help"),
        ("A='b c' bin/test -C --verbose t.py", "script", "A='b c' bin/test --help"),
        ("go test ./...", "log", None),
        ("npx jest", "log", None),
    ],
)
def test_how_a_runner_is_watched(command: str, how: str, probe: str | None) -> None:
    assert watching(command) == how
    if probe:
        assert probe_command(command) == probe


def test_paths_of_a_patch(tmp_path: Path) -> None:
    patch = (
        "diff --git a/plain.py b/plain.py\nindex 1..2 100644\n--- a/plain.py\n+++ b/plain.py\n"
        "@@ -1 +1 @@\n-diff --git a/no b/no\n+x\n"
        'diff --git "a/n\\303\\244me.py" "b/n\\303\\244me.py"\nnew file mode 100644\n'
        "diff --git a/with space b/with space\ndeleted file mode 100644\n"
    )
    assert changed_paths(patch.encode()) == ("plain.py", "n\u00e4me.py", "with space")


def test_what_steers_and_what_does_not() -> None:
    paths = [
        "conftest.py", "a/b/conftest.py", "sitecustomize.py", "x.pth", "pytest.ini", "pytest.py",
        "_pytest/x.py", "unittest/__init__.py", "tests/test_a.py",
        "src/_pytest/x.py", "json.txt", "docs/conf.py", "setup.py", "a/json.py", "tests/test_b.py",
    ]  # fmt: skip
    found = sort_paths(paths, repo="x/y", tests=["tests/test_a.py"], accepted=["pytest.ini"])
    assert found.tests == ("tests/test_a.py",)
    assert found.steering == (
        "conftest.py", "a/b/conftest.py", "sitecustomize.py", "x.pth", "pytest.py",
        "_pytest/x.py", "unittest/__init__.py",
    )  # fmt: skip


def test_only_the_runners_part_of_a_shared_file_counts() -> None:
    before = b"[metadata]\nname = x\n[tool:pytest]\naddopts = -q\n"
    other = before.replace(b"name = x", b"name = y")
    assert runner_settings("setup.cfg", before) == runner_settings("setup.cfg", other)
    assert runner_settings("setup.cfg", before) != runner_settings("setup.cfg", b"[metadata]\n")
    toml = b'[tool.pytest.ini_options]\naddopts = "-q"\n[tool.x]\na = 1\n'
    assert runner_settings("pyproject.toml", toml) == {"ini_options": {"addopts": "-q"}}
    assert runner_settings("tox.ini", b"[tox]\nenvlist = py\n") is None
