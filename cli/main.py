"""The agentcompass command: run it, and turn whatever happens into lines and an exit code."""

import os
import signal
import sys
from collections.abc import Sequence

# Nothing else is imported up here: Ctrl-C must find `answer` waiting even while modules load.


def main() -> None:
    """The entry point: ends the process."""
    _insist_on_utf8()
    code = answer(sys.argv[1:])
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # from here on Ctrl-C ends without a traceback
    sys.exit(code)


def answer(arguments: Sequence[str]) -> int:
    """Carry out one command line; the exit code. Everything the user sees is printed already."""
    try:
        from agentcompass.cli import endings, streams

        streams.prepare()
        try:
            from agentcompass.cli.program import carry_out

            code = carry_out(arguments)
        except BaseException as error:  # the outer edge: no traceback reaches a user unasked
            code = endings.report(error, arguments)
        return streams.finish(code)
    except KeyboardInterrupt:
        return 130


def _insist_on_utf8() -> None:
    """Start again in UTF-8 mode where the locale would make ASCII of arguments and file names."""
    mark = "AGENTCOMPASS_UTF8"
    if sys.getfilesystemencoding().lower() in ("utf-8", "utf8") or mark in os.environ:
        return
    os.environ.update({"PYTHONUTF8": "1", mark: "1"})
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
