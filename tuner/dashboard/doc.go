/*
Package dashboard shows a daemon: a page, the JSON behind it, events as they happen, and metrics for Prometheus.

# Basics

	s, err := dashboard.New(dashboard.Options{Daemon: d, Tuner: t, Store: dir, Listen: "127.0.0.1:9470"})
	err = s.Listen()   // takes the port, reads or makes the token
	err = s.Serve(ctx) // until ctx ends

API.md lists every path with an example of what it answers; a test holds it to that. The files of the page lie in page/, as they are
sent.

What is shown is made when somebody asks for it and kept for a moment: of many who ask at once one makes it, a history that has
not changed is not read again, and one that has is read for at most a twentieth of the time. It is read a chunk at a time, so
that nobody waits for the store's lock longer than for another writer.

# Caveats

Reading on a loopback address needs no token, so every user of the machine can look. Without TLS a token can be overheard.

What was pruned from the history is in no curve and no heat map. Of one setting the first 128 samples count.

Rates are of all ternary matmuls of a model together: a tune measures no single shape. The peak of the arithmetic is not in the
history, so that prompts are shown beside no limit.

Who can reach the port can hold all its connections, and then nobody is answered, probes included: a network policy keeps others
away. A certificate and a token are read once, when the daemon begins.

Checks and rollbacks outlive the daemon, what its log says does not, and neither does who unpinned something.

# Decisions

2026-11-22: A view is one JSON object, made whole and sent as it is kept, with a tag: what a page that is reloaded in a loop
costs is a comparison of the tag. The road not taken, queries with parameters, would have to be bounded each.

2026-11-22: Events come over server-sent events and not a websocket: the standard library speaks them, they pass proxies, and
nothing but orders goes the other way. A stream that lags behind is ended, since its reader comes again with the id of what
it saw last. A page that gets no stream asks every few seconds, and each asks for everything once a minute: for what no
event tells.

2026-11-22: A write demands the token and the same origin. The token alone would do, as no other page knows it; but a token
that was pasted into the wrong page once should not be enough. Of what another origin is, net/http's CrossOriginProtection decides.

2026-11-22: A host name that is neither an address nor the server's own is refused. Otherwise a page of anybody could give its
name to 127.0.0.1 and read everything as if it were this one (DNS rebinding).

2026-11-22: What a page of another origin has a browser ask for is refused, though the browser would not let it read the answer:
it could have the dear views made, and take all streams. Browsers say in Sec-Fetch-Site who asks; programs say nothing.

2026-11-22: Requests above the bound wait for a while and are not refused at once. All pages ask at the same moment, when
something has changed.

2026-11-22: On an address that others can reach, naming the token's file is what allows plain HTTP, and then reading demands
it too. TLS alone leaves reading open, as metrics usually are; with both, both hold. /healthz and /readyz never ask: whoever
probes has no token, and they tell nothing.

2026-11-22: The token outlives the daemon, in a file of the store that only its owner may read: a page that is open, and what
scrapes, go on after a restart.

2026-11-22: The page is modules as the browser reads them, a part of it a file (panel_NAME.js), with no framework and no build:
what is embedded is what was written. A part makes its elements anew and dom.js changes the old ones into them, so that what
has the focus, is open or scrolled stays; text is only ever set as text, as a model may be called anything. The stream is read
with fetch, since EventSource cannot send a token.

2026-11-22: The tests of the page drive a browser through chromedp, which the report's need not: here buttons are pressed.

2026-11-22: Metrics are written by hand. The format is three kinds of lines; the client library of Prometheus brings twenty
packages for counters that the daemon has already.
*/
package dashboard
