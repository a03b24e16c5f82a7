# Makes the data of a restored cluster's only member in $root/restoring, and proves that the etcd which will
# run serves it. Nothing else on the machine changes, except that a survivor without quorum is stopped while
# its data is copied. $root is the archive's directory (archive.sh), on the file system of the data.
# $kind is "member", "snapshot", "file", "bucket" or "fetch"; $key identifies the restore, and $source does without the
# content of a file; $snapshot and $commands are its source, or $stored in the bucket of $store_config, which the
# program $store gets ("" is the newest verified snapshot) with the age identity on standard input.
# restore_functions.sh, restore_staged.sh and runtime.sh have the rest.
work=$stage.part
received=$stage.received
# shellcheck disable=SC2034 # of restore_functions.sh
fetcher=etcd-restore-fetch.service
survivor=''
made=''

# end_fetch ends what still brings a snapshot, also for a run that was cut off.
end_fetch() { systemctl stop "$fetcher" 2>/dev/null || true; }

cleanup() {
  halt
  end_fetch
  rm -rf "$work" "$received" "$received.part"
  [ -z "$made" ] || rmdir "$root" 2>/dev/null || true
  if [ -n "$survivor" ]; then (member_resume) || true; fi
}

# plain DIRECTORY: fails if it is a link, or contains anything but files and directories. etcd makes nothing else, and
# the scratch etcd, which runs as root, would write where a link leads.
plain() {
  [ -z "$(find "$1" ! -type f ! -type d -print -quit)" ] ||
    fail "$data/member is or contains a link or a special file, and etcd makes none: find out who made it, and" \
      "remove it"
}

# copy makes a database of the survivor's data, with what is only in its log: etcd forgets the other members on a copy.
# The database is complete when etcd has closed it in order and then ended by the signal. Nothing is flushed: after a
# power cut, this begins again. The data itself is only read.
copy() {
  [ -d "$data/member" ] || fail "$data has no data of a member"
  plain "$data/member"
  room "$(($(bytes "$data/member") * 2))"
  # A crash loop is stopped too, and started again if this fails.
  if member_defined; then
    survivor=yes
    member_pause
  fi
  mkdir "$work/copy"
  cp -a --reflink=auto "$data/member" "$work/copy/"
  plain "$work/copy/member" # etcd's user could change the data until etcd was stopped
  serve "$work/copy" --force-new-cluster --unsafe-no-fsync
  # shellcheck disable=SC2034 # of restore_functions.sh
  revision=$(ask endpoint status --write-out=json 2>"$work/log" | sed -n 's/.*"revision":\([0-9]*\).*/\1/p')
  kill "$scratch"
  ended=0
  wait "$scratch" 2>/dev/null || ended=$?
  scratch=''
  [ "$ended" -eq 0 ] || [ "$ended" -eq 143 ] ||
    fail "etcd has not closed the copy of $data: it ended with $ended: $(tail -n 5 "$work/log" | cut -c 1-600)"
  snapshot=$work/copy/member/snap/db
  # shellcheck disable=SC2034 # of restore_functions.sh
  unhashed=--skip-hash-check
}

# build_copy restores the database that copy has made, and checks it meanwhile. Its revision is known before.
build_copy() {
  choose_bump
  build &
  building=$!
  sound=yes
  examine || sound=''
  wait "$building" || exit 1
  [ -n "$sound" ] || damaged
  rm -rf "$work/copy"
}

# staged reports whether what is wanted is staged.
staged() {
  [ -d "$stage/member" ] && [ -e "$stage/key" ] || return 1
  [ "$(cat "$stage/key")" = "$key" ] || [ "$(cat "$stage/source" 2>/dev/null)" = "$key" ]
}

main() {
  umask 077
  [ -d "$root" ] || made=yes
  (enter)
  if [ -e "$data/member" ]; then rm -rf "$stage" "$former"; fi
  staged || put_back
  if staged; then
    cat "$stage/report"
    echo 'reused yes'
    return
  fi
  trap cleanup EXIT
  trap 'exit 1' HUP INT TERM
  [ -e "$stage/key" ] || rm -rf "$stage"
  end_fetch
  rm -rf "$work"
  mkdir "$work"
  case $kind in
    member) copy ;;
    file) snapshot=$received ;;
    bucket)
      room 0
      # shellcheck disable=SC2034 # of restore_functions.sh
      config=$work/store.json
      printf '%s' "$store_config" >"$config"
      fetch_stored
      snapshot=$received
      ;;
    fetch)
      room 0
      fetch 'the fetch commands failed'
      # shellcheck disable=SC2034 # of restore_functions.sh
      snapshot=$received
      ;;
  esac
  if [ "$kind" = member ]; then
    build_copy
  else
    verify
    room "$size"
    choose_bump
    build
  fi
  serve "$work/data"
  report >"$work/report"
  printf 'peer %s\n' "$peer" >>"$work/report"
  halt
  printf '%s' "$key" >"$work/key"
  printf '%s' "$source" >"$work/source"
  keep
  mkdir "$stage"
  mv "$work/data/member" "$work/report" "$work/source" "$stage/"
  [ -z "$made" ] || : >"$stage/made" # the directory of archives
  sync
  # The key is last: it says that the rest is complete.
  mv "$work/key" "$stage/key"
  sync "$stage" 2>/dev/null || sync
  rm -f "$received"
  survivor=''
  cat "$stage/report"
}

main
