# Reads the output of go test -v and prints what matters of it: all that a failing package said, at
# once; at the end the tests that were skipped, with their reasons, and go test's own closing
# lines. Skipped tests would otherwise go unnoticed: without -v go test does not mention them.

# A package's closing line.
/^(ok  |FAIL|\?   )\t/ || /^\t[^ ]+\t+coverage:/ {
	if (/^FAIL/)
		printf "%s", said
	said = ""
	delete reason
	closing = closing $0 "\n"
	next
}

{ said = said $0 "\n" }

# Whose output follows.
/^=== (RUN|CONT|NAME) / { test = $3 }

# A test that skips says why with its last words.
/^ +[^ ]+\.go:[0-9]+: / {
	reason[test] = $0
	sub(/^ +/, "", reason[test])
}

/^ *--- SKIP: / {
	why = $3 in reason ? reason[$3] : "no reason given"
	skipped = skipped "  " $3 ": " why "\n"
	skips++
}

END {
	if (skips)
		printf "\n%d skipped:\n%s\n", skips, skipped
	else
		print "no test was skipped"
	printf "%s%s", closing, said
}
