"""What an agent is shown of a text that is too long."""


def shorten(text: str, limit_chars: int) -> str:
    """The text, or its head and tail around a line that tells how much was left out."""
    if len(text) <= limit_chars:
        return text
    head = limit_chars // 2
    tail = limit_chars - head
    dropped = len(text) - head - tail
    return f"{text[:head]}\n[... {dropped} characters left out ...]\n{text[len(text) - tail :]}"
