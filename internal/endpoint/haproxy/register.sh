# Registers server $name at $address and waits up to $seconds until its check has
# passed.
if [ ! -e "$backends" ]; then
  printf '%s' "$header" >"$config/.backends.new"
  flush "$config/.backends.new"
  mv "$config/.backends.new" "$backends"
fi
put "$line"
if ! active; then
  echo stopped
  exit 0
fi
runs || systemctl reload kube-endpoint-haproxy.service
ask "enable health kube-apiserver/$name; set server kube-apiserver/$name state ready" >/dev/null
exec 9<&-
clock
end=$((now + seconds * 100))
until runs '2 0 3'; do
  clock
  if [ "$now" -ge "$end" ]; then
    echo down
    ask 'show stat -1 4 -1'
    exit 0
  fi
  sleep 0.2
done
echo up
