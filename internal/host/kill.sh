# The fixed part of the script that ends remote commands. A command's processes have
# KUBE_COMMAND=TOKEN as an entry of their environment, or as one argument (sudo, and env
# before it becomes sh). The login shell has it in the line that it got from sshd, until
# it becomes the command. Nothing else matches: no part of a word, and no process of
# another user, who could otherwise have it killed, or keep a process alive.

me=$(id -u)
login=${SUDO_UID:-$me}

# owned PROCESS: reports whether the process belongs to this user (usually root), to the
# login user, who can become root through sudo anyway, or to sudo between the two. All of
# its IDs must match: a program with the set-user-ID bit has its caller's arguments.
owned() {
  while read -r key real effective saved _; do
    [ "$key" = Uid: ] || continue
    case "$real $effective $saved" in
    "$me $me $me" | "$login $login $login" | "$login $me $me") return 0 ;;
    esac
    return 1
  done 2>/dev/null <"/proc/$1/status"
  return 1
}

# carriers TOKEN: prints the processes. Patterns are passed on standard input, so that
# the search does not find itself.
# shellcheck disable=SC2062 # these are files; the pattern is standard input
carriers() {
  {
    echo "KUBE_COMMAND=$1" | grep -lzxFsf - /proc/[0-9]*/environ /proc/[0-9]*/cmdline || true
    echo "^exec (sudo -n )?env LC_ALL=C PATH=[^ ]* (KUBE_LEASES=[^ ]* )?KUBE_COMMAND=$1 sh -euc " | grep -lzEsf - /proc/[0-9]*/cmdline || true
  } | while IFS=/ read -r _ _ process _; do
    if owned "$process"; then echo "$process"; fi
  done
}

# kill_command TOKEN: searches again until nothing is left, because a process may have
# forked meanwhile, and a little longer if nothing was found at all, because sshd's child
# may not have become the login shell yet.
kill_command() {
  found='' tries=0 rounds=0
  while [ $tries -lt 3 ] && [ $rounds -lt 100 ]; do
    tries=$((tries + 1)) rounds=$((rounds + 1))
    again=''
    for process in $(carriers "$1"); do
      kill -KILL "$process" 2>/dev/null && again=yes found=yes
    done
    if [ -n "$again" ]; then tries=0; elif [ -n "$found" ]; then return 0; else sleep 0.1; fi
  done
}

# kill_under_leases TOKEN…: ends the commands that run under former leases, which KUBE_LEASES
# names. It searches again until nothing is left. What has not become sh yet will do nothing:
# the lease's file has another token by now.
kill_under_leases() {
  rounds=0 more=yes
  tokens=$(echo "$*" | tr ' ' '|')
  while [ -n "$more" ] && [ $rounds -lt 20 ]; do
    rounds=$((rounds + 1)) more=''
    for file in $(grep -lzxEs "KUBE_LEASES=([0-9a-f]{16},)*($tokens)(,[0-9a-f]{16})*" /proc/[0-9]*/environ /proc/[0-9]*/cmdline || true); do
      process=${file#/proc/}
      process=${process%/*}
      owned "$process" || continue
      kill -KILL "$process" 2>/dev/null || continue
      more=yes
    done
  done
}

# kill_stale_commands ends commands whose connection was lost. They continue as children
# of process 1, because sshd does not end the processes that it has started, and they
# could undo the next change. Every command may be interrupted at any point, so they are
# not waited for. The arguments of a program with the set-user-ID bit (sudo) come from
# its caller, whoever that is: the program itself is ended, and its child is next.
kill_stale_commands() {
  passes=0 more=yes
  while [ -n "$more" ] && [ $passes -lt 10 ]; do
    passes=$((passes + 1)) more=''
    for file in $(grep -lzxEs 'KUBE_COMMAND=[0-9a-f]{16}' /proc/[0-9]*/environ /proc/[0-9]*/cmdline || true); do
      orphan=${file#/proc/}
      orphan=${orphan%/*}
      if ! grep -qs '^PPid:[[:space:]]*1$' "/proc/$orphan/status" || ! owned "$orphan"; then continue; fi
      more=yes
      if [ -u "/proc/$orphan/exe" ]; then
        kill -KILL "$orphan" 2>/dev/null || true
        continue
      fi
      token=$(cat "/proc/$orphan/environ" "/proc/$orphan/cmdline" 2>/dev/null | grep -zxE -m 1 'KUBE_COMMAND=[0-9a-f]{16}' | tr -d '\0') || continue
      kill_command "${token#KUBE_COMMAND=}"
    done
  done
}
