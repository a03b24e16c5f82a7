# Starts the agent. Go sets timer.
systemctl start "$timer"
case "$CHANGED" in
*"/$timer"*) systemctl restart "$timer" ;;
esac
