# Takes back a drain that another balancer refused.
active || { echo stopped; exit 0; }
ask "set server kube-apiserver/$name state ready" >/dev/null
echo ready
