# Removes what restore_stage.sh has made, and starts a survivor again. restore_staged.sh and runtime.sh have the
# rest.
made=''
[ ! -d "$root" ] || (enter)
[ ! -e "$stage/made" ] || made=yes
rm -rf "$stage" "$stage.part" "$stage.received"
put_back
[ -z "$made" ] || rmdir "$root" 2>/dev/null || true
[ ! -d "$data/member" ] || member_resume_stopped
