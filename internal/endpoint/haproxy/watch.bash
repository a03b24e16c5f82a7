#!/bin/bash
# watch VIPS HOSTS: keeps keepalived from taking the virtual IPs while a machine outside of the endpoint
# answers for one of them. VIPS and HOSTS, the endpoint's other machines, are addresses, separated by commas.
# Managed by terraform-provider-kube.
#
# keepalived tracks the file: with 1, it is in the state FAULT. With 0, it waits for an election (0.8 s), and
# whoever answers meanwhile makes it 1 again. A machine that has the virtual IPs keeps them.
set -u
umask 022
config=/etc/haproxy/kube
IFS=, read -ra vips <<<"$1"
IFS=, read -ra hosts <<<"$2"

# resolve ADDRESS: a datagram to the discard port makes the kernel ask the network who has the address.
resolve() { (echo >"/dev/udp/$1/9") 2>/dev/null; }

# hardware ADDRESS: prints the hardware address that the kernel knows.
hardware() {
  local entry
  entry=$(ip neighbour show "$1")
  case $entry in *' lladdr '*) entry=${entry#* lladdr } && echo "${entry%% *}" ;; esac
}

# of_a_host HARDWARE: whether one of the other machines has it.
of_a_host() {
  local host
  for host in "${hosts[@]}"; do resolve "$host"; done
  sleep 0.05
  for host in "${hosts[@]}"; do [ "$(hardware "$host")" != "$1" ] || return 0; done
  return 1
}

# look: sets who to the address of which another machine answers and its hardware address; '' if none does. held
# counts the addresses that this machine has. It fails if the network cannot be asked.
look() {
  local vip route asked=() found
  who='' held=0
  for vip in "${vips[@]}"; do
    route=$(ip -o route get "$vip" 2>/dev/null) || return 1
    case $route in
    local\ *) held=$((held + 1)) ;;
    *)
      route=${route#* dev }
      ip neighbour delete "$vip" dev "${route%% *}" 2>/dev/null
      resolve "$vip"
      asked+=("$vip")
      ;;
    esac
  done
  sleep 0.06
  for vip in "${asked[@]}"; do
    case $(ip neighbour show "$vip") in
    *' lladdr '*)
      found=$(hardware "$vip")
      if [ -n "$found" ] && ! of_a_host "$found"; then who="$vip is at hardware address $found"; fi
      ;;
    *INCOMPLETE*) ;; # the kernel has asked, and nobody has answered
    *) return 1 ;;   # a firewall may have dropped the datagram
    esac
  done
}

# serves: whether HAProxy on this machine sends requests to a replica.
serves() {
  /opt/kube/endpoint/ask /run/kube-endpoint/haproxy.sock 'show stat -1 4 -1' 2>/dev/null |
    awk -F , '$18 ~ /^UP/ { found = 1 } END { exit !found }'
}

# may NUMBER: tells keepalived.
may() {
  echo "$1" >"$config/waiting"
  state=$1
}

look || who=unknown
if [ "$held" -gt 0 ]; then may 0; else may 1; fi
systemd-notify --ready
quiet=0
while :; do
  look || who='the network cannot be asked'
  if [ "$held" -eq "${#vips[@]}" ]; then
    quiet=0
  elif [ -n "$who" ]; then
    quiet=0
    if [ "$state" -eq 0 ] && [ "$held" -eq 0 ]; then
      may 1
      echo "<5>this machine takes no address: $who"
    fi
  else
    quiet=$((quiet + 1)) # one answer may get lost
    if [ "$state" -eq 1 ] && [ "$quiet" -ge 2 ] && serves; then
      may 0
      echo "<5>nobody outside of the endpoint answers: this machine may take ${vips[*]}"
    fi
  fi
done
