# Reads the output of go test, with or without -v, and prints the end of what each failed test has printed.

# The lines that follow are of this test.
/^=== (RUN|NAME|CONT) / { test = $3; next }
/^ *--- (PASS|SKIP): / { test = ""; next }
/^ *--- FAIL: / { test = $3; if (!(test in count)) { count[test] = 0 } failed[++failures] = test; next }
/^(ok|FAIL|PASS|\?)([ \t]|$)/ { next } # of a package, perhaps in another lane
test != "" { lines[test, ++count[test]] = substr($0, 1, 400) }

END {
	for (i = 1; i <= failures; i++) {
		test = failed[i]
		print "failed: " test
		for (n = count[test] > 60 ? count[test] - 59 : 1; n <= count[test]; n++) { print lines[test, n] }
	}
}
