"""The shell scripts behind the files of a sandbox. They run as root of the container.

Exit codes: 102 not found, 113 not permitted, 120 not a directory, 121 a directory, 128 the disk
that the engine gives is full.
"""

READ = r"""
[ -d "$1" ] && exit 121
[ -e "$1" ] || exit 102
[ -f "$1" ] && [ -r "$1" ] || exit 113
[ -z "$2" ] && exec cat < "$1"
exec head -c "$2" < "$1"
"""
"""Arguments: the path, how many bytes at most or nothing. Opened by the shell, for names like `-`.
The limit is kept inside: what nobody wants any more would be read by the engine to its end."""

_PARENTS = r"""
umask 022
make() {
  [ -d "${1:-/}" ] && return 0
  [ -e "$1" ] || [ -L "$1" ] && exit 120
  make "${1%/*}"
  mkdir -- "$1" 2>/dev/null || [ -d "$1" ] || exit 113
  [ -z "$owner" ] || chown -- "$owner" "$1"
}
"""

WRITE = (
    _PARENTS
    + r"""
take() {
  [ -d "$1" ] && [ ! -L "$1" ] && exit 121
  make "${1%/*}"
  beside=${1%/*}/$2
  if ! cat > "$beside"; then
    [ "$(stat -c %d "${1%/*}/")" = "$(stat -c %d /)" ] && full=128 || full=1
    rm -f -- "$beside"
    exit $full
  fi
  { [ -z "$owner" ] || chown -- "$owner" "$beside"; } && chmod "$3" "$beside" &&
    rm -f -- "$1" && mv -- "$beside" "$1" || { rm -f -- "$beside"; exit 113; }
}
owner=$4
head -c "$5" | { (take "$@"); code=$?; cat > /dev/null; exit $code; }
"""
)
"""Arguments: path, a name to write under first, mode, owner or nothing, size. All of the content is
read, also where it cannot be kept: the engine waits up to minutes for who reads no further."""

PARENTS = (
    _PARENTS
    + r"""
owner=$3
if [ "$2" = folder ]; then
  make "${1%/}"
else
  [ -d "$1" ] && exit 121
  make "${1%/*}"
fi
"""
)
"""Arguments: path, `folder` or `file`, owner or nothing."""

IDENTITY = r"""
while read -r key value rest; do
  case $key in Uid:) uid=$value ;; Gid:) gid=$value ;; esac
done < /proc/self/status
echo $uid $gid
"""

OOM_KILLS = r"""
kills=0
for file in /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control; do
  [ -r $file ] && while read -r key value; do [ "$key" = oom_kill ] && kills=$value; done < $file
done
echo $kills
"""

LIST = r"""
[ -e "$1" ] || [ -L "$1" ] || exit 102
[ -d "$1" ] || exit 120
root=$1 sized=$2 seen=0
shift 2
for step; do
  [ -L "$step" ] && { printf 'L 0 0 %s\0' "$step"; exit 0; }
done
walk() {
  for entry in "$1"/* "$1"/.[!.]* "$1"/..?*; do
    if [ -L "$entry" ]; then printf 'l 0 0 %s\0' "$entry"
    elif [ -d "$entry" ]; then continue
    elif [ -f "$entry" ]; then
      if [ $sized -gt 0 ]; then
        sized=$((sized - 1))
        told=$(stat -c '%f %s' -- "$entry") && printf 'f %s %s\0' "$told" "$entry"
      else printf 'f 0 -1 %s\0' "$entry"
      fi
    elif [ -p "$entry" ]; then printf 'p 0 0 %s\0' "$entry"
    elif [ -S "$entry" ]; then printf 's 0 0 %s\0' "$entry"
    elif [ -e "$entry" ]; then printf 'd 0 0 %s\0' "$entry"
    else continue
    fi
    seen=$((seen + 1))
    [ $seen -gt 200000 ] && { printf 'M 0 0 %s\0' "$1"; exit 0; }
  done
  for entry in "$1"/* "$1"/.[!.]* "$1"/..?*; do
    [ -d "$entry" ] && [ ! -L "$entry" ] && walk "$entry"
  done
}
walk "${root%/}"
exit 0
"""
"""Arguments: directory, how many files to ask the size of, paths that must be no links. Prints
`kind mode size path` and a NUL for everything that is no directory."""

CONTENTS = r"""
nonce=$1
shift
while [ $# -gt 1 ]; do
  if [ -L "$1" ] || [ ! -f "$1" ]; then code=102
  else head -c "$2" < "$1" 2>/dev/null; code=$?
  fi
  printf '\036%s %s\036' "$nonce" $code
  shift 2
done
"""
"""Arguments: a nonce, then path and size of each file. A mark ends each file's bytes."""
