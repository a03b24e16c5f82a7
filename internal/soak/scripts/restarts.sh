# Prints what systemd and etcd logged about starts and stops since $since.
journalctl --no-pager --quiet --output=short-unix --since="@$since" --unit=etcd |
  grep -E 'systemd\[1\]: (Stopping|Started) |systemd\[1\]: etcd.service: (Main process exited|Deactivated)|"msg":"starting etcd server"' || true
