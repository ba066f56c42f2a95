import itertools
import random
import string

import pytest

from agentcompass.components.contracts.errors import RequestError
from agentcompass.components.results.names import (
    check_user_name,
    namespace_part,
    safe_name,
    safe_path,
)

AWKWARD = [
    "",
    ".",
    "..",
    "...",
    "a/b",
    "a__b",
    "a_b",
    "a-b",
    "a\\b",
    "A",
    "a",
    "orgA/m",
    "orgB/m",
    "orga/m",
    "../m",
    "../../etc/passwd",
    "/abs/path/ckpt-1",
    "abs/path/ckpt-1",
    "m:latest",
    "m latest",
    "m-latest",
    "trailing.",
    "trailing",
    "trailing ",
    ".hidden",
    "-option",
    "con",
    "CON",
    "nul.txt",
    "com1.tar.gz",
    "é",
    "e",
    "e\u0301",
    "数学题-1",
    "数学题-2",
    "\U0001f600",
    "\ud83d",
    "nul\0byte",
    "line\nbreak",
    "~",
    "a~0123456789ab",
    *("x" * 180 + end for end in "abc"),
    *("y" * 99 + end for end in ("a", "aa", "ab")),
    *("Z/" * 100 + end for end in "ab"),
]


@pytest.mark.parametrize("mapping", [safe_name, namespace_part, safe_path])
def test_different_names_never_meet_even_where_case_does_not_count(mapping):
    mapped = [mapping(name).lower() for name in AWKWARD]
    clashes = [
        (a, b)
        for (a, x), (b, y) in itertools.combinations(zip(AWKWARD, mapped, strict=True), 2)
        if x == y
    ]
    assert clashes == []


@pytest.mark.parametrize("name", AWKWARD)
def test_every_name_becomes_one_short_plain_file_name(name, tmp_path):
    for mapped in (safe_name(name), namespace_part(name)):
        assert 1 <= len(mapped.encode("ascii")) <= 100
        assert not set(mapped) - set(string.ascii_letters + string.digits + "._-~")
        assert not mapped.startswith((".", "-", "~"))
        assert not mapped.endswith((".", " "))
        assert mapped.split(".")[0].lower() not in {"con", "nul", "com1"}
        (tmp_path / mapped).mkdir(exist_ok=True)
        assert (tmp_path / mapped).parent == (tmp_path / mapped / "..").resolve()


@pytest.mark.parametrize(
    "name", ["astropy__astropy-12907", "gpt-5.2", "a", "0", "_x", "x-", "swebench_verified"]
)
def test_a_safe_name_stays(name):
    assert safe_name(name) == name
    assert safe_path(name) == name


def test_the_readable_part_can_be_read():
    assert safe_name("orgA/m").startswith("orgA-m~")
    assert safe_name("/abs/path/ckpt-1").startswith("abs-path-ckpt-1~")
    assert safe_name("m:latest").startswith("m-latest~")
    assert safe_name("").startswith("unnamed~")


def test_the_mapping_is_the_same_for_ever():
    # Stored runs are found again through these names.
    assert safe_name("orgA/m") == "orgA-m~2eac679f70c9"
    assert safe_name("A") == "A~559aead08264"  # sha256 of b"A" begins with 559aead08264
    assert safe_name("") == "unnamed~e3b0c44298fc"
    assert namespace_part("a__b") == "a_b~63e5c1c455d0"
    assert safe_path("../x") == "x~d6b96a97d147"
    assert safe_path("src/Main.java") == "src/Main~1597d2955516.java"


def test_random_names_never_meet():
    source = random.Random(7)
    letters = "aAbB_-./~ é\0"
    names = {"".join(source.choices(letters, k=source.randrange(6))) for _ in range(20_000)}
    for mapping in (safe_name, namespace_part, safe_path):
        assert len({mapping(name).lower() for name in names}) == len(names)


def test_joined_parts_can_be_told_apart():
    source = random.Random(8)
    letters = "a_-A"
    triples = {
        tuple("".join(source.choices(letters, k=source.randrange(4))) for _ in range(3))
        for _ in range(5_000)
    }
    joined = {"__".join(map(namespace_part, triple)).lower() for triple in triples}
    assert len(joined) == len(triples)


@pytest.mark.parametrize("name", ["out.txt", "src/main.c", "a/b/c/d.json"])
def test_a_path_of_safe_names_stays(name):
    assert safe_path(name) == name


@pytest.mark.parametrize(
    "name", ["../x", "../../x", "/etc/passwd", "a/../../x", "a//b", "a/", "/", "", "..", "a/.."]
)
def test_no_path_leaves_its_folder(name, tmp_path):
    mapped = safe_path(name)
    target = (tmp_path / "in" / mapped).resolve()
    assert target != tmp_path / "in"
    assert target.is_relative_to(tmp_path / "in")


def test_a_mapped_path_keeps_its_suffix():
    assert safe_path("src/Main.java").startswith("src/Main~")
    assert safe_path("src/Main.java").endswith(".java")
    assert len(safe_path("D" * 120 + "/" + "E" * 120 + "/F.txt")) <= 200


@pytest.mark.parametrize("name", ["nightly", "2026.01-a", "Run_1", "x" * 100])
def test_a_users_name_stands_as_typed(name):
    check_user_name("run-id", name)


@pytest.mark.parametrize(
    "name", ["a/b", "..", ".x", "-x", "x.", "a b", "é", "a\\b", "con", "x" * 101, "a\n", "a:b"]
)
def test_a_users_name_that_cannot_be_a_folder_is_refused(name):
    with pytest.raises(RequestError, match="run-id") as caught:
        check_user_name("run-id", name)
    assert "\n" not in str(caught.value)
