# Components as static pods: functions for sh, after those of package staticpod. $replica_pods has the definitions,
# $replica_inherited the manifests that somebody else has written, and $replica_moved other files with the same pods, which
# may have the name of a definition.

# replica_note NAME: prints a note of what a start of the component reads now: its definition and its inputs. The last
# word makes every start one.
replica_note() {
  replica_definition=$replica_pods/$1.yaml
  replica_inputs=$(sed -n 's|^    terraform-provider-kube/inputs: ||p' "$replica_definition" | tr ',' ' ')
  # shellcheck disable=SC2086 # paths without blanks
  sha256sum -- "$replica_definition" $replica_inputs | while read -r replica_digest replica_file; do
    printf '%s:%s ' "$replica_digest" "$replica_file"
  done
  date +start-%s%N
}

# replica_manifest NOTE: a filter that adds a note to a definition. Without one, it removes what a start has added.
replica_manifest() {
  awk -v note="$1" '
    noted && sub(/^ *value: [^ ]+/, "&") { $0 = substr($0, 1, match($0, /: /) + 1) word($0) (note == "" ? "" : " " note) }
    { noted = /- name: KUBE_STARTED_WITH$/; print }
    function word(line) { sub(/^ *value: /, "", line); sub(/ .*/, "", line); return line }'
}

# replica_running NAME: prints the identities of the containers of a component that run. It fails if the container
# runtime does not answer.
replica_running() {
  replica_all=$(pod_containers "$1") || return 1
  printf '%s\n' "$replica_all" | while read -r replica_id replica_state replica_pid; do
    case $replica_state in *RUNNING) echo "$replica_id" ;; esac
  done
}

# replica_start NAME: starts a component from its definition.
replica_start() {
  (umask 077 && replica_manifest "$(replica_note "$1")" <"$replica_pods/$1.yaml" >"$replica_pods/.$1.started")
  replica_run "$1" "$replica_pods/.$1.started"
  rm -f -- "$replica_pods/.$1.started" "$replica_inherited/.$1.returns"
}

# replica_leave NAME…: stops components that return later, or that another runtime takes over.
replica_leave() {
  for replica_name; do pod_mark "$replica_name" "$replica_inherited"; done
  replica_stop "$@"
}

# replica_return NAME: starts a component from the manifest that somebody else has written.
replica_return() {
  replica_run "$1" "$replica_inherited/$1.yaml"
  rm -f -- "$replica_inherited/.$1.returns"
}

# replica_resume NAME: starts a component from whatever it ran from before replica_leave. One that was not stopped is
# stopped first: it goes on with the manifest that it has.
replica_resume() {
  ! pod_inherited "$1" || replica_leave "$1"
  if pod_returns "$1" "$replica_inherited"; then replica_return "$1"; else replica_start "$1"; fi
}

# replica_run NAME MANIFEST: lets the kubelet run a component from a manifest, and waits until no container runs that
# ran before. A manifest of somebody else that is placed already, as in a rollback of a change that has not replaced it,
# starts nothing again: the kubelet goes by its bytes. Those of the provider differ with each start.
replica_run() {
  replica_name=$1
  replica_grace=$(sed -n 's/^  terminationGracePeriodSeconds: \([0-9]*\)$/\1/p' "$replica_pods/$1.yaml")
  replica_until=$(($(date +%s) + ${replica_grace:-30} + 90))
  pod_keep "$1" "$replica_inherited"
  (umask 077 && mkdir -p -- "$replica_moved")
  pod_duplicates "$1" | while IFS= read -r replica_file; do mv -f -- "$replica_file" "$replica_moved/"; done
  ! cmp -s -- "$2" "$pod_manifests/$1.yaml" || return 0
  pod_know
  replica_old=$(replica_running "$1")
  pod_place "$1" "$2"
  for replica_id in $replica_old; do
    while replica_now=$(replica_running "$replica_name") || replica_now=$replica_old; case " $(echo "$replica_now" | tr '\n' ' ') " in
      *" $replica_id "*) ;;
      *) false ;;
      esac; do
      if [ "$(date +%s)" -ge "$replica_until" ]; then
        echo "the kubelet has not ended the container $replica_id of $replica_name: kubelet.service is" \
          "$(systemctl show --property=ActiveState --value kubelet.service)" >&2
        exit 1
      fi
      sleep 0.3
    done
  done
}

