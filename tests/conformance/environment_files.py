"""How files behave in every provider's sandbox."""

import random

import pytest

from agentcompass.components.contracts.sandbox import CaptureLimits, Environment
from tests.conformance.sandbox import SandboxScenarios


class FileConformance(SandboxScenarios):
    def test_a_file_comes_back_as_it_was_written(self) -> None:
        data = random.Random(2).randbytes(1_048_579)

        async def scenario(env: Environment) -> None:
            await env.write_file("made/parents/data.bin", data)
            assert await env.read_file("made/parents/data.bin") == data
            assert await env.read_file(f"{env.workdir}/made/parents/data.bin") == data
            assert (await env.exec("wc -c < made/parents/data.bin")).stdout.strip() == "1048579"
            await env.write_file("made/parents/data.bin", b"")
            assert await env.read_file("made/parents/data.bin") == b""

        self.inside(scenario)

    def test_a_files_mode_is_the_one_asked_for(self) -> None:
        async def scenario(env: Environment) -> None:
            await env.write_file("run.sh", b"#!/bin/sh\necho ran\n", mode=0o755)
            assert (await env.exec(["./run.sh"])).stdout == "ran\n"
            await env.write_file("plain", b"x")
            await env.write_file("secret", b"x", mode=0o600)
            modes = await env.exec("stat -c %a run.sh plain secret")
            assert modes.stdout.split() == ["755", "644", "600"]

        self.inside(scenario)

    def test_writing_replaces_a_link_and_leaves_its_target(self) -> None:
        async def scenario(env: Environment) -> None:
            await env.exec("echo precious > target; ln -s target link; ln -s nowhere dangling")
            await env.write_file("link", b"new")
            await env.write_file("dangling", b"new")
            assert await env.read_file("target") == b"precious\n"
            assert await env.read_file("link") == b"new"
            assert not (await env.exec("test -L link || test -L dangling || test -e nowhere")).ok

        self.inside(scenario)

    def test_names_are_taken_as_they_are(self) -> None:
        names = ("with space", "quo'te\"s", "-dash", "$HOME", "a;b&c", "汉字.txt", "new\nline", "*")

        async def scenario(env: Environment) -> None:
            for name in names:
                await env.write_file(f"names/{name}", name.encode())
                assert await env.read_file(f"names/{name}") == name.encode()
            captured = await env.capture("names")
            assert {f.path: f.content for f in captured.files} == {n: n.encode() for n in names}

        self.inside(scenario)

    def test_what_cannot_be_read_says_why(self) -> None:
        async def scenario(env: Environment) -> None:
            with pytest.raises(FileNotFoundError):
                await env.read_file("missing")
            await env.exec("mkdir folder")
            with pytest.raises(IsADirectoryError):
                await env.read_file("folder")
            await env.write_file("ten", b"0123456789")
            assert await env.read_file("ten", max_bytes=10) == b"0123456789"
            with pytest.raises(ValueError, match="larger"):
                await env.read_file("ten", max_bytes=9)

        self.inside(scenario)

    def test_a_capture_holds_the_files_below_a_directory(self) -> None:
        async def scenario(env: Environment) -> None:
            await env.write_file("out/a.txt", b"a")
            await env.write_file("out/deep/er/b.sh", b"b", mode=0o755)
            await env.exec("mkdir out/empty")
            for path in ("out", f"{env.workdir}/out"):
                capture = await env.capture(path)
                found = {f.path: (f.content, f.mode & 0o111 != 0) for f in capture.files}
                assert found == {"a.txt": (b"a", False), "deep/er/b.sh": (b"b", True)}
                assert capture.left_out == ()

        self.inside(scenario)

    def test_a_capture_of_nothing_says_so(self) -> None:
        async def scenario(env: Environment) -> None:
            with pytest.raises(FileNotFoundError):
                await env.capture("missing")
            await env.exec("mkdir empty")
            capture = await env.capture("empty")
            assert (capture.files, capture.left_out) == ((), ())

        self.inside(scenario)

    def test_a_capture_follows_no_link(self) -> None:
        async def scenario(env: Environment) -> None:
            await env.exec(
                "mkdir out private; echo s > private/key; echo k > out/kept;"
                "ln -s ../private/key out/file; ln -s ../private out/folder; ln -s / out/root;"
                "ln -s out/kept loop; ln -s . out/self; ln -s private linked"
            )
            capture = await env.capture("out")
            assert [f.path for f in capture.files] == ["kept"]
            for name in ("file", "folder", "root", "self"):
                assert any(text.startswith(f"{name}: ") for text in capture.left_out)
            assert (await env.capture("linked")).files == ()

        self.inside(scenario)

    def test_a_capture_is_not_held_up_by_what_is_no_file(self) -> None:
        async def scenario(env: Environment) -> None:
            await env.exec("mkdir out; mkfifo out/pipe; echo k > out/kept")
            capture = await env.capture("out")
            assert [f.path for f in capture.files] == ["kept"]
            assert [text.partition(":")[0] for text in capture.left_out] == ["pipe"]

        self.inside(scenario)

    def test_a_capture_keeps_its_limits_and_names_what_it_leaves_out(self) -> None:
        async def scenario(env: Environment) -> None:
            await env.exec("mkdir out; for i in 1 2 3 4; do head -c 1000 /dev/zero > out/$i; done")
            await env.exec("truncate -s 100G out/0huge")
            few = await env.capture("out", CaptureLimits(max_files=2))
            assert len(few.files) == 2
            assert len(few.left_out) == 3
            small = await env.capture("out", CaptureLimits(max_bytes=3500))
            assert sorted(f.path for f in small.files) == ["1", "2", "3"]
            left_out = sorted(text.partition(":")[0] for text in small.left_out)
            assert left_out == ["0huge", "4"]
            assert all(": " in text and "\n" not in text for text in small.left_out)

        self.inside(scenario)

    def test_a_capture_outlives_files_that_cannot_be_read_or_named(self) -> None:
        async def scenario(env: Environment) -> None:
            await env.exec(
                "mkdir -p out/shut; echo x > out/closed; chmod 0 out/closed out/shut;"
                r'echo x > "out/$(printf "caf\351")"; echo k > out/kept'
            )
            capture = await env.capture("out")
            assert "kept" in [f.path for f in capture.files]
            for text in (*(f.path for f in capture.files), *capture.left_out):
                text.encode()  # no surrogates: records are UTF-8
            names = [f.path for f in capture.files] + list(capture.left_out)
            assert any(name.startswith("closed") for name in names)
            assert any(name.startswith("caf") for name in names)

        self.inside(scenario)
