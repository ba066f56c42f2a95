"""What runs inside a sandbox beside the task's own commands: small scripts for any POSIX `sh`.

Their arguments stay short (Modal allows 64 KiB in all); anything long goes through stdin.
"""

MARK = "AGENTCOMPASS_COMMAND"
"""A variable that tells a command and what it started from everything else."""

MISSING, IS_DIRECTORY, NOT_A_FILE, CUT_SHORT, NOT_A_DIRECTORY, IS_LINK = range(71, 77)

PREPARE = """
# workdir or nothing -> the workdir, and a shell
if [ -n "$1" ]; then mkdir -p -- "$1" && cd -- "$1" || exit 1; fi
printf '%s\\n' "$(command -v bash || echo /bin/sh)"
pwd
"""

WHO = """
# a user's name or number -> number, group, all groups, name, home, and how to become one
[ "$(id -u)" = "$1" ] || [ "$(id -un 2>/dev/null)" = "$1" ] && how=already
uid=$(id -u -- "$1" 2>/dev/null) || uid=
name=$1
if [ -z "$uid" ]; then
  case $1 in '' | *[!0-9]*) exit 1 ;; esac
  uid=$1 gid=$1 groups=$1
else
  gid=$(id -g -- "$1") groups=$(id -G -- "$1" | tr ' ' ,)
fi
while IFS=: read -r entry _ number _ _ directory _; do
  [ "$number" = "$uid" ] && name=$entry home=$directory && break
done </etc/passwd
if [ -n "$how" ]; then :
elif setpriv --reuid "$uid" --regid "$gid" --groups "$groups" true 2>/dev/null; then how=setpriv
elif su -s /bin/sh -c true "$name" 2>/dev/null; then how=su
else how=none
fi
printf '%s\\n' "$uid" "$gid" "$groups" "$name" "${home:-/}" "$how"
"""

LAUNCH = """
# directory or nothing, stdin?, merge?, file with a long line, end mark, argv: runs it and marks
# the end of its own output, which what it left in the background may go on with, by whether the
# memory limit killed something meanwhile
kills() {
  killed=0
  for file in /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control; do
    [ -r "$file" ] || continue
    while read -r word number; do [ "$word" != oom_kill ] || killed=$number; done <"$file"
  done
}
[ -z "$1" ] || cd -- "$1" || exit 126
[ -n "$2" ] || exec </dev/null
[ -z "$3" ] || exec 2>&1
[ -z "$4" ] || { exec 9<"$4"; rm -f -- "$4"; }
end=$5
shift 5
exec 7>&1 8>&2 2>/dev/null
kills
before=$killed
(exec 7>&- 8>&-; exec "$@") 2>&8
code=$?
kills
[ "$killed" = "$before" ] && end=$end. || end=$end!
printf '%s' "$end" >&7
printf '%s' "$end" >&8
exit $code
"""

KILL = """
# mark: kills all processes that bear it with all their descendants, until none is left
while :; do
  found=' '
  more=1
  while [ -n "$more" ]; do
    more=
    for folder in /proc/[0-9]*; do
      pid=${folder#/proc/}
      case $found in *" $pid "*) continue ;; esac
      read -r line <"$folder/stat" || continue
      line=${line##*) }
      set -- "$1" $line
      [ "$2" != Z ] || continue
      case $found in
        *" $3 "*) ;;
        *) tr '\\0' '\\n' <"$folder/environ" | grep -q -x -F -- "$1" || continue ;;
      esac
      found="$found$pid " more=1
    done
  done
  [ "$found" != ' ' ] || exit 0
  kill -KILL $found
done 2>/dev/null
"""

READ = f"""
# path, most bytes or nothing
if [ -d "$1" ]; then exit {IS_DIRECTORY}; fi
if [ ! -e "$1" ]; then exit {MISSING}; fi
if [ ! -f "$1" ]; then exit {NOT_A_FILE}; fi
if [ -n "$2" ]; then exec head -c "$2" -- "$1"; fi
exec cat -- "$1"
"""

WRITE = f"""
# path, parent, mode, bytes, owner or nothing: stdin, beside and renamed
set -e
if [ -d "$1" ] && [ ! -L "$1" ]; then exit {IS_DIRECTORY}; fi
made= folder=$2
while [ -n "$folder" ] && [ ! -e "$folder" ] && [ ! -L "$folder" ]; do
  made=$folder folder=${{folder%/*}}
done
mkdir -p -- "$2"
beside=$2/.agentcompass-$$
trap 'rm -f -- "$beside"' EXIT
(umask 077; cat >"$beside")
[ "$(wc -c <"$beside" | tr -d ' ')" = "$4" ] || exit {CUT_SHORT}
chmod -- "$3" "$beside"
if [ -n "$5" ]; then
  chown -- "$5" "$beside"
  [ -z "$made" ] || chown -R -- "$5" "$made"
fi
[ ! -L "$1" ] || rm -f -- "$1"
mv -f -- "$beside" "$1"
"""

UNPACK = f"""
# folder, owner or nothing: a tar archive on stdin
set -e
if [ -e "$1" ] && [ ! -d "$1" ]; then exit {NOT_A_DIRECTORY}; fi
made= folder=$1
while [ -n "$folder" ] && [ ! -e "$folder" ] && [ ! -L "$folder" ]; do
  made=$folder folder=${{folder%/*}}
done
mkdir -p -- "$1"
if [ -n "$2" ] && [ -n "$made" ]; then chown -R -- "$2" "$made"; fi
cd -- "$1"
exec tar -xpf -
"""

LIST = f"""
# folder -> all under it but folders: mode in hex, size, path, each ended by `//`, which no path
# holds
if [ -L "$1" ]; then exit {IS_LINK}; fi
if [ ! -e "$1" ]; then exit {MISSING}; fi
if [ ! -d "$1" ]; then exit {NOT_A_DIRECTORY}; fi
cd -- "$1" || exit 1
find . ! -type d -exec stat -c '%f %s %n//' {{}} +
exit 0
"""

PACK = """
# folder, paths below it -> a tar archive
cd -- "$1" || exit 1
shift
tar -cf - -- "$@"
exit 0
"""
