"""How local files and folders come into every provider's sandbox."""

import hashlib
import random
from pathlib import Path

import pytest

from agentcompass.components.contracts.sandbox import Environment
from tests.conformance.sandbox import SandboxScenarios

ODD_NAMES = (
    "with space",
    "quo'te\"s",
    "-dash",
    "$HOME",
    "a;b&c",
    "汉字.txt",
    "new\nline",
    "*",
    "~",
)


class UploadConformance(SandboxScenarios):
    def test_a_local_file_is_copied_with_its_mode(self, tmp_path: Path) -> None:
        source = tmp_path / "tool"
        source.write_bytes(b"#!/bin/sh\necho ran\n")
        source.chmod(0o750)

        async def scenario(env: Environment) -> None:
            for target in ("made/on the way/tool", f"{env.workdir}/absolute/tool"):
                await env.upload(source, target)
                shown = await env.exec(["stat", "-c", "%a", target])
                assert shown.stdout == "750\n", shown.stderr
                assert (await env.exec([f"./{target}" if target[0] != "/" else target])).ok
            source.write_bytes(b"second")
            await env.upload(source, "made/on the way/tool")
            assert await env.read_file("made/on the way/tool") == b"second"

        self.inside(scenario)

    def test_a_local_folder_is_copied_as_it_is(self, tmp_path: Path) -> None:
        source = tmp_path / "folder"
        (source / "deep/er").mkdir(parents=True)
        (source / "empty").mkdir(mode=0o700)
        (source / "deep/er/run.sh").write_text("echo ran\n")
        (source / "deep/er/run.sh").chmod(0o755)
        (source / ".hidden").write_bytes(b"")
        (source / "relative").symlink_to("deep/er/run.sh")
        (source / "to a folder").symlink_to("deep")
        (source / "dangling").symlink_to("no/such")
        (source / "absolute").symlink_to("/etc/passwd")

        async def scenario(env: Environment) -> None:
            await env.upload(source, "copy")
            found = await env.exec("cd copy && find . | sort")
            assert found.stdout.split("\n")[:-1] == sorted(
                [".", "./.hidden", "./absolute", "./dangling", "./deep", "./deep/er"]
                + ["./deep/er/run.sh", "./empty", "./relative", "./to a folder"]
            )
            links = ("relative", "to a folder", "dangling", "absolute")
            shown = await env.exec(["readlink", *links], cwd="copy")
            assert shown.stdout == "deep/er/run.sh\ndeep\nno/such\n/etc/passwd\n"
            modes = await env.exec("stat -c %a copy/empty copy/deep/er/run.sh copy/.hidden")
            assert modes.stdout.split()[:2] == ["700", "755"]
            assert (await env.exec("sh copy/relative")).stdout == "ran\n"

        self.inside(scenario)

    def test_what_is_copied_belongs_to_who_runs_commands(self, tmp_path: Path) -> None:
        (tmp_path / "folder").mkdir()
        (tmp_path / "folder/file").write_text("x")
        (tmp_path / "file").write_text("x")
        (tmp_path / "file").chmod(0o600)

        async def scenario(env: Environment) -> None:
            await env.upload(tmp_path / "folder", "folder")
            await env.upload(tmp_path / "file", "above/file")
            await env.write_file("beside/written", b"x", mode=0o600)
            line = "id -u; stat -c %u folder folder/file above above/file beside beside/written"
            assert len(set((await env.exec(line)).stdout.split())) == 1
            changed = "echo more >> folder/file && rm above/file && touch above/x beside/x"
            assert (await env.exec(changed)).ok

        self.inside(scenario)

    def test_names_in_a_copied_folder_are_taken_as_they_are(self, tmp_path: Path) -> None:
        source = tmp_path / "odd"
        for name in ODD_NAMES:
            (source / f"in {name}").mkdir(parents=True)
            (source / f"in {name}" / name).write_text(name)

        async def scenario(env: Environment) -> None:
            target = "汉字 it's\n$(x)"
            await env.upload(source, target)
            captured = await env.capture(target)
            found = {file.path: file.content.decode() for file in captured.files}
            assert found == {f"in {name}/{name}": name for name in ODD_NAMES}
            for name in ODD_NAMES:
                place = f"{target}/in {name}"
                shown = await env.exec(["cat", "--", name], cwd=place)
                assert shown.stdout == name, shown.stderr
                assert (await env.exec("pwd", cwd=place)).stdout == f"{env.workdir}/{place}\n"

        self.inside(scenario)

    def test_a_folder_is_merged_into_one_that_is_there(self, tmp_path: Path) -> None:
        source = tmp_path / "new"
        (source / "both").mkdir(parents=True)
        (source / "both/same").write_text("new")
        (source / "both/added").write_text("new")
        (source / "was a link").write_text("new")

        async def scenario(env: Environment) -> None:
            await env.exec(
                "mkdir -p there/both; echo old > there/both/same; echo old > there/both/kept; "
                "echo precious > target; ln -s ../target 'there/was a link'"
            )
            for _ in range(2):
                await env.upload(source, "there")
            captured = await env.capture("there")
            assert {file.path: file.content for file in captured.files} == {
                "both/same": b"new",
                "both/added": b"new",
                "both/kept": b"old\n",
                "was a link": b"new",
            }
            assert await env.read_file("target") == b"precious\n"
            await env.upload(source, ".")
            assert await env.read_file("both/added") == b"new"
            assert await env.read_file("there/both/kept") == b"old\n"

        self.inside(scenario)

    def test_a_missing_source_is_said_to_be_missing(self, tmp_path: Path) -> None:
        async def scenario(env: Environment) -> None:
            with pytest.raises(FileNotFoundError):
                await env.upload(tmp_path / "missing", "x")
            assert not (await env.exec("test -e x")).ok

        self.inside(scenario)

    def test_a_large_file_comes_and_goes_unchanged(self, tmp_path: Path) -> None:
        data = random.Random(3).randbytes(self.large_bytes)
        digest = hashlib.sha256(data).hexdigest()
        (tmp_path / "large").write_bytes(data)

        async def scenario(env: Environment) -> None:
            await env.upload(tmp_path / "large", "uploaded")
            await env.write_file("written", data)
            summed = await env.exec("sha256sum uploaded written", timeout_seconds=120)
            assert [line.split()[0] for line in summed.stdout.splitlines()] == [digest] * 2
            assert hashlib.sha256(await env.read_file("uploaded")).hexdigest() == digest
            (captured,) = [f for f in (await env.capture(".")).files if f.path == "written"]
            assert hashlib.sha256(captured.content).hexdigest() == digest

        self.inside(scenario)
