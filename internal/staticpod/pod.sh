# Static pods: functions for sh, coreutils, grep, systemctl, ss, and crictl or ctr of containerd. The function flush
# must be defined. The kubelet runs what is in the directory of manifests; what a machine wants is a file elsewhere.
pod_manifests=/etc/kubernetes/manifests
pod_logs=/var/log/pods

# pod_runtime: prints the tool of the container runtime that this machine has, or nothing. The socket is that of the
# runtime if crictl has no configuration, because it would try several.
pod_runtime() {
  if command -v crictl >/dev/null 2>&1; then
    echo crictl
  elif command -v ctr >/dev/null 2>&1; then
    echo ctr
  fi
}

pod_crictl() {
  if [ ! -e /etc/crictl.yaml ] && [ -z "${CONTAINER_RUNTIME_ENDPOINT:-}" ]; then
    for pod_socket in /run/containerd/containerd.sock /run/crio/crio.sock; do
      if [ -S "$pod_socket" ]; then
        crictl --runtime-endpoint "unix://$pod_socket" --image-endpoint "unix://$pod_socket" "$@"
        return
      fi
    done
  fi
  crictl "$@"
}

# pod_node: prints the node's name of the kubelet that runs, or nothing if it is not certain: the name of the machine
# may have changed since the kubelet started, unless a pod of the control plane has it.
pod_node() {
  pod_pid=$(systemctl show --property=MainPID --value kubelet.service 2>/dev/null)
  [ -n "$pod_pid" ] && [ -r "/proc/$pod_pid/cmdline" ] || return 0
  pod_override=$(tr '\0' '\n' <"/proc/$pod_pid/cmdline" | awk '
    NR == 1 { if ($0 !~ /(^|\/)kubelet$/) exit }
    after { name = $0; after = 0 }
    $0 == "--hostname-override" { after = 1 }
    sub(/^--hostname-override=/, "") { name = $0 }
    END { print tolower(name) }')
  if [ -n "$pod_override" ]; then
    echo "$pod_override"
    return
  fi
  pod_host=$(uname -n | tr '[:upper:]' '[:lower:]')
  for pod_known in etcd kube-apiserver kube-controller-manager kube-scheduler; do
    for pod_dir in "$pod_logs/kube-system_$pod_known-${pod_host}_"*; do
      if [ -d "$pod_dir" ]; then
        echo "$pod_host"
        return
      fi
    done
  done
}

# pod_know: sets pod_on to the node's name, once in a shell: it stays the same while a script runs.
pod_know() {
  [ -z "${pod_knows:-}" ] || return 0
  pod_on=$(pod_node)
  pod_knows=yes
}

# pod_belongs NAME POD NODE: whether a pod of the kubelet on NODE is that of the component. The kubelet appends the
# node's name to that of a static pod, so etcd-events-NODE is another one. NODE and POD are empty if they are not known.
pod_belongs() {
  case ${2:-"$1-"} in
  "$1-$3") ;;
  "$1-"*"-$3") return 1 ;;
  "$1-"*) ;;
  *) return 1 ;;
  esac
}

