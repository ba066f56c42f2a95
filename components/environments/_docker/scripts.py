"""The shell scripts that run inside a sandbox: POSIX sh, its builtins and `cat`, nothing more,
unless said otherwise."""

OWN_PATH = "PATH=/usr/bin:/bin:$PATH\n"
"""For our own programs: not what an agent planted before them in the image's PATH."""

GUARD = r"""
for cat in /bin/cat /usr/bin/cat cat; do [ -x $cat ] && break; done
command -v $cat >/dev/null || { echo "the image has no cat"; exit 1; }
if [ ! -d "$1" ]; then
  mkdir -p -- "$1" || exit 1
  [ -z "$2" ] || chown "$2" "$1" || exit 1
fi
echo ready
exec >/dev/null 2>&1
while :; do
  $cat
  case $? in
    0) break ;;
    126 | 127) read -r line || break ;;
  esac
done
[ "$3" = keep ] || exit 0
exec <&-
while :; do sleep 1000; done
"""
"""The first process of a container; arguments: the working directory, its owner, `keep` or
nothing.

Its stdin is held open by AgentCompass: when that dies, however it dies, `cat` sees the end of
file and the container ends. Nothing inside can end it before: the kernel shields the first
process of a namespace from its own, and `cat` is started again when it is killed. A shell waits
for any child, so that it also reaps orphans while `cat` runs; no docker-init is needed.
"""

COMMAND = r"""
for cat in /bin/cat /usr/bin/cat cat; do [ -x $cat ] && break; done
for head in /usr/bin/head /bin/head head; do [ -x $head ] && break; done
read -r nonce bytes || exit 125
where=$1 kind=$2
shift 2
oom_kills() {
  kills=0
  for file in /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control; do
    [ -r $file ] && while read -r key value; do
      [ "$key" = oom_kill ] && kills=$value
    done < $file
  done
}
started() {
  cd "$where" || exit 126
  case $kind in
    *line*) if command -v bash >/dev/null 2>&1; then set -- bash "$@"; else set -- sh "$@"; fi ;;
  esac
  exec "$@"
}
whole() {
  oom_kills
  before=$kills
  exec 6>&2 2>/dev/null
  case $bytes in
    '') (exec 2>&6 6>&-; started "$@") ;;
    *) $head -c "$bytes" | (exec 2>&6 6>&-; started "$@") ;;
  esac
  code=$?
  exec 2>&6 6>&-
  oom_kills
  printf '\036%s %s %s %s\036' "$nonce" $code $before $kills
  printf '\036%s %s %s %s\036' "$nonce" $code $before $kills >&2
}
case $kind in
  *merged*) { whole "$@"; } 2>&1 | $cat ;;
  *) { { whole "$@"; } 2>&1 1>&4 4>&- | $cat 1>&2 4>&-; } 4>&1 | $cat ;;
esac
"""
"""One command; arguments: directory, kind (`line` or `argv`, `merged` or `apart`), the words.

The first line of stdin is a nonce and how many bytes of input follow (nothing: up to the end of
file). The nonce is in the mark that is written to both streams when the command has ended: with
its exit code and how many processes the memory limit had killed before and after. It is nowhere
where the command could read it (arguments, environment).

The output passes through `cat`: a child left in the background keeps a pipe that is read as long
as it lives. The engine's own would be closed two seconds after the command ended, and the child
be killed by its next word. What the shell says of a killed child goes to /dev/null (6 is stderr).
"""

LONG_LINE = 'IFS=; agentcompass_line="$*"; unset IFS; set --; eval "$agentcompass_line"'
"""Joins its arguments to one line: a single argument is limited to 128 KB by the kernel."""

STOP = r"""
mark=$1 found=$2
marked() {
  while IFS= read -r part || [ -n "$part" ]; do
    case $part in *"$mark"*) return 0 ;; esac
    part=
  done < "$1"
  return 1
}
while :; do
  fresh=
  for folder in /proc/[0-9]*; do
    pid=${folder#/proc/}
    [ $pid = 1 ] || [ $pid = $$ ] && continue
    case $found in *" $pid "*) continue ;; esac
    IFS= read -r stat < $folder/stat || continue
    stat=${stat##*) }
    case $stat in Z*) continue ;; esac
    stat=${stat#? }
    parent=${stat%% *}
    case $found in
      *" $parent "*) ;;
      *) marked $folder/environ || continue ;;
    esac
    kill -STOP $pid && found="$found$pid " fresh=1
  done
  [ "$fresh" ] || break
done 2>/dev/null
"""
"""Stops a command with everything it started; arguments: the text that marks its environment, and
the processes known already (` 12 13 `). `found` holds them all in the end.

All are stopped before any is killed, or a fork bomb would outrun it, and a killed parent's
children would no longer be known by it. No program is started here, not even `cat`: the
sandbox's processes may have used up what it is allowed. Beyond it is only a process that has
wiped its environment, or runs as somebody else, and whose parents are gone; it ends with the
sandbox.
"""

TELL_STOPPED = STOP + 'echo "$found"\n'

KILL = STOP + '[ "$found" = " " ] || kill -KILL $found 2>/dev/null\n:\n'
