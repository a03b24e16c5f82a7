# Writes the record, unless the machine has another endpoint.
create_and_lock
unless_other
before=$(whose)
umask 022
chmod 755 "$config"
printf '%s' "$record" >"$config/.endpoint.json.new"
flush "$config/.endpoint.json.new"
mv "$config/.endpoint.json.new" "$config/endpoint.json"
flush "$config" "${config%/*}" /etc
case $before in
none) echo claimed ;;
*) echo ours ;;
esac
