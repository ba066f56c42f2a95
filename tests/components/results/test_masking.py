import base64
import html
import json
import random
import re
import shlex
import subprocess
from urllib.parse import quote, quote_plus

import pytest

from agentcompass.components.contracts.attempt import AttemptKey, Detail, Submission
from agentcompass.components.results.masking import Masker
from tests.components.results.records import detail, full_detail, full_trajectory

CANARY = 'zz-CANARY-93f/+= x"y'
SECOND = "hdr-0ther?canary&2"
THIRD = "canary3"
MASKER = Masker([CANARY, SECOND, THIRD])


def shapes(secret: str) -> dict[str, str]:
    return {
        "plain": secret,
        "json": json.dumps(secret),
        "json in json": json.dumps(json.dumps({"key": secret})),
        "json with escaped slashes": json.dumps(secret).replace("/", "\\/"),
        "url": quote(secret, safe=""),
        "url path": quote(secret),
        "form": quote_plus(secret),
        "encodeURIComponent": quote(secret, safe="!'()*"),
        "lower-case hex url": re.sub("%..", lambda m: m[0].lower(), quote(secret)),
        "html": html.escape(secret),
        "repr": repr(secret),
        "shell": shlex.quote(secret),
        "hex": secret.encode().hex(),
        "HEX": secret.encode().hex().upper(),
    }


@pytest.mark.parametrize("secret", [CANARY, SECOND, THIRD, "pässwörd-€", "a'b\\c\td"])
def test_every_shape_of_a_secret_is_masked(secret):
    masker = Masker([secret])
    for name, shape in shapes(secret).items():
        masked = masker.text(f"before {shape} after")
        assert "***" in masked, name
        assert masked.startswith("before "), name
        assert masked.endswith(" after"), name
        assert shape not in masked, name


@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
@pytest.mark.parametrize("secret", [CANARY, SECOND, THIRD])
def test_base64_is_masked_at_every_alignment_and_line_break(secret, encode):
    masker = Masker([secret])
    for before in range(0, 90):
        text = f"{'P' * before}{secret}{'Q' * 40}"
        encoded = encode(text.encode()).decode()
        for width in (0, 64, 76):
            lines = (
                [encoded]
                if not width
                else [encoded[i : i + width] for i in range(0, len(encoded), width)]
            )
            for joint in ("\n", "\r\n", "\\n"):
                masked = masker.text(joint.join(lines)).replace(joint, "")
                first, found, last = masked.partition("***")
                assert found
                # At most the one byte shared with a neighbour is left at either end.
                head = base64.urlsafe_b64decode(first[: len(first) // 4 * 4])
                tail = base64.urlsafe_b64decode(last[len(last) % 4 :])
                assert secret[:2].encode() not in head
                assert secret[-2:].encode() not in tail


def test_what_a_shell_prints_of_its_environment_is_masked():
    environment = {"PATH": "/usr/bin:/bin", "A": "1", "API_KEY": CANARY, "Z": "last"}
    for command in ("env", "env | base64", "env | base64 -w 0", "cat /proc/self/environ", "set"):
        printed = subprocess.run(
            ["bash", "-c", command], env=environment, capture_output=True, check=True
        ).stdout
        masked = MASKER.bytes(printed)
        assert b"***" in masked, command
        assert b"CANARY" not in masked, command
        assert b"93f/+=" not in masked, command
        assert MASKER.text(printed.decode()).encode() == masked
        data = re.sub(rb"[^A-Za-z0-9+/]", b"", masked)  # how much that is depends on PWD
        decoded = base64.b64decode(data[: len(data) // 4 * 4])
        assert b"CANARY" not in decoded, command


def test_text_without_a_secret_is_untouched_to_the_byte():
    source = random.Random(3)
    blob = source.randbytes(200_000)
    assert MASKER.bytes(blob) is blob
    text = base64.encodebytes(blob).decode() + json.dumps({"api_key": "other", "token": "t"})
    assert MASKER.text(text) is text
    value = {"api_key": "not the key", "password": ["x"], "secret": {"deep": 1.5}}
    assert MASKER.value(value) == value
    assert MASKER.value(full_detail()) == full_detail()
    assert MASKER.value(full_trajectory()) == full_trajectory()


def test_a_secret_inside_a_longer_one_leaves_no_rest():
    masker = Masker(["abcd-key", "abcd-key-long-tail"])
    assert masker.text("x abcd-key-long-tail y abcd-key z") == "x *** y *** z"


def test_a_secret_read_from_a_file_with_a_newline_is_masked_without_it():
    assert Masker(["s3cret-key\n"]).text("Bearer s3cret-key,") == "Bearer ***,"


def test_short_words_and_words_for_no_key_are_not_secrets():
    masker = Masker(["", "abc", "EMPTY", "none", "Test", "not-needed", "   "])
    text = "abc EMPTY none Test not-needed"
    assert masker.text(text) is text
    assert Masker(["abcd"]).text("abcd") == "***"


def test_values_change_and_names_stay():
    value = {
        "key": CANARY,
        "list": [CANARY, 1, None, True, 2.5],
        "tuple": ("x", f"url?k={quote_plus(CANARY)}"),
        "nested": {"deep": {"deeper": CANARY.encode()}},
    }
    assert MASKER.value(value) == {
        "key": "***",
        "list": ["***", 1, None, True, 2.5],
        "tuple": ("x", "url?k=***"),
        "nested": {"deep": {"deeper": b"***"}},
    }
    assert Masker(["nested"]).value({"nested": "nested"}) == {"nested": "***"}


def test_a_key_that_holds_a_long_secret_is_masked_and_no_entry_is_lost():
    masked = MASKER.value({f"{CANARY}1": 1, f"{CANARY}2": 2, f"{CANARY}1 ": 3})
    assert "CANARY" not in json.dumps(masked)
    assert sorted(masked.values()) == [1, 2, 3]


def test_a_record_stays_readable_whatever_the_key_is():
    for word in ("scored", "django", "agent", "environment.lost", "system", "bbbb"):
        masked = Masker([word]).value(full_detail())
        assert Detail.model_validate(masked.model_dump()) == masked
        assert masked.task_id == full_detail().task_id
        assert masked.attempts[0].key == full_detail().attempts[0].key
        assert masked.content_hash == full_detail().content_hash
        assert Masker([word]).value(full_trajectory()).steps[2].source == "agent"


def test_every_free_text_of_a_record_is_masked():
    raw = full_detail().model_dump_json()
    for text in ("Repariere", "expected 1", "edited tests", "environment.lost on", "step_limit"):
        assert text in raw
        masked = Masker([text]).value(full_detail()).model_dump_json()
        assert text not in masked.replace("harness.step_limit", "")


def test_a_submission_is_touched_only_if_it_holds_the_key():
    assert MASKER.value(Submission(answer="secret api_key: none")).answer == "secret api_key: none"
    assert MASKER.value(Submission(answer=f"it is {CANARY}")).answer == "it is ***"


def test_masking_twice_is_masking_once():
    once = MASKER.value({"a": f"{CANARY} {SECOND} {THIRD}"})
    assert MASKER.value(once) == once


def test_deep_nesting_does_not_break_masking():
    deep: object = CANARY
    for _ in range(50_000):
        deep = [deep]
    assert "CANARY" not in str(MASKER.value(deep))


def test_a_task_id_is_never_masked_in_a_key():
    assert Masker(["task-1"]).value(AttemptKey(task_id="task-1", index=1)).task_id == "task-1"
    assert Masker(["task-1"]).value(detail("task-1", 1)).instruction == "Solve ***."
