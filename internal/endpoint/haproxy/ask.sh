#!/bin/sh
# ask SOCKET COMMAND [SECONDS]: sends one command to HAProxy and prints the answer.
# Managed by terraform-provider-kube.
# shellcheck disable=SC2016 # the variables are Perl's
set -eu
if command -v socat >/dev/null; then
  printf '%s\n' "$2" | exec timeout "${3:-5}" socat -t 5 - "UNIX-CONNECT:$1"
else
  # Without modules, which take longer to load than everything else: AF_UNIX and SOCK_STREAM are 1 on Linux.
  exec perl -e '
    $SIG{ALRM} = sub { die "$ARGV[0] does not answer within $ARGV[2] s\n" };
    alarm $ARGV[2];
    socket(my $haproxy, 1, 1, 0) or die "socket: $!\n";
    connect($haproxy, pack("S a108", 1, $ARGV[0])) or die "connect to $ARGV[0]: $!\n";
    select($haproxy);
    $| = 1;
    print "$ARGV[1]\n";
    shutdown($haproxy, 1);
    select(STDOUT);
    print while <$haproxy>' "$1" "$2" "${3:-5}"
fi
