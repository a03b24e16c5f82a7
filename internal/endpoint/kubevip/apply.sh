# Runs after the files are in place; CHANGED lists the changed files, directories and links. The agent is restarted if
# something of it, its certificate or peers, or the program has changed, and if the machine has lost the address that it
# announces. For everything else that has changed, such as the link of a unit that was disabled, nobody has waited for
# the turn of the machine. Go sets unit, agent, run, credential, credential_name, announces (yes or no: with ARP, one
# machine has the address), length, and manifests, the paths of static pods from which the address may be taken over.
lock
if [ "$(whose)" != ours ]; then
  echo "the machine has another endpoint by now, or lost its record: $config/endpoint.json" >&2
  exit 1
fi

# takes MANIFEST: whether the kube-vip of a static pod is to be ended, or an earlier takeover has not ended it.
takes() {
  [ "$announces" = no ] || return 1
  if [ -e "$1" ]; then
    grep -qwF -- "$vip" "$1"
  else
    [ -e "$config/inherited/${1##*/}.pending" ] && [ -n "$(pods)" ]
  fi
}

for manifest in $manifests; do
  if takes "$manifest"; then
    sh "$agent" inherit "$manifest" "$credential" # the unit must not run beside it
  fi
done
rm -rf /run/kube-vip-inherit
again=no
for path in "$agent" "/etc/systemd/system/$unit" "$credential"; do
  case " $CHANGED " in
  *" $path "*) again=yes ;;
  esac
done
cmp -s "$credential" "/run/credentials/$unit/$credential_name" || again=yes
pid=$(cat "$run/pid" 2>/dev/null || true)
case $pid in
'' | *[!0-9]*) ;;
*)
  case $(readlink "/proc/$pid/exe" || true) in
  '') ;;
  *' (deleted)') again=yes ;;
  *) [ "$announces" = no ] || [ -n "$(ip -o address show to "$vip/$length")" ] || again=yes ;;
  esac
  ;;
esac
if ! systemctl is-active --quiet "$unit"; then
  systemctl reset-failed "$unit" 2>/dev/null || true
  systemctl start "$unit"
elif [ $again = yes ]; then
  systemctl restart "$unit"
fi