# replica_stop NAME…: takes the manifests of components away, and waits until their containers have ended.
replica_stop() {
  for replica_name; do
    [ -e "$pod_manifests/$replica_name.yaml" ] || [ -e "$replica_pods/$replica_name.yaml" ] || continue
    replica_grace=$(sed -n 's/^  terminationGracePeriodSeconds: \([0-9]*\)$/\1/p' "$replica_pods/$replica_name.yaml" \
      2>/dev/null)
    pod_keep "$replica_name" "$replica_inherited"
    pod_stop "$replica_name" "$replica_moved" "$((${replica_grace:-30} + 90))"
  done
}

# replica_kill NAME: ends the processes of a component at once, and its manifest is gone before. replica_leave follows,
# which then finds no manifest.
replica_kill() {
  pod_mark "$1" "$replica_inherited"
  pod_keep "$1" "$replica_inherited"
  rm -f -- "$pod_manifests/$1.yaml"
  pod_containers "$1" | while read -r replica_id replica_state replica_pid; do
    case $replica_state in *RUNNING) kill -KILL "$replica_pid" 2>/dev/null || true ;; esac
  done
}

# replica_age FILE: prints for how many seconds the kubelet could have run a manifest, or nothing if that is unknown.
replica_age() {
  replica_since=$(systemctl show --property=ActiveEnterTimestampMonotonic --value kubelet.service 2>/dev/null) || return 0
  case $replica_since in '' | *[!0-9]*) return 0 ;; esac
  replica_placed=$(stat -c %Y -- "$1" 2>/dev/null) || return 0
  replica_placed=$(($(date +%s) - replica_placed))
  replica_since=$(($(cut -d. -f1 /proc/uptime) - replica_since / 1000000))
  [ "$replica_placed" -ge "$replica_since" ] || replica_since=$replica_placed
  printf '%s\n' "$replica_since"
}

# replica_report NAME…: prints what the states and notes of components are read from.
replica_report() {
  for replica_name; do
    replica_file=$pod_manifests/$replica_name.yaml
    replica_definition=$replica_pods/$replica_name.yaml
    replica_kept=$replica_inherited/$replica_name.yaml
    if pod_returns "$replica_name" "$replica_inherited"; then
      printf 'replica\t%s\tkept\t%s\n' "$replica_name" "$(head -c 262144 "$replica_kept" | base64 -w 0)"
    fi
    [ -e "$replica_file" ] || [ -e "$replica_definition" ] || continue
    pod_report "$replica_name" ''
    [ ! -e "$replica_definition" ] || printf 'replica\t%s\tdefined\n' "$replica_name"
    [ -e "$replica_file" ] || continue
    printf 'replica\t%s\tplaced\n' "$replica_name"
    printf 'replica\t%s\tage\t%s\n' "$replica_name" "$(replica_age "$replica_file")"
    if ! grep -q KUBE_STARTED_WITH "$replica_file"; then
      printf 'replica\t%s\tinherited\t%s\n' "$replica_name" "$(head -c 262144 "$replica_file" | base64 -w 0)"
      continue
    fi
    replica_manifest '' <"$replica_file" | cmp -s - "$replica_definition" || printf 'replica\t%s\tedited\n' "$replica_name"
    printf 'replica\t%s\tversion\t%s\n' "$replica_name" \
      "$(sed -n 's|^    terraform-provider-kube/version: ||p' "$replica_file" | head -c 64)"
  done
}

# replica_pid NAME: prints the process of a component, or nothing.
replica_pid() {
  [ -e "$replica_pods/$1.yaml" ] || return 0
  pod_containers "$1" | while read -r replica_id replica_state replica_pid; do
    case $replica_state in *RUNNING) echo "$replica_pid" ;; esac
  done | head -n 1
}

# replica_processes NAME…: prints the arguments, limits and reservations of processes, for ReadProcesses of package host.
replica_processes() {
  for replica_name; do
    replica_pid=$(replica_pid "$replica_name")
    [ -z "$replica_pid" ] || containerized "$replica_name" "$replica_pid"
  done
}
