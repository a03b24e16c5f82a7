#!/bin/sh
# Succeeds while HAProxy answers: keepalived gives the address away otherwise.
# Managed by terraform-provider-kube.
/opt/kube/endpoint/ask /run/kube-endpoint/haproxy.sock 'show version' | grep -q '[0-9]'
