# What a restore has staged is in $stage, and its key, the last file of it, says that it is complete. When the members'
# data is archived, it may be the last copy in place. The next restore, from another source, keeps it in $former until
# its own data is put in place (restore_place.sh) or dropped (restore_drop.sh).
stage=$root/restoring
former=$stage.former

# keep makes room for the next data.
keep() {
  if [ -e "$stage/key" ]; then
    rm -rf "$former"
    mv -T -- "$stage" "$former"
  fi
}

# put_back makes what was kept the staged data again.
put_back() {
  [ -e "$former/key" ] || return 0
  rm -rf "$stage"
  mv -T -- "$former" "$stage"
}
