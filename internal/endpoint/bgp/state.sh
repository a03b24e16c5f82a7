# Reports what the machine announces. Go sets own (the machine's own address), prefix, and peers: the
# names of sessions.
if [ -n "$(ip -o address show to "$own")" ]; then echo own; fi
if [ -e "$config/registered" ]; then echo registered; fi
if [ -n "$(ip -o address show dev lo to "$prefix")" ]; then echo address; fi
running || exit 0
bird show protocols | sed 's/^/protocol /'
for peer in $peers; do
  bird show route exported "$peer" | sed "s/^/exported $peer /"
done
