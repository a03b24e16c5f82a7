# Prints the newest snapshot of the raft log. $data is the data directory. Their names have the term and the index, in
# hexadecimal digits of a fixed number.
newest=$(ls -1 -- "$data/member/snap" 2>/dev/null | grep -E '^[0-9a-f]{16}-[0-9a-f]{16}\.snap$' | sort | tail -n 1)
if [ -n "$newest" ]; then
  printf 'raft-snapshot\t%s\n' "$(head -c 1048576 -- "$data/member/snap/$newest" | base64 -w 0)"
else
  printf 'raft-snapshot\tnone\n'
fi
