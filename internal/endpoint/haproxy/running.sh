# Shared functions that read what HAProxy runs with.
run=/run/kube-endpoint

# answer SOCKET COMMAND: prints the answer to a command whose answer has a header. A HAProxy that ends meanwhile gives an
# empty one.
answer() {
  answered=$(/opt/kube/endpoint/ask "$run/$1" "$2") || return 1
  case $answered in *'#'*) printf '%s\n' "$answered" ;; *) return 1 ;; esac
}

# running: prints every server as HAProxy reports it: name, address, operational state
# (2 is running), administrative state (0 is none), last check (3 is passed). It fails if HAProxy does not answer.
running() {
  shown=$(answer haproxy.sock 'show servers state kube-apiserver') || return 1
  printf '%s\n' "$shown" |
    awk '!/^#/ && NF >= 19 { print $4, ($5 ~ /:/ ? "[" $5 "]" : $5) ":" $19, $6, $7, $12 }'
}

# outdated FILE: reports whether HAProxy answers, and runs with other servers than the file lists.
outdated() {
  shown=$(running) || return 1
  [ "$(printf '%s\n' "$shown" | awk 'NF { print $1, $2 }' | LC_ALL=C sort)" != \
    "$(awk '$1 == "server" { print $2, $3 }' "$1" | LC_ALL=C sort)" ]
}

