import json

import pytest

from agentcompass.components.contracts.attempt import PhaseTimes
from agentcompass.components.contracts.errors import Code
from agentcompass.components.results.headline import work_seconds
from agentcompass.components.results.metrics import compute_metrics
from agentcompass.components.results.metrics_record import Metrics
from agentcompass.components.results.numbers_shown import (
    count,
    format_cost,
    format_interval,
    format_number,
    format_seconds,
)
from agentcompass.components.results.summary import headline_lines, summary_markdown
from agentcompass.components.results.writing import to_json
from tests.components.results.records import detail, record

FACTS = {
    "benchmark": "aime|2026",
    "harness": "loop",
    "model": "org/m",
    "run id": "r1",
    "command": "agentcompass run aime loop org/m --k 2",
}


def metrics(**settings: object) -> Metrics:
    details = [
        detail("a__1", 1, 0, category="alg"),
        detail("b", 1, Code.ENVIRONMENT_START, category="geo"),
        detail("c", Code.GRADER_CRASHED, Code.ENVIRONMENT_START, category="geo"),
    ]
    planned = {"a__1": "alg", "b": "geo", "c": "geo", "d": "alg"}
    return compute_metrics(details, planned, **{"k": 2, **settings})


def test_the_summary_answers_what_the_score_is():
    text = summary_markdown(metrics(), FACTS)
    assert text.startswith("# aime\\|2026 · loop · org/m\n\n**avg@2 = 0.25**")
    assert "attempts without a score count as 0" in text
    assert "| over scored | 0.75 (2 tasks, 3 attempts) |" in text
    assert "0.375 (3 of 8 attempts scored, 4 tasks); LOW" in text
    assert "**Low coverage**" in text
    assert "over planned attempts: 4 tasks, 8 attempts" in text
    assert "Student's t over tasks" in text


def test_the_summary_says_what_has_no_score_and_whose_fault_it_was():
    text = summary_markdown(metrics(), FACTS)
    planned = "8 planned attempts = 2 correct + 1 incorrect + 3 unscored + 0 skipped + 2 missing."
    assert planned in text
    start = "environment.start (the sandbox did not open; fault: environment)"
    assert f"- 2 attempts (counted as 0): {start}\n" in text
    assert "- 2 attempts (counted as 0) never ended: d #1, d #2" in text
    excluded = summary_markdown(metrics(unscored="exclude"), FACTS)
    assert f"- 2 attempts (not counted): {start}\n" in excluded
    assert "| grader.crashed | grader | 1 | 1 | c #1: grader.crashed on c |" in text


def test_the_summary_shows_every_metric_with_its_definition():
    text = summary_markdown(metrics(), FACTS)
    for metric in metrics().metrics:
        assert f"| {metric.name} | planned | {format_number(metric.planned.value)} |" in text
        assert f"| {metric.name} | scored | {format_number(metric.scored.value)} |" in text
        assert f"- `{metric.name}`: {metric.definition}" in text
    assert "| alg | 0.25 |" in text
    assert "| geo | 0.25 |" in text


def test_the_summary_says_how_to_repeat_the_run():
    text = summary_markdown(metrics(), FACTS)
    assert "## How to repeat\n\n```bash\nagentcompass run aime loop org/m --k 2\n```" in text
    assert "| run id | r1 |" in text
    ticks = summary_markdown(metrics(), {"command": "echo ```"})
    assert "````bash\necho ```\n````" in ticks


def test_the_way_on_stands_where_attempts_lack_a_score():
    way = "agentcompass run aime loop org/m --k 2 --reuse=r1"
    text = summary_markdown(metrics(), {**FACTS, "way on": way})
    section = text.split("## Without a score")[1].split("\n## ")[0]
    assert f"```bash\n{way}\n```" in section
    assert "`analysis/analysis.md`" in section
    assert text.count(way) == 1


def test_what_was_taken_over_is_told_apart_from_what_the_run_did_itself():
    old = record("a", 1, 1, origin="r0")
    details = [detail("a", 1, 0).model_copy(update={"attempts": (old, record("a", 2, 0))})]
    found = compute_metrics(details, ["a"], k=2)
    row = dict(headline_lines(found))["taken over"]
    assert row == (
        "1 of 2 attempts from r0; this run's own: 100 in (unknown cached), 10 out in 2 calls, "
        "cost $0.2"
    )
    assert f"| taken over | {row} |" in summary_markdown(found, FACTS)
    assert "taken over" not in dict(headline_lines(metrics()))
    all_of_it = [detail("a").model_copy(update={"attempts": (old,)})]
    row = dict(headline_lines(compute_metrics(all_of_it, ["a"])))["taken over"]
    assert row == "1 of 1 attempts from r0; this run's own: no model calls"


def test_the_agents_work_is_told_without_waiting_for_the_model():
    times = PhaseTimes(run_seconds=277, waiting_seconds=272, model_seconds=3)
    attempts = (record("a", 1, 1, times=times),)
    found = compute_metrics([detail("a").model_copy(update={"attempts": attempts})], ["a"])
    time = dict(headline_lines(found))["time"]
    assert "agents worked 5.0 s in all, 4 min 32 s of waiting for the model apart" in time
    text = summary_markdown(found, FACTS)
    assert "| agent | 5.0 s |" in text
    assert "| waiting for the model (rate limits, failing endpoint) | 4 min 32 s |" in text
    side_by_side = PhaseTimes(run_seconds=10, waiting_seconds=30)
    assert work_seconds(side_by_side) == 0
    assert work_seconds(PhaseTimes()) is None


