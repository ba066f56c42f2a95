"""Variables under which no command waits for a person: no pager, no editor, no prompt.

Commands also have no terminal and an empty stdin; together that is what keeps an agent's
`git log`, `git commit` or `git clone` of a private repository from hanging.
"""

from collections.abc import Mapping

QUIET_COMMANDS: Mapping[str, str] = {
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "MANPAGER": "cat",
    "SYSTEMD_PAGER": "",
    "EDITOR": "true",
    "VISUAL": "true",
    "GIT_EDITOR": "true",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "false",
    "SSH_ASKPASS": "false",
    "DEBIAN_FRONTEND": "noninteractive",
    "TERM": "dumb",
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
}
"""`true` as an editor leaves the text as it is: `git commit` without -m ends with an error."""
