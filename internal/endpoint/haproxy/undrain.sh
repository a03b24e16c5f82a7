# Reverts a drain. A server that is not listed stays unlisted.
active || { echo stopped; exit 0; }
ask "set server kube-apiserver/$name state ready" >/dev/null
echo ready
