# Moves leadership from the machine's member to the member at $other.
retry ctl "$address" move-leader "$(member_at "$other")"
