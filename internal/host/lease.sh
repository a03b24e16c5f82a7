# Holds the lease $name until standard input ends, or no heartbeat has arrived for
# $timeout seconds. The lock ends with this process, however that ends. Changes made under
# the lease are checked against the content of the file when they begin: the token of the
# lease, its holder, and former tokens of the same holder. The file stays, unless the holder
# says (r) that it has finished: the next holder first ends what still runs under these
# leases.
umask 077
leases=/run/kube/leases
mkdir -p "$leases"
exec 9>>"$leases/$name.lock"
if ! flock -n 9; then
  echo held
  sed -n '1,2{s/[^ -~]/?/g;p}' "$leases/$name" 2>/dev/null | head -c 300
  exit 0
fi
epoch=$(cat "$leases/$name.epoch" 2>/dev/null || true)
# The files are gone after a boot: the epochs from then on are none of those before.
case $epoch in '' | *[!0-9]*) epoch=$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')00000 ;; esac
if [ -z "$expected" ]; then
  epoch=$((epoch + 1))
  echo "$epoch" >"$leases/$name.epoch.new"
  mv -f "$leases/$name.epoch.new" "$leases/$name.epoch"
elif [ "$epoch" != "$expected" ]; then
  echo changed
  exit 0
fi
# hold TOKENS: writes the file, with the former tokens under which commands may still run.
hold() {
  printf '%s\n%s\n%s\n' "$token" "$holder" "$1" >"$leases/$name.new"
  mv -f "$leases/$name.new" "$leases/$name"
}
former=$(sed -n '1p;3p' "$leases/$name" 2>/dev/null | tr '\n' ' ' | grep -oE '\b[0-9a-f]{16}\b' | tr '\n' ' ')
hold "$former"
if [ -z "$expected" ] && [ -n "$former" ]; then
  # shellcheck disable=SC2086 # words
  kill_under_leases $former
  hold ''
fi
echo "taken $epoch"
released=''
while beat=$(exec 9>&-; exec timeout "$timeout" head -c 1); do
  case $beat in
  '') break ;;
  r) released=yes && break ;;
  esac
done
[ -z "$released" ] || rm -f "$leases/$name"
