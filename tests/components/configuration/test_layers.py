"""Five layers, one value: who wins, and who is named."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from agentcompass.components.configuration.layers import Configuration, read_configuration
from agentcompass.components.contracts.errors import RequestError

LAYERS = ("user", "root", "inner", "given1", "given2")


class Files:
    """The places configuration is read from, in a folder of the test's own."""

    def __init__(self, folder: Path) -> None:
        self.user = folder / "home" / "config.yaml"
        self.root = folder / "repository" / "agentcompass.yaml"
        self.inner = folder / "repository" / "sub" / "deep" / "agentcompass.yaml"
        self.given1, self.given2 = folder / "one.yaml", folder / "two.json.yaml"
        self.inner.parent.mkdir(parents=True)
        self.user.parent.mkdir()
        (folder / "repository" / ".git").mkdir()

    def write(self, **contents: Any) -> None:
        for name, content in contents.items():
            text = content if isinstance(content, str) else yaml.safe_dump(content)
            getattr(self, name).write_text(text, encoding="utf-8")

    def read(self) -> Configuration:
        given = [str(path) for path in (self.given1, self.given2) if path.exists()]
        return read_configuration(given, directory=self.inner.parent, user_file=self.user)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


KINDS: dict[str, tuple[Any, Any]] = {
    "mapping": ({"a": 1}, {"b": 2}),
    "list": ([1, 2], [3]),
    "scalar": (1, 2),
    "null": (1, None),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("below", "above"), [(a, b) for i, a in enumerate(LAYERS) for b in LAYERS[i + 1 :]]
)
def test_precedence(files: Files, below: str, above: str, kind: str) -> None:
    under, over = KINDS[kind]
    files.write(
        **{
            below: {"benchmarks": {"x": {"p": under, "kept": below}}},
            above: {"benchmarks": {"x": {"p": over}}},
        }
    )
    found = files.read()
    expected = {"a": 1, "b": 2} if kind == "mapping" else over
    assert found.section("benchmarks", "x") == {"p": expected, "kept": below}
    leaf = "benchmarks.x.p.b" if kind == "mapping" else "benchmarks.x.p"
    assert found.origins[leaf] == str(getattr(files, above))
    assert found.origins["benchmarks.x.kept"] == str(getattr(files, below))


def test_all_five_at_once(files: Files) -> None:
    files.write(
        **{name: {"execution": {name: number, "last": name}} for number, name in enumerate(LAYERS)}
    )
    found = files.read()
    assert found.section("execution") == {**{n: i for i, n in enumerate(LAYERS)}, "last": "given2"}
    assert [layer.name for layer in found.layers] == [str(getattr(files, n)) for n in LAYERS]


def test_files_above_the_repository_do_not_count(files: Files, tmp_path: Path) -> None:
    (tmp_path / "agentcompass.yaml").write_text("execution: {a: 1}")
    assert files.read().values == {}


def test_outside_of_a_repository_only_the_directory_itself_counts(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "a" / "agentcompass.yaml").write_text("execution: {a: 1}")
    assert read_configuration(directory=inner, user_file=tmp_path / "none").values == {}


def test_network_policies_and_images_replace_as_a_whole(files: Files) -> None:
    files.write(
        root="environments: {docker: {network: {run: {deny: [a.org]}, baseline: none}, "
        "setup: {image: i, workdir: /w}}}",
        inner="environments: {docker: {network: {run: {allow: [b.org]}}, "
        "setup: {build: {context: .}}}}",
    )
    assert files.read().section("environments", "docker") == {
        "network": {"run": {"allow": ["b.org"]}, "baseline": "none"},
        "setup": {"build": {"context": "."}, "workdir": "/w"},
    }


def test_values_are_what_yaml_1_2_says(files: Files) -> None:
    files.write(root="execution: {a: on, b: 1e-5, c: ~, d: 'null', e: 0x10, f: True}")
    assert files.read().section("execution") == {
        "a": "on", "b": 1e-5, "c": None, "d": "null", "e": 16, "f": True,
    }  # fmt: skip


