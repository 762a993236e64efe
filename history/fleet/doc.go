// Package fleet shares learned configs between hosts, through etcd or through a shared directory.
//
// # Basics
//
// What is shared is a config and the summary of its proof, under a key of hardware class, model, target, objective and
// kernel table. No sample, no name of a host and no path leaves the host.
//
//	f, err := fleet.Open(ctx, fleet.Options{URL: "etcds://a:2379,b:2379/site", CA: "ca.pem", User: "tuner", Password: …})
//	entries, report, err := f.Pull(ctx, fleet.Query{Class: class, Model: model, Signature: table})
//	claim, err := f.Claim(ctx, key, "rack7", time.Minute)       // ErrClaimed: another host tunes
//	entry, err := f.Await(ctx, key)                             // its result, or ErrFree
//	outcome, err := f.Push(ctx, entry)                          // merged with what is there
//	err = claim.Release(ctx)
//
// Who gets a claim pulls once more before it tunes: the last holder may have pushed and released since the first pull.
//
// Where there is no etcd, dir:///mnt/shared does the same with files. In etcd there are
//
//	/PREFIX/v1/entry/CLASS/MODEL/SIGNATURE/TARGET/OBJECTIVE    {"fleet":1,"sha256":…,"entry":{…}}
//	/PREFIX/v1/claim/CLASS/MODEL/SIGNATURE/TARGET/OBJECTIVE    {"holder":…} under a lease
//
// and in a directory the same without a prefix, each with @REVISION.json at its end.
//
// For the target of an engine the signature is the hash of its program, and the model that of its file or spec.
//
// A push merges: the config with more evidence stands, whoever pushed it and in whichever order (see merge.go). A
// claim is a lease: it falls when its holder dies. It saves work and protects nothing, for merges need no protection.
//
// # Caveats
//
// An entry is a hint. Its checksum finds damage, not malice: whoever may write to the fleet may write any config. What
// is returned is well-formed and within bounds; that it is right and fast here, the receiver has to find out.
//
// Every error is one line and is one of ErrUnavailable, ErrFull, ErrDenied and ErrNonsense, unless the caller's own
// arguments are at fault. None of them is a reason to stop: a host without a fleet tunes for itself. Each request is
// bounded by Options.Timeout for each endpoint, and by the context. No proxy is used. What failed may have been done all the
// same, its answer lost; to repeat a push does no harm, and a claim that nobody knows of falls by itself.
//
// Nothing depends on the clocks of hosts: a lease is counted by etcd, a claim in a directory by the clock of its file
// system, and its holder counts its own from before it asked. MeasuredAt settles ties and nothing else. A holder that was
// suspended, or could not run, learns late that it has lost its claim; then two hosts tune for a while.
//
// A directory needs hard links, and a link(2) and a listing that the server decides rather than a cache: local disks and
// NFS, not FAT or most of FUSE. This was tested on local file systems only. A mount point with nothing mounted on it is
// a directory like any other. One who may write there may fill it, or hold claims for ever.
//
// Nothing is ever removed but by what has more evidence. Entries of kernel tables that no host has any more, or all of
// them, can be deleted in etcd or in the directory at any time.
//
// A field of the identity that one host cannot read, such as the size of a cache, puts it in a class of its own.
//
// # Decisions
//
// 2026-11-21: etcd through its JSON gateway over net/http rather than its Go client. The client brings 78 modules and
// 12 MB for the four calls that are needed here. The price is base64, and that the TLS name of a client is no user of
// etcd.
//
// 2026-11-21: the greater of two entries in a total order, and the union of who contributed, rather than adding up the
// evidence of hosts that found the same config. Sums depend on which loser was forgotten first, so hosts that push in
// another order would come to another config; a maximum commutes, and a push that is sent twice counts once. So the
// number of hosts is shown and decides nothing.
//
// 2026-11-21: waiting hosts look once a second rather than watch. A watch through the gateway is an answer that does not
// end, and proxies cut those; one second is nothing beside a tuning run. 200 hosts that wait are 400 requests a second,
// of a fraction of a millisecond each. A push is two requests, a pull one and one for each entry, a claim three and four in
// each of its lives.
//
// 2026-11-21: keys are listed first and values read one by one, so that one huge value costs itself and not the answer
// that it is in.
//
// 2026-11-21: a directory is numbered files made by link(2), rather than a lock file: a lock needs somebody to decide
// that its owner is dead, and flock is doubtful on the very file systems that hosts share.
//
// 2026-11-21: the class leaves out the stepping of the processors and the size of the memory, which do not decide which
// setting is fast. Everything else of the identity counts. A class that is too narrow costs a tuning run; one that is
// too wide costs each of its hosts a hint that does not hold.
//
// 2026-11-21: the version of the format is in the path. Hosts of two versions then share with their own kind, and no old
// one overwrites what it cannot read.
package fleet
