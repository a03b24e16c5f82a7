# Reports what the machine announces, to all peers that its bird has. Go sets own (the machine's own address) and prefix.
if [ -n "$(ip -o address show to "$own")" ]; then echo own; fi
if [ -e "$config/registered" ]; then echo registered; fi
if [ -n "$(ip -o address show dev lo to "$prefix")" ]; then echo address; fi
running || exit 0
bird show protocols | sed 's/^/protocol /'
for peer in $(bird show protocols | sed -n 's/^\(peer_[0-9a-z_]*\) .*/\1/p'); do
  bird show route exported "$peer" | sed "s/^/exported $peer /"
done
