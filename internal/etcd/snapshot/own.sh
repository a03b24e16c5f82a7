# own NAME: makes the directory NAME in the current one, unless it is there, and goes into it. The current directory may
# be that of the data, where etcd's user can put a link or a directory of its own, also while this runs. So what counts
# is where that has led, and whose it is.
own() {
  here=$(pwd -P)
  [ -d "$1" ] || mkdir -m 0700 -- "$1"
  cd -P -- "$1" || exit
  if [ "$(pwd -P)" != "${here%/}/$1" ] || [ "$(stat -c %u .)" != "$(id -u)" ]; then
    echo "${here%/}/$1 is not a directory of root, but a link or somebody else's: find out who made it, move it away," \
      "and repeat this" >&2
    exit 1
  fi
  chmod 0700 .
}

# owned DIRECTORY reports whether it is a directory of root, and no link.
owned() { [ ! -L "$1" ] && [ -d "$1" ] && [ "$(stat -c %u "$1")" = "$(id -u)" ]; }
