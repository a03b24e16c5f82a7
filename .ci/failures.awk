# Reads the output of go test, with or without -v, and prints what each failed test has said: of each message its first
# lines and its end, because a message may have the whole output of a command. The first message comes last: what follows it
# in a test are mostly the logs of machines, and the end of this output is what is read. A test without a message has ended
# with a panic.

# The lines that follow are of this test.
/^=== (RUN|NAME|CONT) / { test = $3; next }
/^ *--- (PASS|SKIP): / { test = ""; next }
/^ *--- FAIL: / { test = $3; failed[++failures] = test; next }
/^(ok|FAIL|PASS|\?)([ \t]|$)/ { next } # of a package, perhaps in another lane
test != "" {
	if (/^ *[a-z0-9_]+_test\.go:[0-9]+: /) { starts[test, ++messages[test]] = count[test] + 1 }
	lines[test, ++count[test]] = substr($0, 1, 400)
}

function message(test, from, to, n) {
	for (n = from; n <= to; n++) {
		if (n < from + 5 || n > to - 25) { print lines[test, n] } else if (n == from + 5) { print "        ..." }
	}
}

END {
	for (i = 1; i <= failures; i++) {
		test = failed[i]
		print "failed: " test
		if (!messages[test]) { message(test, count[test] > 30 ? count[test] - 29 : 1, count[test]) }
		for (m = messages[test]; m > 0; m--) {
			message(test, starts[test, m], m < messages[test] ? starts[test, m + 1] - 1 : count[test])
		}
	}
}
