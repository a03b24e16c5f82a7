# Prints whether $name has an address.
if getent ahosts "$name" >/dev/null; then
  echo resolved
else
  echo unresolved
fi
