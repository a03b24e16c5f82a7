#!/bin/sh
# ask SOCKET COMMAND: sends one command to HAProxy and prints the answer.
# Managed by terraform-provider-kube.
# shellcheck disable=SC2016 # the variables are Perl's
set -eu
if command -v socat >/dev/null; then
  printf '%s\n' "$2" | exec timeout 5 socat -t 5 - "UNIX-CONNECT:$1"
else
  exec timeout 5 perl -MIO::Socket::UNIX -e '
    my $haproxy = IO::Socket::UNIX->new(Peer => $ARGV[0]) or die "connect to $ARGV[0]: $!\n";
    print $haproxy "$ARGV[1]\n";
    $haproxy->flush;
    shutdown($haproxy, 1);
    print while <$haproxy>' "$1" "$2"
fi
