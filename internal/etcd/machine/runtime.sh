# Starts and stops the member of this machine by whatever runs it: a unit of systemd, or a static pod whose definition
# the kubelet gets a copy of. Go sets the variables member_*, and defines the functions of static pods.
member_is_pod() {
  [ ! -e "$member_unit_file" ] || return 1
  [ -e "$member_definition" ] || [ -e "$pod_manifests/$member_pod.yaml" ]
}

# member_keep: keeps the manifest that the kubelet runs, before it is taken away: one that somebody else has written, and
# the provider's if the definition was lost.
# shellcheck disable=SC2154
member_keep() {
  pod_keep "$member_pod" "$member_inherited"
  if [ ! -e "$member_definition" ] && [ -d "${member_definition%/*}" ] && [ -e "$pod_manifests/$member_pod.yaml" ] &&
    ! pod_inherited "$member_pod"; then
    pod_copy "$pod_manifests/$member_pod.yaml" "${member_definition%/*}" "$member_pod"
  fi
}

# member_stop: stops the member, until the next start.
member_stop() {
  if member_is_pod; then
    member_keep
    # shellcheck disable=SC2154,SC2086 # a list of numbers
    pod_stop "$member_pod" "$member_moved" 120 $member_ports
  else
    systemctl stop "$member_unit"
  fi
}

# member_defined: whether the machine has what runs a member.
member_defined() {
  member_is_pod || [ "$(systemctl show --property=LoadState --value "$member_unit")" != not-found ]
}

# member_stop_for_good: stops the member, also at boot. A missing unit counts as stopped.
member_stop_for_good() {
  if member_is_pod; then
    member_stop
  elif member_defined; then
    systemctl disable --quiet "$member_unit" 2>/dev/null || true
    systemctl stop "$member_unit"
    systemctl reset-failed "$member_unit" 2>/dev/null || true
  fi
}

# member_start: starts the member, which was stopped, and does not wait until it serves.
member_start() {
  member_own
  if member_is_pod; then
    member_guard
    pod_place "$member_pod" "$member_definition"
    rm -f -- "$member_inherited/.$member_pod.returns"
  else
    systemctl start --no-block "$member_unit"
  fi
}

# member_return: starts the member, which was stopped, from the manifest that somebody else has written.
member_return() {
  member_own
  member_guard
  pod_place "$member_pod" "$member_inherited/$member_pod.yaml"
  rm -f -- "$member_inherited/.$member_pod.returns"
}

# member_pause: stops the member, until member_resume.
member_pause() {
  ! member_is_pod || pod_mark "$member_pod" "$member_inherited"
  member_stop
}

# member_resume: starts the member from whatever it ran from before member_pause, also if that has not stopped it. A pod
# without a manifest is not stopped again: if it takes long to end, the kubelet starts it afterwards.
member_resume() {
  ! member_is_pod || ! pod_inherited "$member_pod" || member_pause
  if [ ! -e "$member_unit_file" ] && pod_returns "$member_pod" "$member_inherited"; then
    member_return
    return
  fi
  if ! member_is_pod || [ -e "$pod_manifests/$member_pod.yaml" ]; then member_stop; fi
  member_start
}

# member_resume_stopped: member_resume, if the member was stopped. A pod that has a manifest was not: the kubelet starts it.
member_resume_stopped() {
  member_defined || return 0
  if member_is_pod; then
    [ -e "$pod_manifests/$member_pod.yaml" ] || member_resume
    return
  fi
  case $(member_pid) in '' | 0) member_resume ;; esac
}

# member_directory: prints the data directory in the definition of the member; nothing without one.
member_directory() {
  member_from=$member_unit_file
  ! member_is_pod || member_from=$member_definition
  sed -n 's|^.*--data-dir=\(/[A-Za-z0-9._/-]*\).*$|\1|p' "$member_from" 2>/dev/null | head -n 1
}

# member_own: gives the data and the keys to the user that runs the member: that of the unit, or root for a static pod,
# which perhaps has no capability to read what belongs to others. Archives inside the data directory stay root's.
member_own() {
  member_owner=$member_user
  ! member_is_pod || member_owner=root
  member_data=$(member_directory)
  [ -n "$member_data" ] && [ -d "$member_data" ] || return 0
  # With the slash, a link to the directory stands for the directory.
  if [ -n "$(find "$member_data/" \( -path "$member_data/archive" -o -path "$member_data/lost+found" \) -prune -o \
    ! -user "$member_owner" -print -quit)" ]; then
    chown "$member_owner:$member_owner" -- "$member_data/"
    for member_entry in "$member_data"/* "$member_data"/.[!.]* "$member_data"/..?*; do
      case ${member_entry##*/} in archive | lost+found) continue ;; esac
      if [ -e "$member_entry" ] || [ -L "$member_entry" ]; then
        chown -RhP "$member_owner:$member_owner" -- "$member_entry"
      fi
    done
  fi
  for member_file in $member_keys; do
    if [ -f "$member_file" ] && [ ! -L "$member_file" ]; then
      chown -h "$member_owner:$member_owner" -- "$member_file"
    fi
  done
}

# member_leave: stops the member for good, and removes what runs it, so that another runtime can run it. Repeated after
# it was cut off, it does what is left.
member_leave() {
  ! member_is_pod || pod_mark "$member_pod" "$member_inherited"
  member_stop_for_good
  if member_is_pod; then
    rm -f -- "$member_definition" "$member_link" "$member_link.new"
  else
    rm -rf -- "$member_unit_file.d"
    rm -f -- "$member_unit_file"
    flush "${member_unit_file%/*}"
    systemctl daemon-reload
  fi
  flush "$member_config"
}

# member_pid: prints the process of the member; 0 or nothing if it does not run.
member_pid() {
  if member_is_pod; then
    pod_containers "$member_pod" 2>/dev/null | sed -n 's/^[^ ]* [A-Z_]*RUNNING \([0-9]*\)$/\1/p' | head -n 1
  else
    systemctl show --property=MainPID --value "$member_unit"
  fi
}

# member_guard: sets the link without whose target the kubelet does not start the pod: a member that is not
# established may start without data, any other one only with its data.
member_guard() {
  member_is_pod || return 0
  member_target=$(member_directory)/member
  [ ! -e "$member_env" ] || member_target=$member_config
  [ "$(readlink -- "$member_link" 2>/dev/null)" != "$member_target" ] || return 0
  ln -sfn -- "$member_target" "$member_link.new"
  mv -fT -- "$member_link.new" "$member_link"
  flush "$member_config"
}

# member_report IMAGE: reports how the static pod runs, if there is one, or one is wanted, with this image.
member_report() {
  if [ -n "$1" ] || member_is_pod; then
    pod_report "$member_pod" "$1"
    printf 'guard\t%s\n' "$(readlink -- "$member_link" 2>/dev/null)"
  fi
}
