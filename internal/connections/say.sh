# Sends packets with VRRP's protocol number, of the virtual router 0, which does not exist, and with $tag from $own to
# $others, $repeats times. Prints "sent" when it has tried. What the firewall of this machine refuses was sent in vain.
# shellcheck disable=SC2016 # the variables are Perl's
# shellcheck disable=SC2086 # words
command -v perl >/dev/null || exit 0
exec perl -MSocket=:DEFAULT,inet_pton,inet_ntop -e '
my ($own, $tag, $repeats, @others) = @ARGV;
my $six = $own =~ /:/;
my $family = $six ? AF_INET6 : AF_INET;
my $at = sub {
  my $address = inet_pton($family, $_[0]);
  return $six ? pack_sockaddr_in6(0, $address) : pack_sockaddr_in(0, $address);
};
socket(my $out, $family, SOCK_RAW, 112) or exit 0;
bind($out, $at->($own)) or exit 0;
my $packet = pack("CCCCnn", 0x31, 0, 0, 0, 25, 0) . $tag;
for (1 .. $repeats) {
  send($out, $packet, 0, $at->($_)) for @others;
  select(undef, undef, undef, 0.1);
}
print "sent\n"' "$own" "$tag" "$repeats" $others
