# summary.awk makes one line of each test in the output of go test -v: what it counted. A test that failed is shown whole.

/^=== / { at = $3; next }

/^--- (PASS|FAIL|SKIP): / {
	verdict = substr($2, 1, length($2) - 1)
	if (verdict == "FAIL")
		printf "%s", whole
	printf "%s %s %s: %s\n", verdict, $3, $4, own != "" ? own : parts
	fflush()
	whole = own = parts = at = ""
	next
}

/^(FAIL|ok)/ { print; next }

{ whole = whole $0 "\n" }

/^ +[a-z_0-9]+\.go:[0-9]+: / {
	text = $0
	sub(/^ +[a-z_0-9]+\.go:[0-9]+: /, "", text)
	if (at ~ /\//)
		parts = parts (parts == "" ? "" : "; ") text
	else
		own = own (own == "" ? "" : "; ") text
	next
}

END { # a panic, a fault or the end of the time leaves a test without its last line
	if (at != "")
		printf "%s", whole
}
