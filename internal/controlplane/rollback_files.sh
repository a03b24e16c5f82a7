# Functions for the rollback of files in $files_dir. Go adds flush.sh and the calls. $kept_dir
# has their previous contents, named by digest. Names hold no white space and no pattern
# characters.
umask 077

digest() { sha256sum <"$1" | cut -d ' ' -f 1; }

# keep NAME DIGEST: copies a file that still has that content. After an interruption the copy
# of the first call is there already.
keep() {
  [ ! -e "$kept_dir/$2" ] && [ -f "$files_dir/$1" ] || return 0
  mkdir -p -- "$kept_dir"
  cp -- "$files_dir/$1" "$kept_dir/new"
  if [ "$(digest "$kept_dir/new")" = "$2" ]; then
    flush "$kept_dir/new"
    mv -- "$kept_dir/new" "$kept_dir/$2"
  fi
  rm -f -- "$kept_dir/new"
}

# restore NAME DIGEST MODE OWNER. Redirection keeps the digest off a command line.
restore() {
  (umask 022 && mkdir -p -- "$files_dir")
  new=$files_dir/.$1.kube-before
  if [ -f "$files_dir/$1" ] && [ "$(digest "$files_dir/$1")" = "$2" ]; then
    cp -- "$files_dir/$1" "$new"
  else
    cat <"$kept_dir/$2" >"$new"
  fi
  chown -- "$4:$4" "$new"
  chmod -- "$3" "$new"
  flush "$new"
  mv -- "$new" "$files_dir/$1"
}
