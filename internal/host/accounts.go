package host

// accountComment is that of the accounts that Apply creates. RemoveUsers knows them by it.
const accountComment = "terraform-provider-kube"

// RemoveUsers returns a script that removes the named users, and their groups, if Apply has created them. An
// administrator may have created one of the same name.
func RemoveUsers(names ...string) Script {
	return "for user in " + Words(names...) + `; do
  if [ "$(getent passwd "$user" | cut -d : -f 5)" = ` + accountComment + ` ]; then
    userdel "$user"
    if getent group "$user" >/dev/null; then groupdel "$user"; fi
  fi
done
`
}
