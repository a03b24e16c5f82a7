# clients PORT…: prints the connections to ports of this machine, and for each end of them that is on this machine too,
# its process.
clients() {
  if ! command -v ss >/dev/null; then
    printf 'clients\tnone\n'
    return
  fi
  for port; do
    ss -OHtinp state established "sport = :$port" | head -n 500 | sed "s/^/client\t$port\t/"
    ss -OHtnp state established "dport = :$port" | head -n 500 | sed "s/^/end\t$port\t/"
  done
}
