"""The shell program that runs commands inside a Daytona sandbox. POSIX sh and coreutils or busybox.

A command is a job with an id. Starting one that was started already only waits for it, so a
call whose answer got lost is simply made again. A job lives in a session of its own, apart from
the call that started it: no lost connection ends it. Its reply stays until the client says that
it has it.

`run start ID WAIT GONE LIMIT CENTISECONDS MERGE [PAYLOAD [STDIN64]]`; without PAYLOAD (and STDIN64)
    the files ID.sh (and ID.in) beside `run` hold them. GONE: ids whose replies have arrived.
`run wait ID WAIT`: at most WAIT seconds.
`run end ID`: kill what the command started; if it has not started yet, it never will.

Answers are lines `agentcompass:ID:…:end`. A reply begins with a line of its own:
exit code; 0 or 1 each: timed out, refused, something was killed for its memory; then for each
stream the bytes there were and those kept.
"""

MARK = "AGENTCOMPASS_COMMAND"
"""Set for every command to its id: how its processes are known."""
INLINE_BYTES = 49152
"""A larger reply is fetched as a file."""

RUN = r"""
here=${0%/*} id=$2 job=$here/$2
setsid=; command -v setsid >/dev/null && setsid=setsid

now() {  # hundredths of a second
  read -r up rest < /proc/uptime
  now=${up%.*}${up#*.}
}

ooms() {  # -> ooms: how often the memory limit killed something here, if it can be known
  ooms=0
  for file in /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control; do
    [ -r "$file" ] || continue
    while read -r name value; do [ "$name" != oom_kill ] || ooms=$value; done < "$file"
    return
  done
}

await() {
  now; end=$((now + $1 * 100))
  set -- 0.02 0.02 0.03 0.05 0.05 0.1 0.1 0.2 0.2 0.3
  while [ ! -e "$job/reply" ]; do
    if [ -s "$job/pid" ]; then
      read -r pid < "$job/pid"
      if ! kill -0 "$pid" 2>/dev/null; then  # someone killed the job itself
        sleep 1
        [ -e "$job/reply" ] || finish 137
        continue
      fi
    fi
    now
    if [ "$now" -ge "$end" ]; then
      state=missing; [ ! -d "$job" ] || state=running
      echo "agentcompass:$id:$state:end"
      return
    fi
    sleep "${1:-0.4}" 2>/dev/null || sleep 1
    [ $# -eq 0 ] || shift
  done
  size=$(($(wc -c < "$job/reply")))
  if [ "$size" -le INLINE_BYTES ]; then
    echo "agentcompass:$id:reply:$(base64 < "$job/reply" | tr -d '\n'):end"
  else
    echo "agentcompass:$id:file:$size:end"
  fi
}

start() {
  if [ ! -e "$job" ]; then
    if [ $# -ge 6 ]; then
      printf %s "$6" > "$job.sh.$$" && mv -f "$job.sh.$$" "$job.sh" || return 1
    fi
    if [ $# -ge 7 ]; then
      printf %s "$7" | base64 -d > "$job.in.$$" && mv -f "$job.in.$$" "$job.in" || return 1
    fi
    detached "$0" job "$id" "$3" "$4" "$5" </dev/null >/dev/null 2>&1
  fi
}

detached() {  # not by `&`: it would make commands deaf to SIGINT and SIGQUIT
  setsid -f sh "$@" || start-stop-daemon -S -b -p "$job.daemon" -x /bin/sh -- "$@" ||
    { $setsid sh "$@" & }
}

work() {  # LIMIT CENTISECONDS MERGE
  mkdir -m 711 "$job" 2>/dev/null || exit 0  # another call started it
  limit=$1 input=/dev/null names='out err'
  echo "$limit" > "$job/limit"
  echo $$ > "$job/pid"
  ooms; echo "$ooms" > "$job/ooms"
  [ ! -e "$job.in" ] || input=$job.in
  mkfifo "$job/out.pipe" "$job/err.pipe"
  take out < "$job/out.pipe" &
  watch=
  if [ "$2" -gt 0 ]; then
    watch "$2" &
    watch=$!
  fi
  if [ "$3" = 1 ]; then
    names=out
    ( exec $setsid sh "$job.sh" "$job" < "$input" > "$job/out.pipe" 2>&1 )
  else
    take err < "$job/err.pipe" &
    ( exec $setsid sh "$job.sh" "$job" < "$input" > "$job/out.pipe" 2> "$job/err.pipe" )
  fi
  code=$?
  if [ -e "$job/timed_out" ]; then wait $watch
  elif [ -n "$watch" ]; then kill $watch 2>/dev/null
  fi
  settle
  finish $code
}

watch() {  # CENTISECONDS
  nap=; trap 'kill $nap 2>/dev/null; exit' TERM
  now; end=$((now + $1))
  while now; left=$((end - now)); [ $left -gt 0 ]; do
    hundredths=$((left % 100)); [ $hundredths -gt 9 ] || hundredths=0$hundredths
    sleep $((left / 100)).$hundredths & nap=$!
    wait $nap || sleep 1
  done
  trap '' TERM
  : > "$job/timed_out"
  main=none; { read -r main < "$job/main"; } 2>/dev/null
  slay
}

take() {  # read fd 0 to its end; keep LIMIT bytes of the head and of the tail
  exec 3<&0
  total=0 head=0 tail=0
  : > "$job/$1.head"; : > "$job/$1.tail"
  while [ ! -e "$job/$1.stop" ]; do
    part=$job/$1.part
    [ $head -gt 0 ] || part=$job/$1.head
    dd bs=65536 count=64 of="$part" <&3 2>/dev/null &
    echo $! > "$job/$1.reader"
    wait $!
    [ -s "$part" ] || break
    size=$(($(wc -c < "$part")))
    total=$((total + size))
    if [ $head -eq 0 ]; then
      head=$size
    elif [ $head -lt "$limit" ]; then
      cat "$job/$1.part" >> "$job/$1.head"; head=$((head + size))
    else
      cat "$job/$1.part" >> "$job/$1.tail"; tail=$((tail + size))
      if [ $tail -gt $((limit + 8388608)) ]; then
        tail -c "$limit" "$job/$1.tail" > "$job/$1.new"; mv -f "$job/$1.new" "$job/$1.tail"
        tail=$limit
      fi
    fi
  done
  echo $total > "$job/$1.total"
  exec cat <&3 >/dev/null  # a child in the background may go on writing
}

settle() {  # the command has ended: wait for its output, not for its children's
  for name in $names; do
    tries=0
    while [ ! -s "$job/$name.total" ] && [ $tries -lt 300 ]; do
      tries=$((tries + 1))
      if [ $tries -gt 3 ] && { read -r reader < "$job/$name.reader"; } 2>/dev/null; then
        state=; { read -r line < "/proc/$reader/stat"; } 2>/dev/null && state=${line##*) }
        # asleep: the pipe is empty, and only a child holds it open
        case $state in S*) idle=1 ;; *) idle=0 ;; esac
        if [ $idle = 1 ] || [ $tries -gt 150 ]; then
          : > "$job/$name.stop"
          kill "$reader" 2>/dev/null
        fi
      fi
      sleep 0.02 2>/dev/null || sleep 1
    done
  done
}

keep() {  # adds to sizes and files
  if [ -s "$job/$1.total" ]; then
    read -r total < "$job/$1.total"
  else
    [ ! -e "$job/$1.part" ] || cat "$job/$1.part" >> "$job/$1.tail"
    total=$(($(cat "$job/$1.head" "$job/$1.tail" 2>/dev/null | wc -c)))
  fi
  kept=$total
  if [ "$total" -le "$limit" ]; then
    [ ! -s "$job/$1.head" ] || set -- "$1" "$job/$1.head"
    [ ! -s "$job/$1.tail" ] || set -- "$@" "$job/$1.tail"
    shift
    files="$files $*"
  else
    half=$((limit / 2))
    { head -c $half "$job/$1.head"
      cat "$job/$1.head" "$job/$1.tail" | tail -c $((limit - half)); } > "$job/$1.kept"
    kept=$(($(wc -c < "$job/$1.kept")))
    files="$files $job/$1.kept"
  fi
  sizes="$sizes $total $kept"
}

finish() {  # EXIT CODE
  read -r limit < "$job/limit"
  sizes= files= timed_out=0 refused=0 starved=0
  before=0; { read -r before < "$job/ooms"; } 2>/dev/null
  ooms; [ "$ooms" -le "${before:-0}" ] || starved=1
  [ ! -e "$job/timed_out" ] || timed_out=1
  [ ! -e "$job/refused" ] || refused=1
  keep out
  keep err
  echo "$1 $timed_out $refused $starved$sizes" | cat - $files > "$job/reply.$$"
  mv -f "$job/reply.$$" "$job/reply"
  rm -f "$job"/out.[hkpt]* "$job"/err.[hkpt]* "$job.in" "$job.sh"
}

family() {  # -> found: what lives in the session of $main, below it, or bears the mark
  table=
  for stat in /proc/[0-9]*/stat; do
    { read -r line < "$stat"; } 2>/dev/null || continue
    set -- ${line##*) }
    case $1 in Z|X) ;; *) table="$table ${line%% *}:$2:$4" ;; esac
  done
  members=" $main " found= grown=1
  for file in $(grep -ls "MARK=$id" /proc/[0-9]*/environ 2>/dev/null); do
    file=${file#/proc/}; members="$members${file%%/*} "
  done
  while [ $grown = 1 ]; do
    grown=0
    for row in $table; do
      pid=${row%%:*} rest=${row#*:}; parent=${rest%%:*} session=${rest#*:}
      case $members in *" $pid "*) continue ;; esac
      case $members in *" $parent "*) session=$main ;; esac
      [ "$session" != "$main" ] || { members="$members$pid "; grown=1; }
    done
  done
  for row in $table; do
    case $members in *" ${row%%:*} "*) found="$found ${row%%:*}" ;; esac
  done
}

slay() {
  rounds=0
  while family; [ -n "$found" ] && [ $rounds -lt 100 ]; do
    kill -9 $found 2>/dev/null
    rounds=$((rounds + 1))
    sleep 0.05 2>/dev/null || sleep 1
  done
}

case $1 in
start)
  wait=$3
  for old in $4; do rm -rf "$here/$old" "$here/$old".*; done
  shift 2
  if start "$@"; then await "$wait"; else echo "agentcompass:$id:full:end"; fi ;;
wait) await "$3" ;;
job) shift 2; work "$@" ;;
end)
  if ! mkdir -m 711 "$job" 2>/dev/null; then
    tries=0
    while [ ! -s "$job/main" ] && [ $tries -lt 20 ]; do
      sleep 0.1 2>/dev/null || sleep 1
      tries=$((tries + 1))
    done
    main=none; { read -r main < "$job/main"; } 2>/dev/null
    slay
  fi
  echo "agentcompass:$id:ended:end" ;;
esac
""".replace("INLINE_BYTES", str(INLINE_BYTES)).replace("MARK", MARK)

SETUP = r"""
for place in /var/tmp /tmp "$HOME"; do
  here=$place/.agentcompass-$1
  ! { mkdir -m 711 "$here" 2>/dev/null || [ -d "$here" ]; } || break
done
printf %s "$2" > "$here/run.new" && mv -f "$here/run.new" "$here/run" || exit 1
if [ -n "$3" ] && [ ! -d "$3" ]; then
  mkdir -p "$3" || exit 1
  [ -z "$4" ] || chown "$4" "$3" 2>/dev/null
fi
cd "${3:-.}" || exit 1
shell=sh; ! command -v bash >/dev/null || shell=bash
echo "agentcompass:setup:$here:$(id -u):$(id -un):$shell:$(pwd):end"
"""
"""Arguments: token, the text of RUN, workdir or nothing, its owner or nothing. Safe to repeat."""
