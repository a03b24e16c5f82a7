# Prints what arrives at $own with VRRP's protocol number and $token, as the round and the sender, until standard input
# ends: then "end" too. It listens for $limit seconds at most. Without Perl, it does nothing.
# shellcheck disable=SC2016 # the variables are Perl's
command -v perl >/dev/null || exit 0
exec perl -MSocket=:DEFAULT,inet_pton,inet_ntop -e '
my ($own, $token, $limit) = @ARGV;
my $six = $own =~ /:/;
my $family = $six ? AF_INET6 : AF_INET;
my $address = inet_pton($family, $own);
socket(my $in, $family, SOCK_RAW, 112) or exit 0;
bind($in, $six ? pack_sockaddr_in6(0, $address) : pack_sockaddr_in(0, $address)) or exit 0;
my $until = time + $limit;
while (time < $until) {
  my $ready = "";
  vec($ready, fileno($in), 1) = 1;
  vec($ready, fileno(STDIN), 1) = 1;
  next if select($ready, undef, undef, 1) < 1;
  if (vec($ready, fileno($in), 1)) {
    my $from = recv($in, my $packet, 4096, 0);
    next if !defined $from || $packet !~ /\Q$token\E([01])\z/;
    my $round = $1;
    my (undef, $sender) = $six ? unpack_sockaddr_in6($from) : unpack_sockaddr_in($from);
    print "$round ", inet_ntop($family, $sender), "\n";
  } elsif (!sysread(STDIN, my $rest, 64)) {
    print "end\n";
    last;
  }
}' "$own" "$token" "$limit"
