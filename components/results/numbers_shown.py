"""How numbers are written for people, in one place: console, summary and report agree."""

import re


def format_number(value: float | None, missing: str = "-") -> str:
    """Up to 4 decimals without trailing zeros; whole numbers with thousands separators."""
    if value is None:
        return missing
    if value == int(value):
        return f"{int(value):,}"
    if abs(value) < 0.0001:
        return f"{value:.1e}"
    shown = f"{value:,.4f}".rstrip("0").rstrip(".")
    return "0" if shown == "-0" else shown


def format_interval(interval: tuple[float, float] | None, missing: str = "-") -> str:
    if interval is None:
        return missing
    return f"{format_number(interval[0])} to {format_number(interval[1])}"


def format_cost(cost_usd: float | None, partial: bool = False) -> str:
    if cost_usd is None:
        return "unknown"
    return f"${format_number(cost_usd)}" + (
        " (partial: what some calls cost is unknown)" if partial else ""
    )


def format_seconds(seconds: float | None) -> str:
    """`12.3 s`, `4 min 05 s`, `2 h 03 min`; `-` for a phase that was not reached."""
    if seconds is None:
        return "-"
    if round(seconds, 1) < 60:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    minutes = round(seconds / 60)
    return f"{minutes // 60:,} h {minutes % 60:02d} min"


def count(number: int, word: str) -> str:
    """`1 task`, `2 tasks`."""
    return f"{format_number(number)} {word}" + ("" if number == 1 else "s")


def fence(text: str) -> str:
    """Backticks that hold this text as Markdown code."""
    return "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
