# Waits for the components that listen only on the machine.
until curl -ksf https://127.0.0.1:10257/healthz >/dev/null && curl -ksf https://127.0.0.1:10259/readyz >/dev/null; do sleep 0.05; done