# pod_containers NAME: prints a line "ID STATE PID" for each container of the component, running or not. It fails if
# the container runtime does not answer.
pod_containers() {
  pod_know
  pod_form='{{with index .status.labels "io.kubernetes.pod.name"}}{{.}}{{end}}'
  pod_form="$pod_form {{.status.id}} {{.status.state}} {{.info.pid}}"
  case $(pod_runtime) in
  crictl)
    pod_ids=$(pod_crictl ps --all --quiet --label io.kubernetes.pod.namespace=kube-system \
      --label "io.kubernetes.container.name=$1") || return 1
    for pod_id in $pod_ids; do
      if pod_line=$(pod_crictl inspect --output go-template --template "$pod_form" "$pod_id" 2>/dev/null) &&
        [ -n "$pod_line" ]; then
        pod_line=$(printf '%s\n' "$pod_line" | tr -d "'\"")
        ! pod_belongs "$1" "${pod_line%% *}" "$pod_on" || printf '%s\n' "${pod_line#* }"
      elif ! pod_line=$(pod_crictl ps --all --quiet --id "$pod_id") || [ -n "$pod_line" ]; then
        return 1 # one that was removed meanwhile has no line
      fi
    done
    ;;
  ctr)
    pod_tasks=$(ctr --namespace k8s.io tasks ls) || return 1
    pod_ids=$(ctr --namespace k8s.io containers ls --quiet \
      "labels.\"io.kubernetes.pod.namespace\"==kube-system,labels.\"io.kubernetes.container.name\"==$1") || return 1
    for pod_id in $pod_ids; do
      pod_line=$(ctr --namespace k8s.io containers info "$pod_id" 2>/dev/null |
        sed -n 's/.*"io\.kubernetes\.pod\.name": *"\([^"]*\)".*/\1/p' | head -n 1)
      pod_belongs "$1" "$pod_line" "$pod_on" || continue
      printf '%s\n' "$pod_tasks" | (
        while read -r pod_task pod_pid pod_status; do
          [ "$pod_task" != "$pod_id" ] || { echo "$pod_id $pod_status $pod_pid" && exit; }
        done
        echo "$pod_id EXITED 0"
      )
    done
    ;;
  *) return 1 ;;
  esac
}

# pod_directories NAME: prints the directories of the component's logs, one for each of its pods.
pod_directories() {
  pod_know
  for pod_dir in "$pod_logs/kube-system_$1-"*; do
    pod_of=${pod_dir##*/kube-system_}
    [ ! -d "$pod_dir" ] || ! pod_belongs "$1" "${pod_of%%_*}" "$pod_on" || printf '%s\n' "$pod_dir"
  done
}

# pod_image NAME: prints the image of the component's container that runs.
pod_image() {
  pod_id=$(pod_containers "$1" | sed -n 's/^\([^ ]*\) \(CONTAINER_\)\{0,1\}RUNNING .*/\1/p' | head -n 1)
  [ -n "$pod_id" ] || return 0
  case $(pod_runtime) in
  crictl) pod_crictl inspect --output go-template --template '{{.status.image.image}}' "$pod_id" | tr -d "'\"" ;;
  ctr) ctr --namespace k8s.io containers ls "id==$pod_id" | awk -v id="$pod_id" '$1 == id { print $2 }' ;;
  esac
}

