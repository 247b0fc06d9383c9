# Reads the output of go test -v and prints what matters of it: all that a failing package said, at
# once; at the end the tests that were skipped, with their reasons, and go test's own closing
# lines. Skipped tests would otherwise go unnoticed: without -v go test does not mention them.

# A package's closing line.
/^(ok  |FAIL|\?   )\t/ || /^\t[^ ]+\t+coverage:/ {
	if (/^FAIL/)
		printf "%s", said
	said = ""
	closing = closing $0 "\n"
	next
}

{ said = said $0 "\n" }

# The reason is the line before.
/^ *--- SKIP: / {
	reason = last
	sub(/^ +/, "", reason)
	name = $3
	skipped = skipped "  " name ": " reason "\n"
	skips++
}

{ last = $0 }

END {
	if (skips)
		printf "\n%d skipped:\n%s\n", skips, skipped
	else
		print "no test was skipped"
	printf "%s%s", closing, said
}
