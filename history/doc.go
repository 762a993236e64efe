// Package history keeps every measurement that was ever taken, in one bbolt file, and publishes what was learned from
// them as a small checksummed file that readers load without touching the database.
//
// # Basics
//
// A state directory belongs to the caller. In it stand history.db (the database), history.lock (the lock that every
// user of the database takes), current.cfg (the published snapshot), history.bak (the newest backup), and, when they
// are needed, quarantine/ and spool/. FORMAT.md shows every byte of them.
//
//	s, err := history.Open(dir, history.Options{})
//	err = s.Append(ctx, record)            // one lock, one transaction, then nothing is held open
//	err = s.Records(ctx, history.Filter{Host: host, Model: model}, func(r history.Record) error { … })
//	err = s.Publish(ctx, learned)          // database first, then current.cfg
//
// A library that only wants the result reads the snapshot:
//
//	r := history.NewReader(dir)
//	snap, err := r.Load()                  // cached; never blocks, works on a read-only mount
//
// Between calls a Store holds no file, lock or mapping, so any number of processes may use one directory. Who cannot
// get the lock in time leaves records, runs and learned configs in the spool, and the next writer takes them from there.
//
// Damage is met with what is left: a database that is damaged while it is in use is made anew of every intact value in
// its file, its backups and the snapshot, and the caller's write then goes on. Where a store is damaged when it is
// opened, Repair does the same, for the file may be somebody else's. Warnings says a line about each such event.
//
// # Caveats
//
// Locks are flock(2): sound on a local filesystem, doubtful on a network one; Store.Warnings says so.
//
// Records is not a picture of one moment: it reads in chunks and lets writers in between. What was there when it
// began, and was not removed, is seen once.
//
// bbolt has no checksum on its pages. Every value here carries a CRC, the shape of the tree down to the headers of its
// leaves is checked before bbolt maps a file that was not left in order, a fault while mapped is an error, not a crash,
// and a use of the file that does not end within a minute is given up as damage. A leaf page that an older one of itself
// has replaced shows only in Check, which counts the records. A file counts as left in order while its inode, size and
// times are those that its last user wrote down, and the kernel was not started since: damage below all of that is met
// unprepared, with the fault and the minute as what is left.
//
// A salvage takes what stands on any page that looks like a leaf, pages no longer in use included, so a pin that was
// removed can come back if the snapshot is damaged as well. What was pruned does not: the aggregates say what they count.
//
// A record that comes with a run id older than what was pruned of its setting, as from a spool that lay for weeks, is
// not counted once it is pruned itself.
//
// # Decisions
//
// 2026-11-21: go.etcd.io/bbolt rather than SQLite, a log of our own or JSON files. One file, pure Go, no lost commit
// in 24,323 acknowledged ones under SIGKILL and none in 44,625 enumerated power failures, and sound behaviour on full
// disks. SQLite in pure Go is 20 times the code for queries nobody asks.
//
// 2026-11-21: readers use a snapshot, not the database. Opening bbolt for reading takes a lock that blocks the
// writer, and eight readers in a loop starved it altogether. A file of a few kilobytes, replaced by rename, needs no
// lock at all.
//
// 2026-11-21: a lock file beside the database, waited for in the kernel. bbolt's own timeout sleeps in steps of 50 ms,
// and its lock is on the inode, so it does not survive a rename. Polling a lock of our own every half
// millisecond let four writers in a loop keep four readers out: the readers did 32 to 45 rounds, against 143 to 152
// when they wait in the kernel, and p99 of a read was 75 to 103 ms against 28 to 44 (three runs each, taken in turn
// on two loaded cores). The price is a wait that cannot be interrupted: a caller that gives up leaves one goroutine
// behind until the lock is free.
//
// 2026-11-21: bbolt is not let near a page of the wrong kind. A branch that leads to a page that is no leaf, such as an
// old list of free pages, makes its cursor go round for ever and take all memory on the way, so every leaf's header is
// read. That is one read of 16 bytes for each leaf: 1.5 to 3.1 ms for 32,000 records in a file of 16 MB, and an Append
// 1.5 times as slow. So the identity of a file that was looked at is remembered under the lock, and an Append costs no
// more than it did. The road not taken is to read the leaves as well: that is a Check, and costs as much.
//
// 2026-11-21: a mark in the lock file, not a key of the meta bucket, says that the database was left in order: a key
// changes the file that it describes. With it a process that opens 10 million records need not read the headers of half
// a million leaves. It carries the generation as well, so that going back by one commit of records is noticed, which
// the snapshot, whose generation is that of the last change of a config, cannot tell.
//
// 2026-11-21: the spool has one file for each call, complete before it has its name, not one file for each process to
// append to. Nobody has to find out whether its owner still lives, a torn end cannot be, and draining is reading and
// removing. It costs two syncs for each call that was kept out, which has waited for seconds by then.
//
// 2026-11-21: a repair reads every page that looks like a leaf and trusts the checksums of the values alone, rather than
// following what is left of the tree: 600 records are all there after each damage to branches, metas, the list of free
// pages and the header counts of pages, and a last commit that a damaged meta page hides comes back. Quarantining alone,
// as before, lost every record with the first bad bit.
//
// 2026-11-21: aggregates hold only what was pruned, so that an append costs nothing more, and a record is counted once
// however often it comes back. The last four records of a setting are not pruned by age: a run that is resumed rests on
// them.
//
// 2026-11-21: no socket. Four readers beside two writers that write without a pause load the snapshot in 0.5 ms at p99
// on two loaded cores, so there is nobody whom a socket would help.
//
// 2026-11-21: keys spell out the target and the regime instead of numbering them in one byte each. Nine bytes more
// in a record of about 240, and no table of numbers that could disagree with the records.
//
// 2026-11-21: records are self-contained (the setting is in each of them, not in a bucket of settings), so one that
// is salvaged from a damaged file means something.
//
// 2026-11-21: a hand-written varint codec for records, JSON for everything else. Measured on a record of ten
// repetitions: 102 bytes and 114 ns to decode, against 332 bytes and 5.4 µs for JSON; protobuf is as small, and a
// dependency.
package history