def test_variables_are_read_typed_as_wholes_and_as_text_inside_strings(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLACE", "data/x")
    monkeypatch.setenv("COUNT", "8")
    monkeypatch.setenv("EMPTY", "")
    files.write(
        root="""
benchmarks:
  x: {path: "${PLACE}/y", n: {env: COUNT}, s: "${COUNT}", e: {env: EMPTY}, l: ["${COUNT}"]}
"""
    )
    assert files.read().section("benchmarks", "x") == {
        "path": "data/x/y", "n": 8, "s": "8", "e": None, "l": ["8"],
    }  # fmt: skip


def test_variables_of_an_environment_stay_references(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_TOKEN", "secret-value")
    files.write(root='environments: {docker: {env: {A: "${SOME_TOKEN}", B: {env: SOME_TOKEN}}}}')
    assert files.read().section("environments", "docker")["env"] == {
        "A": "${SOME_TOKEN}",
        "B": "${SOME_TOKEN}",
    }


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("execution: {a: '${NOT_SET_HERE}'}", "execution.a: variable NOT_SET_HERE is not set"),
        ("execution: {a: {env: NOT_SET_HERE}}", "execution.a: variable NOT_SET_HERE is not set"),
        ("environments: {d: {env: {X: '${NOT_SET_HERE}'}}}", "env.X: variable NOT_SET_HERE is not"),
        ("benchmarks: {x: {p: '${MY_API_KEY}'}}", "MY_API_KEY looks like a secret"),
        ("exection: {a: 1}", "exection: unknown section; did you mean 'execution'"),
        ("execution: 3", "execution: is not a mapping"),
        ("benchmarks: {x: 3}", "benchmarks.x: is not a mapping of parameters"),
        ("runtime: {recipe_dirs: [x]}", "a project's file cannot say which code is loaded"),
        ("execution: {a: 1, a: 2}", "key 'a' is given twice"),
        ("- 1", "is a list, and an object is needed"),
    ],
)
def test_what_is_wrong_is_one_line_that_names_the_file(
    files: Files, monkeypatch: pytest.MonkeyPatch, text: str, complaint: str
) -> None:
    monkeypatch.delenv("NOT_SET_HERE", raising=False)
    monkeypatch.setenv("MY_API_KEY", "k")
    files.write(root=text)
    with pytest.raises(RequestError) as refused:
        files.read()
    assert complaint in str(refused.value)
    assert "agentcompass.yaml" in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("runtime: {auto_install_dependencies: true}", "cannot say which code is loaded"),
        (
            "environments: {host_process: {setup: {commands: [make]}}}",
            "host_process.setup.commands: a project's file cannot say what is run on this machine",
        ),
        (
            "environments: {host_process: {setup: {files: {x: ~/.ssh}}}}",
            "host_process.setup.files: a project's file cannot say what is copied",
        ),
        (
            "execution: {analysis_params: {model_check: {model: {id: m, base_url: 'http://h'}}}}",
            "model_check: a project's file cannot say which endpoint is sent records and a key",
        ),
    ],
)
def test_what_reaches_this_machine_or_a_key_only_the_user_says(
    files: Files, text: str, complaint: str
) -> None:
    files.write(user=text, given1=text)
    files.read()
    files.write(inner=text)
    with pytest.raises(RequestError) as refused:
        files.read()
    assert complaint in str(refused.value)
    assert str(files.inner) in str(refused.value)


def test_a_project_may_leave_out_what_it_may_not_say(files: Files) -> None:
    files.write(
        root="execution: {analysis_params: {model_check: null}}",
        inner="environments: {docker: {setup: {commands: [make]}}, host_process: {setup: null}}",
    )
    assert files.read().origins


def test_a_file_of_comments_says_nothing(files: Files) -> None:
    files.write(root="# execution: {a: 1}\n")
    assert files.read().values == {}


def test_a_given_file_that_is_missing_is_refused(files: Files) -> None:
    with pytest.raises(RequestError, match=r"nowhere\.yaml"):
        read_configuration(["nowhere.yaml"], directory=files.inner.parent, user_file=files.user)
