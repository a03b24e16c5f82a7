# The fixed part of Host.Observe: functions for sh, coreutils, systemd and ss. Every line
# of output is KEY<TAB>VALUE…; a missing object has no line. Go appends the calls. No
# command here may fail or change the machine.
set +eu
date '+clock	%s.%N'

first_line() { # KEY FILE
  if read -r line 2>/dev/null <"$2" || [ -n "$line" ]; then printf '%s\t%s\n' "$1" "$line"; fi
}

basics() {
  first_line machine-id /etc/machine-id
  first_line boot-id /proc/sys/kernel/random/boot_id
  first_line hostname /proc/sys/kernel/hostname
  printf 'machine\t%s\n' "$(uname -m)"
  while IFS= read -r line || [ -n "$line" ]; do
    case $line in ID=* | ID_LIKE=*) printf 'os\t%s\n' "$line" ;; esac
  done 2>/dev/null </etc/os-release
  if [ -d /run/systemd/system ]; then
    systemctl --version 2>/dev/null | { read -r _ version _ && printf 'systemd\t%s\n' "$version"; }
  fi
}

# prefixed KEY: writes KEY and a tab before every line.
prefixed() {
  while IFS= read -r line; do printf '%s\t%s\n' "$1" "$line"; done
}

files() {
  stat --printf 'file\t%f\t%U\t%G\t%s\t%n\n' -- "$@" 2>/dev/null
}

# bounded BYTES COMMAND… -- PATH…: runs the command with the paths that are regular files of at most that size. Any
# other one may have no end.
bounded() {
  most=$1 command=''
  shift
  until [ "$1" = -- ]; do command="$command $1" && shift; done
  shift
  newline='
'
  sizes=$newline$(stat -L -c '%s %n' -- "$@" 2>/dev/null)$newline
  for file; do
    shift
    size=${sizes%%" $file$newline"*} size=${size##*"$newline"}
    case $size in '' | *[!0-9]*) continue ;; esac
    if [ -f "$file" ] && [ "$size" -le "$most" ]; then set -- "$@" "$file"; fi
  done
  # shellcheck disable=SC2086 # a command with its flags
  [ $# -eq 0 ] || $command -- "$@" 2>/dev/null
}

digests() {
  bounded 1073741824 sha256sum -- "$@" | prefixed digest
}

# contents PATH…: the files with a header each, as head prints them, in base64. That is three processes for all files.
contents() {
  printf 'contents\t'
  bounded 1048576 head -v -c 1048576 -- "$@" | base64 -w 0
  echo
}

# notes PATH…: small files in directories of users other than root, who may replace them meanwhile: nothing here waits
# for a pipe, follows a link or reads without end. Each file has a header that nobody can know before.
notes() {
  read -r mark </proc/sys/kernel/random/uuid
  printf 'notes\t%s\t' "$mark"
  for file; do
    if [ -f "$file" ] && [ ! -L "$file" ]; then
      printf '%s %s\n' "$mark" "$file"
      dd if="$file" iflag=nofollow,nonblock bs=65537 count=1 2>/dev/null
    fi
  done | base64 -w 0
  echo
}

# binaries PATH…: the record next to each is "digest size mtime".
binaries() {
  newline='
'
  states=$newline$(stat -L -c '%s %Y %n' -- "$@" 2>/dev/null)$newline
  for file; do
    [ -f "$file" ] || continue
    recorded='' size='' time=''
    [ -f "$file.sha256" ] && read -r recorded size time <"$file.sha256"
    [ -n "$recorded" ] && printf 'recorded\t%s\t%s\n' "$recorded" "$file"
    case $states in
    *"$newline$size $time $file$newline"*) printf 'digest\t%s  %s\n' "$recorded" "$file" ;;
    *) digests "$file" ;;
    esac
  done
}

dir() {
  [ -d "$1" ] || return
  printf 'dir\t%s\n' "$1"
  for entry in "$1"/* "$1"/.[!.]* "$1"/..?*; do
    if [ -e "$entry" ] || [ -L "$entry" ]; then
      case $entry in *'
'*) continue ;; esac # not a name of the provider, and it could be mistaken for another line
      printf 'entry\t%s\n' "${entry##*/}"
    fi
  done
}

# shared_dir PATH MOST NAME...: the names that are there, and some of all entries, without reading or sorting these
# first. What is not printable in a name, such as a line feed, becomes a question mark.
shared_dir() {
  [ -d "$1" ] || return
  printf 'dir\t%s\n' "$1"
  shared=$1
  most=$2
  shift 2
  for name; do
    if [ -e "$shared/$name" ] || [ -L "$shared/$name" ]; then printf 'entry\t%s\n' "$name"; fi
  done
  ls -A -U -1 -N -q -- "$shared/" 2>/dev/null | head -n "$most" | prefixed entry
}

units() {
  TZ=UTC systemctl show --no-pager --property=Id,LoadState,ActiveState,SubState,UnitFileState,Result,MainPID,NRestarts,ActiveEnterTimestamp,NeedDaemonReload,InvocationID,Job -- "$@" 2>/dev/null | prefixed unit
}

listeners() {
  if command -v ss >/dev/null; then
    ss -ltnp 2>/dev/null | prefixed ss
  else
    cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | prefixed tcp
  fi
}

# disk PATH: PATH or its nearest existing parent.
disk() {
  place=$1
  until [ -e "$place" ]; do place=${place%/*}/ place=${place%/}; [ -n "$place" ] || place=/; done
  printf 'disk\t%s\t%s\n' "$(stat -f -c '%a	%S' -- "$place")" "$1"
}

# programs NAME…: a name that is none, or not that of a file, has something else than a path.
programs() {
  for name; do
    printf 'command\t%s\t' "$name"
    command -v -- "$name" || echo
  done
}

# script TEXT
script() {
  printf 'output\t%s\n' "$(sh -c "$1" kube 2>/dev/null </dev/null | base64 -w 0)"
}