def test_foreign_text_cannot_break_a_table():
    nasty = record("a|b\n# x", 1, Code.GRADER_CRASHED)
    note = nasty.failure.model_copy(update={"message": "| pipe ` tick <b>\n\n# title"})
    bad = detail("a|b\n# x").model_copy(
        update={"attempts": (nasty.model_copy(update={"failure": note}),)}
    )
    text = summary_markdown(compute_metrics([bad], ["a|b\n# x"]), {"model": "m\n# evil"})
    assert "\n# x" not in text
    assert "\n# evil" not in text
    assert "a\\|b # x #1: \\| pipe \\` tick \\<b>" in text
    for line in text.splitlines():
        if line.startswith("| grader.crashed"):
            assert line.replace("\\|", "").count("|") == 6


def test_foreign_text_is_shown_as_it_is():
    text = summary_markdown(
        compute_metrics([detail("a", 1)], ["a"]), {"model": "a_b *c* __d__ &lt; R&D ~~e~~"}
    )
    assert text.startswith(r"# a_b \*c\* \_\_d\_\_ \&lt; R&D \~\~e\~\~" + "\n")


def test_a_run_without_scores_says_no_score():
    nothing = compute_metrics([detail("a", Code.MODEL_TIMEOUT)], ["a"])
    text = summary_markdown(nothing, {})
    assert text.startswith("# Summary\n\n**native@1 = no score**")
    assert "native@1 = 0" not in text
    lines = dict(headline_lines(nothing))
    assert lines["native@1"] == "no score"
    assert lines["coverage"] == "0 (0 of 1 attempt scored, 1 task); LOW"
    assert lines["without a score"].startswith("1 attempt: model.timeout (")
    assert not {"counted", "95 % interval", "over scored"} & set(lines)


def test_a_complete_run_says_that_nothing_was_left_out():
    text = summary_markdown(compute_metrics([detail("a", 1)], ["a"]), {})
    assert "Nothing: every attempt counts." in text
    assert "Low coverage" not in text


def test_the_excluding_headline_says_so():
    excluded = metrics(unscored="exclude")
    text = summary_markdown(excluded, FACTS)
    assert "**avg@2 = 0.75**" in text
    assert "attempts without a score are left out" in text
    assert dict(headline_lines(excluded))["over planned"] == "0.25 (4 tasks, 8 attempts)"


def test_console_lines_and_summary_and_file_hold_the_same_numbers():
    found = metrics()
    text, written = summary_markdown(found, FACTS), json.loads(to_json(found))
    for label, value in headline_lines(found):
        if label != "without a score":
            assert f"| {label} | {value} |" in text
        else:
            assert f"- {value}" in text
    lines = dict(headline_lines(found))
    assert lines["avg@2"] == format_number(written["headline"]["value"])
    low, high = written["headline"]["interval95"]
    assert lines["95 % interval"].startswith(f"{format_number(low)} to {format_number(high)} (")
    for metric in written["metrics"][1:]:
        assert lines[metric["name"]].startswith(format_number(metric["planned"]["value"]))


def test_cost_and_tokens_say_what_is_unknown():
    lines = dict(headline_lines(metrics()))
    assert lines["cost"] == "$0.9"
    assert lines["tokens"] == "600 in (unknown cached), 60 out in 12 calls"
    none = compute_metrics([], ["a"])
    assert dict(headline_lines(none))["tokens"] == "no model calls"
    assert "cost" not in dict(headline_lines(none))
    assert "unknown" not in summary_markdown(none, FACTS)
    assert "| model calls | 0 |" in summary_markdown(none, FACTS)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0, "0"),
        (-0.0, "0"),
        (1.0, "1"),
        (1 / 3, "0.3333"),
        (2 / 3, "0.6667"),
        (0.99999, "1"),
        (-0.00004, "-4.0e-05"),
        (0.00001234, "1.2e-05"),
        (1234567, "1,234,567"),
        (1234.5, "1,234.5"),
        (None, "-"),
    ],
)
def test_numbers_are_written_one_way(value, shown):
    assert format_number(value) == shown


def test_money_times_and_counts_are_written_one_way():
    assert format_cost(None) == "unknown"
    assert format_cost(1.5, partial=True) == "$1.5 (partial: what some calls cost is unknown)"
    assert format_interval((0.25, 1.0)) == "0.25 to 1"
    assert format_interval(None) == "-"
    assert [format_seconds(s) for s in (None, 0, 59.94, 59.96, 61, 3599.6, 7380)] == [
        "-",
        "0.0 s",
        "59.9 s",
        "1 min 00 s",
        "1 min 01 s",
        "1 h 00 min",
        "2 h 03 min",
    ]
    assert count(1, "task") == "1 task"
    assert count(1200, "task") == "1,200 tasks"
