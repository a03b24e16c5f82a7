# How an agent sees the API server of its machine, at $url.

# ready: 0 if the API server is ready, 1 if it is not, 2 if nobody listens.
ready() {
  code=$(curl --globoff --silent --insecure --noproxy '*' --max-time 2 --output /dev/null --write-out '%{http_code}' "$url") ||
    { [ $? -ne 7 ] || return 2; return 1; }
  [ "$code" = 200 ]
}

# probe: counts in $failures how often in a row it was not ready, up to three. One answer that is late or bad is not yet a
# failure. That nobody listens is one.
probe() {
  answer=0
  ready || answer=$?
  case $answer in
  0) failures=0 ;;
  2) failures=3 ;;
  *) failures=$((failures < 3 ? failures + 1 : 3)) ;;
  esac
}