# pod_named NAME FILE: whether a file, in YAML or JSON with a line for each field, has the metadata of the pod NAME in
# kube-system. Names of containers and volumes do not count.
pod_named() {
  tr -d "\"',\r" <"$2" | awk -v name="$1" '
    { depth = match($0, /[^ ]/) - 1 }
    depth < 0 { next }
    !inside { if (!over && $0 ~ /^ *metadata: *[{]?$/) { inside = 1; outer = depth; inner = -1 }; next }
    depth <= outer { inside = 0; over = 1; next }
    inner < 0 { inner = depth }
    depth == inner && $1 == "name:" { named = $2 == name }
    depth == inner && $1 == "namespace:" { placed = $2 == "kube-system" }
    END { exit !(named && placed) }'
}

# pod_duplicates NAME: prints other files that the kubelet takes for manifests of the same pod, such as a copy beside
# it: whichever comes first runs.
pod_duplicates() {
  for pod_file in "$pod_manifests"/*; do
    if [ -f "$pod_file" ] && [ "$pod_file" != "$pod_manifests/$1.yaml" ] && pod_named "$1" "$pod_file" 2>/dev/null; then
      printf '%s\n' "$pod_file"
    fi
  done
}

# pod_place NAME DEFINITION: lets the kubelet run the definition. The file appears by one rename.
pod_place() {
  pod_kubelet_recover
  [ -d "$pod_manifests" ] || (umask 077 && mkdir -p -- "$pod_manifests")
  ! cmp -s -- "$2" "$pod_manifests/$1.yaml" || return 0
  pod_copy "$2" "$pod_manifests" "$1"
}

# pod_copy FILE DIRECTORY NAME: copies a manifest into a directory, by one rename.
pod_copy() {
  (umask 077 && cp -- "$1" "$2/.$3.yaml.kube")
  flush "$2/.$3.yaml.kube"
  mv -fT -- "$2/.$3.yaml.kube" "$2/$3.yaml"
  flush "$2"
}

# pod_inherited NAME: whether the component has a manifest that somebody else has written.
pod_inherited() { [ -e "$pod_manifests/$1.yaml" ] && ! grep -q KUBE_STARTED_WITH "$pod_manifests/$1.yaml"; }

# pod_keep NAME DIRECTORY: keeps the manifest that somebody else has written, before it is taken away.
pod_keep() {
  pod_inherited "$1" || return 0
  (umask 077 && mkdir -p -- "$2")
  pod_copy "$pod_manifests/$1.yaml" "$2" "$1"
}

# pod_mark NAME DIRECTORY: notes, where pod_keep keeps it, whether the component runs from a manifest that somebody else
# has written, before another runtime takes it over. Without a manifest, what was noted before stays.
pod_mark() {
  [ -e "$pod_manifests/$1.yaml" ] || return 0
  if pod_inherited "$1"; then
    (umask 077 && mkdir -p -- "$2" && : >"$2/.$1.returns")
    flush "$2"
  else
    rm -f -- "$2/.$1.returns"
  fi
}

# pod_returns NAME DIRECTORY: whether the component ran from a manifest that was kept, when pod_mark was called last,
# and has none now.
pod_returns() { [ ! -e "$pod_manifests/$1.yaml" ] && [ -e "$2/.$1.returns" ] && [ -f "$2/$1.yaml" ]; }

# pod_gone NAME PORT…: whether no container of the component runs, and nothing listens on its ports.
pod_gone() {
  pod_left=$(pod_containers "$1") || return 1
  case $pod_left in *RUNNING*) return 1 ;; esac
  shift
  for pod_port; do
    [ -z "$(ss -Hltn "sport = :$pod_port" 2>/dev/null)" ] || return 1
  done
}

# pod_stop NAME MOVED SECONDS PORT…: takes the manifest away, and other manifests of the pod to the directory MOVED,
# and waits until the containers have ended and the ports are free. Without a kubelet it changes nothing.
pod_stop() {
  pod_name=$1 pod_others_to=$2 pod_seconds=$3
  shift 3
  pod_know
  pod_kubelet_is=$(systemctl show --property=ActiveState --value kubelet.service)
  if [ "$pod_kubelet_is" != active ] && ! pod_gone "$pod_name"; then
    echo "kubelet.service is $pod_kubelet_is, and only the kubelet stops the containers of $pod_name: start it" >&2
    exit 1
  fi
  pod_others=$(pod_duplicates "$pod_name")
  if [ -n "$pod_others" ]; then
    (umask 077 && mkdir -p -- "$pod_others_to")
    printf '%s\n' "$pod_others" | while IFS= read -r pod_file; do mv -f -- "$pod_file" "$pod_others_to/"; done
    flush "$pod_others_to"
  fi
  rm -f -- "$pod_manifests/$pod_name.yaml" "$pod_manifests/.$pod_name.yaml.kube"
  flush "$pod_manifests"
  pod_until=$(($(date +%s) + pod_seconds))
  until pod_gone "$pod_name" "$@"; do
    if [ "$(date +%s)" -ge "$pod_until" ]; then
      echo "the containers of $pod_name have not ended $pod_seconds s after its manifest was taken away:" \
        "kubelet.service is $(systemctl show --property=ActiveState --value kubelet.service)," \
        "containers: $(pod_containers "$pod_name" 2>&1 | tr '\n' ';')" >&2
      exit 1
    fi
    sleep 0.3
  done
  # The kubelet forgets a pod when it has removed its directory. A pod of the same name with another manifest that
  # appears before starts 10 to 15 s later.
  pod_until=$(($(date +%s) + 10))
  pod_directories "$pod_name" | while IFS= read -r pod_dir; do
    while [ -d "/var/lib/kubelet/pods/${pod_dir##*_}" ] && [ "$(date +%s)" -lt "$pod_until" ]; do sleep 0.2; done
  done
}

# pod_has_image IMAGE: whether the machine has the image. A question that fails, as on a busy machine, is repeated.
pod_has_image() {
  for pod_pause in 1 1 0; do
    if pod_found=$(pod_images "$1" 2>/dev/null); then
      [ -n "$pod_found" ]
      return
    fi
    sleep "$pod_pause"
  done
  return 1
}

# pod_images IMAGE: prints the image if the machine has it. It fails if the container runtime does not answer.
pod_images() {
  case $(pod_runtime) in
  crictl) pod_crictl images --quiet "$1" ;;
  ctr) ctr --namespace k8s.io images ls --quiet "name==$1" ;;
  esac
}

# pod_pull IMAGE: pulls an image that the machine does not have.
pod_pull() {
  ! pod_has_image "$1" || return 0
  case $(pod_runtime) in
  crictl) pod_crictl pull --quiet "$1" >/dev/null ;;
  ctr) ctr --namespace k8s.io images pull "$1" >/dev/null ;;
  *)
    echo "neither crictl nor ctr is installed" >&2
    return 1
    ;;
  esac
}

# pod_sandbox: pulls the image of sandboxes if the machine does not have it, because no Pod starts without it. A kubelet
# that frees space may have removed it: containerd pins it since 1.7 only. Other runtimes keep it.
pod_sandbox() {
  command -v containerd >/dev/null && [ -S /run/containerd/containerd.sock ] || return 0
  pod_pause=$(timeout 10 containerd config dump 2>/dev/null |
    sed -n "s/^ *sandbox\\(_image\\)\\{0,1\\} = [\"']\\([A-Za-z0-9._:\/@-]*\\)[\"']$/\\2/p" | head -n 1)
  if [ -n "$pod_pause" ] && ! pod_pull "$pod_pause"; then
    echo "the machine does not have the image of sandboxes, $pod_pause, so no Pod could start" >&2
    return 1
  fi
}

# pod_lacks IMAGE: prints the image if the machine does not have it.
pod_lacks() {
  pod_has_image "$1" || printf '%s\n' "$1"
}

# pod_import IMAGE ARCHIVE: imports an image that the machine does not have from an archive, and removes the archive. In
# the archives of Kubernetes' releases, the name of the image has the architecture as well: kube-apiserver-amd64.
pod_import() {
  if ! pod_has_image "$1"; then
    if ! command -v ctr >/dev/null 2>&1; then
      echo "ctr of containerd is not installed, which imports the archive of $1" >&2
      return 1
    fi
    ctr --namespace k8s.io images import "$2" >/dev/null
    pod_names=$(tar -xOf "$2" manifest.json 2>/dev/null | grep -o '"RepoTags": *\[[^]]*\]' |
      sed 's/.*\[//; s/\]$//' | tr -d '"' | tr ',\n' '  ')
    case $pod_names in
    "${1%:*}-"[a-z0-9]*":${1##*:} ") ctr --namespace k8s.io images tag "${pod_names% }" "$1" >/dev/null ;;
    esac
    if ! pod_has_image "$1"; then
      echo "the archive has no image $1, but: ${pod_names:-none with a name}" >&2
      return 1
    fi
  fi
  rm -f -- "$2" "$2.sha256"
}

# pod_kubelet: prints how the kubelet runs, once in a shell: its state, whether pod_kubelet_recover has something to
# take back, the directory of manifests if a flag sets it, and the files of its configuration.
pod_kubelet() {
  [ -z "${pod_told:-}" ] || return 0
  pod_told=yes pod_pid=0 pod_state=''
  while IFS='=' read -r pod_key pod_value; do
    case $pod_key in
    MainPID) pod_pid=$pod_value ;;
    ActiveState) pod_state=$pod_value ;;
    esac
  done <<POD_STATE
$(systemctl show --property=ActiveState --property=MainPID kubelet.service 2>/dev/null)
POD_STATE
  printf 'pod\tkubelet\t%s\n' "$pod_state"
  [ ! -e "$pod_former" ] || printf 'pod\tformer\tkept\n'
  [ "${pod_pid:-0}" -gt 0 ] && [ -r "/proc/$pod_pid/cmdline" ] || return 0
  pod_flag='' pod_config='' pod_dir=''
  while IFS= read -r pod_word; do
    case $pod_flag in
    --config) pod_config=$pod_word ;;
    --config-dir) pod_dir=$pod_word ;;
    --pod-manifest-path) printf 'pod\tmanifests\t%s\n' "$(printf %s "$pod_word" | base64 -w 0)" ;;
    esac
    case $pod_word in
    --config=*) pod_config=${pod_word#*=} ;;
    --config-dir=*) pod_dir=${pod_word#*=} ;;
    --pod-manifest-path=*) printf 'pod\tmanifests\t%s\n' "$(printf %s "${pod_word#*=}" | base64 -w 0)" ;;
    esac
    pod_flag=$pod_word
  done <<POD_WORDS
$(tr '\0' '\n' <"/proc/$pod_pid/cmdline")
POD_WORDS
  for pod_file in "$pod_config" "${pod_dir:-/nonexistent}"/*.conf; do
    [ ! -f "$pod_file" ] || printf 'pod\tconfig\t%s\n' "$(head -c 65536 -- "$pod_file" | base64 -w 0)"
  done
}

# pod_report NAME IMAGE: prints what State is read from, lines that begin with "pod". IMAGE may be empty.
pod_report() {
  pod_know
  printf 'pod\truntime\t%s\n' "$(pod_runtime)"
  pod_kubelet
  if [ -n "$2" ] && pod_has_image "$2"; then printf 'pod\timage\t%s\n' "$2"; fi
  if pod_lines=$(pod_containers "$1" 2>/dev/null); then
    printf 'pod\tanswers\t%s\n' "$1"
    while read -r pod_id pod_status pod_pid; do
      [ -n "$pod_id" ] || continue
      pod_note=''
      if [ "$pod_pid" -gt 0 ] 2>/dev/null; then
        pod_note=$(tr '\0' '\n' <"/proc/$pod_pid/environ" | sed -n 's/^KUBE_STARTED_WITH=//p' | base64 -w 0)
      fi
      printf 'pod\tcontainer\t%s\t%s\t%s\t%s\t%s\n' "$1" "$pod_id" "$pod_status" "$pod_pid" "$pod_note"
    done <<POD_LINES
$pod_lines
POD_LINES
  fi
  pod_duplicates "$1" | while IFS= read -r pod_file; do printf 'pod\tduplicate\t%s\t%s\n' "$1" "$pod_file"; done
  pod_directories "$1" | while IFS= read -r pod_dir; do
    for pod_file in "$pod_dir/$1"/*.log; do
      [ ! -f "$pod_file" ] || printf 'pod\tlog\t%s\t%s\n' "$1" "$(basename -- "$pod_file" .log)"
    done
  done
}

# pod_log NAME LINES: prints the last lines that the newest container of the component has written.
pod_log() {
  pod_file=$(pod_directories "$1" | while IFS= read -r pod_dir; do printf '%s\n' "$pod_dir/$1"/*.log; done |
    xargs -r ls -t 2>/dev/null | head -n 1)
  [ -z "$pod_file" ] || tail -n "$2" -- "$pod_file" | sed -E 's/^[^ ]+ (stdout|stderr) [FP] //'
}
