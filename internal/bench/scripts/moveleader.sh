# Hands the leadership of the machine's member over to the one at $other.
retry ctl "$address" move-leader "$(member_at "$other")"
