# Moves the content of the data directory $data into an archive $root/$member-TIME,
# of which the newest $kept are kept. Data is never copied: the archive is next to the
# data directory if that is on the same file system. Otherwise, for example if a disk
# is mounted at the data directory, it is inside it, which etcd ignores. An archive in
# progress is $root/$member.part and is renamed last, so an interrupted one continues.
# The data directory belongs to etcd's user. What is in it is trusted only after own or owned (own.sh), and paths below
# it only while that user cannot replace them: from the current directory, or after hold.

# mount_of DIRECTORY: prints the kernel's ID of the mount that the directory is on, or
# will be. A rename must not cross mounts, even if a file system is mounted twice.
mount_of() {
  place=$1
  until [ -d "$place" ]; do
    place=${place%/*}
    [ -n "$place" ] || place=/
  done
  sed -n 's/^mnt_id:[^0-9]*//p' /proc/self/fdinfo/0 <"$place"
}

# beside reports whether the archive is next to the data directory.
beside() { [ "$(mount_of "$data")" = "$(mount_of "$data-archive")" ]; }

# entries calls "$@" with each entry of the data directory that is data: not with
# archives inside it, and not with what belongs to the file system.
entries() {
  for entry in "$data"/* "$data"/.[!.]* "$data"/..?*; do
    [ -e "$entry" ] || [ -L "$entry" ] || continue
    case ${entry##*/} in archive | lost+found | .kube-renamed) continue ;; esac
    "$@" "$entry" "${entry##*/}" || return 1
  done
}

none() { false; }
free() { [ ! -e "$part/$2" ] && [ ! -L "$part/$2" ]; }
put() { mv -T -- "$1" "$part/$2"; }
drop() { rm -rf -- "$1"; }

# renames fails if the data cannot be renamed into $part: mv would copy it.
renames() {
  rm -f "$data/.kube-renamed" "$part/.kube-renamed"
  : >"$data/.kube-renamed"
  was=$(stat -c %d:%i "$data/.kube-renamed")
  mv -T "$data/.kube-renamed" "$part/.kube-renamed"
  is=$(stat -c %d:%i "$part/.kube-renamed")
  rm -f "$part/.kube-renamed"
  [ "$was" = "$is" ] && return
  echo "the content of $data cannot be renamed into $root, and data is never copied" >&2
  return 1
}

# enter makes $root, unless it is there, and goes into it.
enter() {
  cd -P -- "${root%/*}/" || exit
  own "${root##*/}"
}

# hold takes the data directory from etcd's user, who does not run, until the next start. $root and $part are root's.
hold() {
  [ ! -d "$data" ] || chown root:root "$data/"
  (
    enter
    own "$member.part"
  )
}

# finish gives $part its final name. It leaves $root again, which may be on a volume.
finish() {
  enter
  name=$member-$(date -u +%Y%m%dT%H%M%SZ)
  while [ -e "$name" ]; do
    sleep 1
    name=$member-$(date -u +%Y%m%dT%H%M%SZ)
  done
  rm -f "$member.part"/*.part
  chown -R root:root "$member.part"
  chmod 0700 "$member.part"
  sync "$member.part" 2>/dev/null || sync
  mv -T -- "$member.part" "$name"
  sync . 2>/dev/null || sync
  name=$root/$name
  cd /
}

# settle finishes the interrupted archive of an earlier member.
settle() {
  if [ -d "$part" ] && ! entries free; then finish; fi
}

# archives lists all archives of the data directory, the newest first.
archives() {
  for place in "$data-archive" "$data/archive"; do
    owned "$place" || continue
    for archive in "$place"/*-????????T??????Z; do
      [ -d "$archive" ] || continue
      case ${archive##*/} in *[!a-z0-9.TZ-]*) continue ;; esac
      printf '%s %s\n' "${archive##*-}" "$archive"
    done
  done | sort -r
}

# prune removes all but the newest $kept archives. The same number of archives with the
# snapshot of a last member is kept in addition. $name is kept even if the clock is wrong.
prune() {
  for place in "$data-archive" "$data/archive"; do
    ! owned "$place" || rm -rf -- "$place"/*.gone
  done
  all=0 last=0
  archives | while read -r _ archive; do
    all=$((all + 1)) stays=''
    [ "$all" -gt "$kept" ] || stays=yes
    if [ -e "$archive/snapshot.db" ]; then
      last=$((last + 1))
      [ "$last" -gt "$kept" ] || stays=yes
    fi
    if [ -z "$stays" ] && [ "$archive" != "$name" ]; then
      mv -T -- "$archive" "$archive.gone"
      rm -rf -- "$archive.gone"
    fi
  done
}

root=$data-archive
beside || root=$data/archive
part=$root/$member.part

# archive archives everything, prints the path, and prunes.
archive() {
  if [ -d "$part" ] || { [ -d "$data" ] && ! entries none; }; then
    hold
    settle
    [ -d "$part" ] || mkdir -m 0700 "$part"
    if ! entries none; then
      renames
      entries put
    fi
    finish
    printf 'archive %s\n' "$name"
    prune
  fi
  rmdir "$data" 2>/dev/null || true
}

# wipe removes the data, but not archived data such as the last snapshot.
wipe() {
  if [ -d "$part" ]; then
    hold
    finish
    printf 'archive %s\n' "$name"
    prune
  fi
  [ ! -d "$data" ] || entries drop
  rmdir "$data" 2>/dev/null || true
}
