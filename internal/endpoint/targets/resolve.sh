# Prints the addresses of $name, the preferred one first, one or more lines for each. Nothing if it has none.
getent ahosts "$name" || :
