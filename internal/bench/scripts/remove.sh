# Removes the member at $other.
retry ctl "$address" member remove "$(member_at "$other")"
