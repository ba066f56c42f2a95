import hashlib

import pytest

from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.results.artifacts import ArtifactFolder
from agentcompass.components.results.masking import Masker


@pytest.fixture
def folder(tmp_path):
    return ArtifactFolder(tmp_path / "run" / "artifacts", Masker(["s3cret-key-0123"]))


def test_bytes_come_back_as_they_were(folder):
    content = bytes(range(256)) + b"\r\nno newline at the end"
    artifact = folder.save("out/patch.diff", content, path="work/patch.diff", mode=0o755)
    assert folder.read(artifact) == content
    assert (artifact.name, artifact.path, artifact.mode) == (
        "out/patch.diff",
        "work/patch.diff",
        0o755,
    )
    assert artifact.sha256 == hashlib.sha256(content).hexdigest()
    assert artifact.size_bytes == len(content)


NAMES = ["../x", "../../x", "/etc/passwd", "x", "X", "x/../y", "", ".", "..", "a b", "é", "A/b"]
NAMES += ["nul\0", "\udc80", "a" * 300, "b/" * 200, "con", "aux.txt", "README.md", "readme.md"]


def test_no_name_leaves_the_folder_and_none_meets_another(folder, tmp_path):
    kept = {name: folder.save(name, name.encode("utf-8", "replace")) for name in NAMES}
    assert len({artifact.name.lower() for artifact in kept.values()}) == len(NAMES)
    for name, artifact in kept.items():
        assert folder.read(artifact) == name.encode("utf-8", "replace")
    outside = [p for p in tmp_path.rglob("*") if p.is_file() and not p.is_relative_to(folder.root)]
    assert outside == []


@pytest.mark.parametrize("name", ["../../secret", "/etc/hostname", "a/../../secret", "", "."])
def test_a_record_cannot_point_outside(folder, tmp_path, name):
    (tmp_path / "secret").write_bytes(b"x")
    artifact = folder.save("a", b"x").model_copy(update={"name": name})
    with pytest.raises(AgentCompassError) as caught:
        folder.read(artifact)
    assert caught.value.code is Code.RESULTS_WRITE


def test_changed_or_lost_bytes_are_noticed(folder):
    artifact = folder.save("a", b"good")
    (folder.root / "a").write_bytes(b"evil")
    with pytest.raises(AgentCompassError, match="sha256 differs") as caught:
        folder.read(artifact)
    assert caught.value.code is Code.RESULTS_WRITE
    (folder.root / "a").unlink()
    with pytest.raises(AgentCompassError, match="No such file"):
        folder.read(artifact)


def test_the_same_name_again_replaces_the_file(folder):
    folder.save("a", b"one")
    assert folder.read(folder.save("a", b"two")) == b"two"


def test_a_file_that_would_also_be_a_folder_is_refused_without_stopping_the_run(folder):
    folder.save("a", b"file")
    folder.save("d/x", b"in a folder")
    for name in ("a/b", "d"):
        with pytest.raises(AgentCompassError) as caught:
            folder.save(name, b"")
        assert caught.value.code is Code.FRAMEWORK_UNEXPECTED


def test_a_secret_is_masked_in_content_name_and_path_and_the_rest_is_what_is_graded(folder):
    secret = "s3cret-key-0123"
    artifact = folder.save(f"log-{secret}.txt", b"a\n" + secret.encode() + b"\nb", path=secret)
    assert folder.read(artifact) == b"a\n***\nb"
    assert secret not in artifact.name + artifact.path
    assert artifact.size_bytes == 7


def test_files_can_be_read_and_deleted_whatever_their_mode_was(folder):
    artifact = folder.save("locked", b"x", mode=0)
    assert artifact.mode == 0
    assert (folder.root / "locked").stat().st_mode & 0o600 == 0o600
