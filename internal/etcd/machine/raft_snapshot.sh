# Prints the newest snapshot of the raft log. $data is the data directory. Their names have the term and the index, in
# hexadecimal digits of a fixed number, so the last one in the order of names is the newest.
newest=''
for file in "$data"/member/snap/*-*.snap; do
  [ ! -f "$file" ] || newest=$file
done
if [ -n "$newest" ]; then
  printf 'raft-snapshot\t%s\n' "$(head -c 1048576 -- "$newest" | base64 -w 0)"
else
  printf 'raft-snapshot\tnone\n'
fi
