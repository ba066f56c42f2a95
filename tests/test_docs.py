from docs.generate import FOLDER, pages


def test_the_generated_pages_are_current() -> None:
    for name, text in pages().items():
        written = (FOLDER / name).read_text(encoding="utf-8")
        assert written == text, f"docs/{name} is not current: run `make docs`"
