"""The files captured in one execution of an attempt, under names that cannot leave its folder."""

import hashlib
import logging
from dataclasses import dataclass
from pathlib import Path

from agentcompass.components.contracts.attempt import Artifact
from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.results.masking import Masker
from agentcompass.components.results.names import safe_path
from agentcompass.components.results.writing import write_atomic

LOG = logging.getLogger("agentcompass.results")


@dataclass(frozen=True)
class ArtifactFolder:
    root: Path
    masker: Masker

    def save(self, name: str, content: bytes, *, path: str = "", mode: int = 0o644) -> Artifact:
        """Keep a file durably; the same name again replaces it.

        `name` may be anything (`../x`, `/etc/passwd`, other case of a kept one): the artifact's
        own name is the safe one it got, `path` stays as the sandbox had it. The file on disk is a
        plain one, whatever `mode` says, so that a run folder can always be read and deleted.
        A secret in the content is masked; hash and size are those of what is kept, and graded.
        """
        masked = self.masker.bytes(content)
        kept = safe_path(self.masker.text(name))
        if masked is not content:
            LOG.warning("a secret was masked in the artifact %s", kept)
        target = self.root / kept
        if target.is_dir() or any(p.is_file() for p in _parents(self.root, target)):
            raise AgentCompassError(
                Code.FRAMEWORK_UNEXPECTED,
                f"the artifact {kept} is a file and a folder at once: {target}",
            )
        write_atomic(target, masked)
        return Artifact(
            name=kept,
            path=self.masker.text(path),
            sha256=hashlib.sha256(masked).hexdigest(),
            size_bytes=len(masked),
            mode=mode,
        )

    def read(self, artifact: Artifact) -> bytes:
        """The kept bytes. Raises `results.write` if they are not those that were recorded."""
        if not _inside(artifact.name):
            raise _lost(self.root / "…", f"{artifact.name!r} is not a name inside this folder")
        path = self.root / artifact.name
        try:
            content = path.read_bytes()
        except OSError as error:
            raise _lost(path, error.strerror or type(error).__name__) from error
        if hashlib.sha256(content).hexdigest() != artifact.sha256:
            raise _lost(path, "its content is not what was recorded (sha256 differs)")
        return content


def _parents(root: Path, target: Path) -> list[Path]:
    return [parent for parent in target.parents if parent.is_relative_to(root)]


def _inside(name: str) -> bool:
    return "\0" not in name and all(part not in ("", ".", "..") for part in name.split("/"))


def _lost(path: Path, reason: str) -> AgentCompassError:
    return AgentCompassError(Code.RESULTS_WRITE, f"artifact {path}: {reason}")
