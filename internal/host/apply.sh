# The fixed part of Host.Apply: functions for sh and coreutils. Go appends the calls.
# Standard input has the digests of all files, followed by their content.
# shellcheck disable=SC2086 # lists of paths without white space and patterns
umask 077
pending=/run/kube/changed # altered paths since the last completed Script (alteredDir)
changed=''
reload=''
staged=''  # pairs "staged path", renamed after all files are written
sizes=''   # of the staged files, one per line
skip=0     # bytes of standard input that unchanged files have not consumed yet
newline='
'

fail() {
  printf '%s\n' "$*" >&2
  exit 64
}

drop_staged() {
  set -- $staged
  while [ $# -gt 0 ]; do
    rm -f -- "$1"
    shift 2
  done
}
trap drop_staged EXIT

# note PATH ID: PATH is about to be altered. The mark is written first, so that an
# interruption between here and the end of Script is remembered.
note() {
  [ -d "$pending" ] || mkdir -p "$pending"
  : >"$pending/$2"
  remember "$1"
}

remember() {
  changed="$changed${changed:+ }$1"
  flush_later "${1%/*}/"
  case $1 in /etc/systemd/system/*) reload=yes ;; esac
}

# recall PATH ID: reports whether an earlier, interrupted change altered PATH.
recall() {
  [ -e "$pending/$2" ]
}

# flush_accounts: useradd and similar programs flush the files, but not their new names.
flush_accounts() {
  [ -d "$pending" ] || mkdir -p "$pending"
  : >"$pending/accounts"
  for file in passwd shadow group gshadow ''; do flush_later "/etc/$file"; done
}

group() {
  getent group "$1" >/dev/null && return
  flush_accounts
  groupadd --system "$1" || getent group "$1" >/dev/null || fail "cannot create group $1"
}

user() {
  name=$1
  shift
  [ ! -e "$pending/accounts" ] || flush_accounts
  group "$name"
  if ! getent passwd "$name" >/dev/null; then
    flush_accounts
    useradd --system --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin --comment "$comment" \
      --gid "$name" "$name" ||
      getent passwd "$name" >/dev/null || fail "cannot create user $name"
  fi
  [ $# -gt 0 ] || return 0
  has=" $(id -nG "$name") "
  for extra; do
    group "$extra"
    case $has in
    *" $extra "*) ;;
    *)
      flush_accounts
      usermod --append --groups "$extra" "$name"
      ;;
    esac
  done
}

# states PATH…: prints mode with file type (hexadecimal), owner and path of existing files.
states() {
  stat -c '%f %U:%G %n' -- "$@" 2>/dev/null || true
}

# has LINE TEXT
has() {
  case "$newline$2$newline" in *"$newline$1$newline"*) return 0 ;; esac
  return 1
}

# dir PATH ID MODE OWNER RAWMODE
dir() {
  if has "$5 $4 $1" "$dir_states"; then
    if recall "$1" "$2"; then
      remember "$1"
      flush_later "$1/"
    fi
    return
  fi
  [ -d "$1" ] || [ ! -e "$1" ] || fail "$1 exists and is not a directory"
  if [ -d "$1" ] && has "$5 $4 $1" "$(stat -L -c '%f %U:%G %n' -- "$1")"; then
    return # a link to a directory that is already correct
  fi
  note "$1" "$2"
  [ -d "$1" ] || { make_parents "$1" && mkdir -- "$1"; }
  flush_later "$1/"
  chown -- "$4" "$1"
  chmod -- "$3" "$1"
}

# stage PATH ID SIZE MODE OWNER RAWMODE UMASK: writes the new content next to PATH,
# unless PATH is already correct. The file never has more permissions than PATH will.
stage() {
  sweep "$1"
  if has "$1: OK" "$same" && has "$6 $5 $1" "$file_states"; then
    skip=$((skip + $3))
    if recall "$1" "$2"; then
      remember "$1"
      flush_later "$1"
    fi
    return
  fi
  parent=${1%/*}
  [ -d "$parent/" ] || fail "directory ${parent:-/} for $1 does not exist"
  [ ! -d "$1" ] || [ -L "$1" ] || fail "$1 exists and is a directory"
  if [ "$skip" -gt 0 ]; then
    head -c "$skip" >/dev/null
    skip=0
  fi
  staging_name "$1"
  staged="$staged $new $1"
  ids="$ids $2"
  umask "$7"
  head -c "$3" >"$new"
  umask 077
  sizes="$sizes$3$newline"
  [ "$5" = root:root ] || chown -- "$5" "$new"
  [ "$4" = 600 ] || chmod -- "$4" "$new"
}

# commit: the content reaches the disk before the name does, so that a power cut leaves
# either the old or the new file. flush_changes makes the new name permanent.
commit() {
  [ -n "$staged" ] || return 0
  set -- $staged
  files=''
  while [ $# -gt 0 ]; do
    files="$files $1"
    shift 2
  done
  [ "$(stat -c %s -- $files)$newline" = "$sizes" ] || fail "standard input ended early; nothing was renamed into place"
  flush $files
  set -- $staged
  for id in $ids; do
    note "$2" "$id"
    mv -fT -- "$1" "$2"
    shift 2
    staged="$*"
  done
}

# link PATH ID TARGET
link() {
  sweep "$1"
  if [ -L "$1" ] && [ "$(readlink -- "$1")" = "$3" ]; then
    if recall "$1" "$2"; then remember "$1"; fi
    return
  fi
  [ ! -d "$1" ] || [ -L "$1" ] || fail "$1 exists and is a directory"
  [ -d "${1%/*}/" ] || fail "directory ${1%/*} for $1 does not exist"
  staging_name "$1"
  ln -s -- "$3" "$new"
  note "$1" "$2"
  mv -fT -- "$new" "$1"
}

# gone PATH ID
gone() {
  sweep "$1"
  if [ -d "$1" ] && [ ! -L "$1" ]; then
    note_gone=''
    set +f
    for entry in "$1"/* "$1"/.[!.]* "$1"/..?*; do
      if [ -e "$entry" ] || [ -L "$entry" ]; then note_gone=no; fi
    done
    set -f
    [ -z "$note_gone" ] || return 0
    note "$1" "$2"
    rmdir -- "$1"
  elif [ -e "$1" ] || [ -L "$1" ]; then
    note "$1" "$2"
    rm -f -- "$1"
  elif recall "$1" "$2"; then
    remember "$1"
  fi
}

# reload_units UNIT…: after an interruption between writing a unit and reloading, systemd
# still has the old unit. systemd itself reports that.
reload_units() {
  [ -d /run/systemd/system ] || return 0
  if [ -z "$reload" ] && [ $# -gt 0 ]; then
    case "$(systemctl show --property=NeedDaemonReload -- "$@" 2>/dev/null || true)" in
    *=yes*) reload=yes ;;
    esac
  fi
  [ -z "$reload" ] || systemctl daemon-reload
}

# report: prints one line per altered path, then a line that ends the list.
report() {
  for path in $changed; do printf '%s\n' "$path"; done
  printf '%s\n' --
}

# finished ID…: Script has completed; nothing is pending any more.
finished() {
  [ -d "$pending" ] || return 0
  for id; do [ ! -e "$pending/$id" ] || rm -f -- "$pending/$id"; done
}
