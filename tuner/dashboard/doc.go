/*
Package dashboard shows a daemon: a page, the JSON behind it, events as they happen, and metrics for Prometheus.

# Basics

	s, err := dashboard.New(dashboard.Options{Daemon: d, Tuner: t, Store: dir, Listen: "127.0.0.1:9470"})
	err = s.Listen()   // takes the port, reads or makes the token
	err = s.Serve(ctx) // until ctx ends

API.md lists every path with an example of what it answers.
*/
package dashboard
