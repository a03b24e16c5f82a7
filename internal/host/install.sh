# The fixed part of Host.Install: functions for sh and coreutils. Go appends the calls.
# Exit codes 64 to 69 tell Go what failed.
umask 022
staged=''
trap 'rm -rf -- $staged' EXIT

fail() { # CODE TEXT
  code=$1
  shift
  printf '%s\n' "$*" >&2
  exit "$code"
}

# prepare PATH: creates the directory and removes what an interrupted transfer left.
prepare() {
  make_parents "$1"
  sweep "$1"
  sweep "$1.sha256"
}

# verify FILE DIGEST
verify() {
  printf '%s  %s\n' "$2" "$1" | sha256sum --check --status
}

# install_file STAGED PATH DIGEST: the record is written last and renamed last. Without
# it, or if it does not match, the digest is computed again.
install_file() {
  chmod 755 "$1"
  staging_name "$2.sha256"
  record=$new
  staged="$staged $record"
  printf '%s %s\n' "$3" "$(stat -c '%s %Y' -- "$1")" >"$record"
  flush "$1" "$record"
  mv -fT -- "$1" "$2"
  mv -fT -- "$record" "$2.sha256"
  flush_later "${2%/*}/"
  flush_changes
}

# receive PATH SIZE DIGEST: reads from standard input and flushes piece by piece. A flush
# of a whole program would block etcd's log on the same disk for a second, on several
# machines at once.
receive() {
  prepare "$1"
  staging_name "$1"
  received=$new
  staged=$received
  dd of="$received" bs=8M iflag=fullblock oflag=dsync status=none
  [ "$(stat -c %s -- "$received")" = "$2" ] || fail 64 "the transfer was interrupted"
  verify "$received" "$3" || fail 65 "SHA-256 mismatch: the received file does not match $3"
  install_file "$received" "$1" "$3"
}

# fetch URL FILE: https only, including redirects. A server that sends nothing for a minute does not keep the machine
# waiting, which may have the turn of its cluster.
fetch() {
  if command -v curl >/dev/null; then
    status=$(curl --silent --show-error --location --proto =https --proto-redir =https \
      --retry 3 --connect-timeout 20 --speed-limit 1 --speed-time 60 --output "$2" \
      --write-out '%{http_code}' -- "$1") ||
      fail 66 "curl could not download $1"
    case $status in
    200) ;;
    404 | 410) fail 67 "HTTP $status: $1" ;;
    *) fail 66 "HTTP $status: $1" ;;
    esac
  elif command -v wget >/dev/null; then
    fetch_with_wget "$1" "$2"
  else
    fail 68 "neither curl nor wget is installed"
  fi
}

# wget follows a redirect to plain http without an error: such a download is not used.
fetch_with_wget() {
  log="$work/wget.log"
  code=0
  wget --tries=3 --timeout=20 --server-response --output-document="$2" -- "$1" >"$log" 2>&1 || code=$?
  if grep -qiE '^ *location: *http:' "$log"; then fail 66 "$1 redirects to plain http"; fi
  [ "$code" -ne 0 ] || return 0
  if grep -qE 'HTTP/[0-9.]+ (404|410)' "$log"; then fail 67 "HTTP 404: $1"; fi
  tail -n 3 "$log" >&2
  fail 66 "wget could not download $1"
}

# published SUMS NAME: prints the digest of NAME from a file with either one digest, or
# lines "digest  name".
published() {
  while read -r digest name _ || [ -n "$digest" ]; do
    case $name in '' | "$2" | "*$2") printf '%s\n' "$digest" && return ;; esac
  done <"$1"
}

# download URL CHECKSUM-URL DIRECTORY: downloads to $work/file and verifies it.
download() {
  make_parents "$3/fetch"
  sweep "$3/fetch"
  staging_name "$3/fetch"
  work=$new
  staged=$work
  mkdir -m 700 -- "$work"
  fetch "$2" "$work/sums"
  want=$(published "$work/sums" "${1##*/}")
  [ "${#want}" -eq 64 ] || fail 65 "$2 has no SHA-256 for ${1##*/}"
  fetch "$1" "$work/file"
  verify "$work/file" "$want" || fail 65 "SHA-256 mismatch: $1 does not match $want from $2"
}

unpack() {
  mkdir -- "$work/tree"
  tar -xzf "$work/file" -C "$work/tree" --no-same-owner || fail 66 "the archive cannot be extracted"
  rm -f -- "$work/file"
}

# take PATH: installs the file of that name from the archive.
take() {
  found=$(find "$work/tree" -type f -name "${1##*/}" | head -n 1)
  [ -n "$found" ] || fail 67 "the archive contains no file ${1##*/}"
  place "$found" "$1"
}

# take_file PATH: installs the download itself.
take_file() {
  place "$work/file" "$1"
}

place() { # FILE PATH
  prepare "$2"
  sum=$(sha256sum -- "$1")
  install_file "$1" "$2" "${sum%% *}"
}
