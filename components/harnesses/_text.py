"""What an agent is shown of a text that is too long."""


def shorten(text: str, limit_chars: int, *, dropped_bytes: int = 0) -> str:
    """The text, or its head and tail around a line that tells how much was left out.

    `dropped_bytes`: what was cut out of the middle of the text before it came here.
    """
    if len(text) <= limit_chars:
        return text
    head = limit_chars // 2
    tail = limit_chars - head
    dropped = f"{len(text) - head - tail} characters"
    if dropped_bytes:
        dropped += f" and another {dropped_bytes} bytes"
    return f"{text[:head]}\n[... {dropped} left out ...]\n{text[len(text) - tail :]}"
