"""Leave nothing in a prepared repository that is not part of its base commit's past.

A published image or a clone can hold the future: tags and branches made later, a reflog, a stash,
unreachable objects, another repository's objects borrowed through `alternates`, submodules with
their own history, caches of pip. Agents have found fixes there. What is removed is not trusted to
be gone: the check reads every object the repository still has.
"""

from agentcompass.components.benchmarks._patch import NEUTRAL
from agentcompass.components.contracts.errors import AgentCompassError, Code
from agentcompass.components.contracts.sandbox import Environment

SCRUB_SECONDS = 900.0


async def scrub(env: Environment) -> None:
    """Remove the future from the repository in the workdir. Raises environment.setup."""
    await _run(env, _SCRUB, "cleaning the repository's history")


async def check_scrubbed(env: Environment, base_commit: str) -> None:
    """Raises environment.setup unless every object is reachable from HEAD, and HEAD is the base
    commit or one commit of set-up on top of it."""
    await _run(env, _CHECK, "checking the repository's history", base_commit)


async def _run(env: Environment, body: str, what: str, *words: str) -> None:
    script = _BEFORE + NEUTRAL + _SAFE + body
    result = await env.exec(
        ["sh", "-c", script, "sh", *words], timeout_seconds=SCRUB_SECONDS, output_limit_kb=256
    )
    if result.ok:
        return
    if result.exit_code == 127:
        reason = "git is missing in the sandbox: use an image that has it"
    elif result.timed_out:
        reason = f"no end within {SCRUB_SECONDS:g} s"
    else:
        reason = (result.stderr.strip() or result.stdout.strip()).rpartition("\n")[2][:300]
    raise AgentCompassError(Code.ENVIRONMENT_SETUP, f"{what} failed: {reason}")


_BEFORE = 'OUTER_HOME="${HOME:-/nonexistent}"\n'

_SAFE = """\
export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0='*'
export GIT_NO_REPLACE_OBJECTS=1
top=$(git rev-parse --show-toplevel 2>/dev/null || true)
if [ ! -d .git ] || [ "$top" != "$(pwd -P)" ]; then
  echo "there is no repository in $PWD" >&2
  exit 3
fi
"""

_SCRUB = """\
# Borrowed objects become our own before the loan is cut.
if [ -s .git/objects/info/alternates ]; then git repack -a -d -q; fi
rm -f .git/objects/info/alternates .git/objects/info/http-alternates

git remote | while IFS= read -r name; do git remote remove "$name"; done
git config --get-regexp '^(branch|submodule|remote|url|include|includeif)\\.' 2>/dev/null \\
  | sed 's/ .*//; s/[.][^.]*$//' | sort -u \\
  | while IFS= read -r part; do git config --remove-section "$part" 2>/dev/null || true; done

head=$(git rev-parse HEAD)
branch=$(git symbolic-ref -q HEAD || true)
git for-each-ref --format='%(refname)' | while IFS= read -r ref; do
  case "$ref" in
    "$branch") ;;
    refs/tags/*)
      # A tag on the way to HEAD stays (versions are read from it), as a name for its commit.
      commit=$(git rev-parse -q --verify "$ref^{commit}" || true)
      git update-ref --no-deref -d "$ref"
      if [ -n "$commit" ] && git merge-base --is-ancestor "$commit" "$head"; then
        git update-ref --no-deref "$ref" "$commit"
      fi ;;
    *) git update-ref --no-deref -d "$ref" ;;
  esac
done
find .git -maxdepth 1 -type f -name '*_HEAD' -delete
rm -rf .git/logs .git/worktrees .git/modules .git/rr-cache .git/refs/replace .git/refs/stash \\
  .git/rebase-apply .git/rebase-merge .git/sequencer .git/lost-found .git/gitk.cache .git/lfs
rm -f .git/info/grafts .git/info/refs .git/description .git/COMMIT_EDITMSG .git/MERGE_MSG \\
  .git/SQUASH_MSG .git/BISECT_* .git/gc.log
# A submodule's own repository knows its later commits.
find . -mindepth 2 -name .git -not -path './.git/*' -prune -exec rm -rf {} +
# What patches and merges leave behind, where the repository does not track it.
git ls-files -z --others -- '*.orig' '*.rej' | xargs -0 -r rm -f --
rm -rf "$OUTER_HOME/.cache/pip" "$OUTER_HOME/.cache/uv"

find .git/objects/pack -name '*.keep' -delete 2>/dev/null || true
find .git/objects/pack -name '*.promisor' -delete 2>/dev/null || true
rm -rf .git/objects/info/commit-graph .git/objects/info/commit-graphs .git/objects/info/packs
rm -f .git/objects/pack/multi-pack-index*
git update-index -q --refresh || true
git read-tree HEAD  # staged blobs would keep themselves alive
git repack -a -d -q
git prune --expire=now
git prune-packed -q
if [ -z "$branch" ]; then  # detached: give the agent a branch to stand on
  git update-ref refs/heads/main "$head"
  git symbolic-ref HEAD refs/heads/main
fi
rm -rf .git/logs
git update-index -q --refresh || true
"""

_CHECK = """\
base=$1
fail() { echo "the repository still holds $1" >&2; exit 4; }
head=$(git rev-parse -q --verify 'HEAD^{commit}') || fail "no commit"
if [ "$head" != "$base" ]; then
  [ "$(git rev-parse -q --verify 'HEAD^1' || true)" = "$base" ] \\
    || { echo "HEAD is $head, not the base commit $base" >&2; exit 4; }
fi
[ -z "$(git remote)" ] || fail "a remote: $(git remote | head -n 1)"
for path in logs modules worktrees refs/replace objects/info/alternates info/grafts; do
  [ ! -e ".git/$path" ] || fail ".git/$path"
done
left=$(find .git -maxdepth 1 -name '*_HEAD' | head -n 1)
[ -z "$left" ] || fail "$left"
left=$(find . -mindepth 2 -name .git -not -path './.git/*' -prune | head -n 1)
[ -z "$left" ] || fail "a repository of its own: $left"
after=$(git rev-list --all --not HEAD | head -n 1)
[ -z "$after" ] || fail "a commit outside the base's past: $after"
left=$(git fsck --unreachable --no-reflogs --no-progress 2>/dev/null \\
  | grep -v '^notice' | head -n 1 || true)
[ -z "$left" ] || fail "$left"
all=$(git cat-file --batch-all-objects --batch-check='%(objectname)' | sort -u | wc -l)
reachable=$(git rev-list --objects HEAD | cut -d' ' -f1 | sort -u | wc -l)
[ "$all" = "$reachable" ] || fail "$((all - reachable)) objects outside the base's past"
"""
