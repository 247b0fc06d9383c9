# Prints lines of Go that end beyond column 110, where a tab is four columns, and fails if there are any. Tests
# may have longer raw strings.
{
	line = $0
	gsub(/\t/, "    ", line)
}
length(line) > 110 && !(FILENAME ~ /_test\.go$/ && /`/) {
	print FILENAME ":" FNR ": ends in column " length(line)
	long = 1
}
END { exit long }
