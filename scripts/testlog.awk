# Reads the output of go test -v and prints what matters of it: each package's closing line as it comes, with all that a
# failing package said before it, and at the end the tests that were skipped, by their reasons.

# A package's closing line.
/^(ok  |FAIL|\?   )\t/ || /^\t[^ ]+\t+coverage:/ {
	if (/^FAIL/)
		printf "%s", said
	said = ""
	delete reason
	print
	fflush()
	next
}

{ said = said $0 "\n" }

# Whose output follows.
/^=== (RUN|CONT|NAME) / { test = $3 }

# A test that skips says why with its last words.
/^ +[^ ]+\.go:[0-9]+: / {
	reason[test] = $0
	sub(/^ +[^ ]+\.go:[0-9]+: /, "", reason[test])
}

/^ *--- SKIP: / {
	why = $3 in reason ? reason[$3] : "no reason given"
	skipped[why] = skipped[why] " " $3
	skips++
}

END {
	printf "%s", said
	if (!skips)
		print "no test was skipped"
	else
		printf "%d skipped:\n", skips
	for (why in skipped)
		printf "  %s:%s\n", why, skipped[why]
}
