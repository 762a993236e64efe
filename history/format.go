package history

// Format is the version of everything in a state directory. It is written into the database and into the snapshot.
// Versions are never renumbered. A later one that only adds buckets, keys of the meta bucket or fields of JSON
// values is no new version: readers pass over what they do not know, and writers leave it alone.
type Format uint32

// The versions.
const (
	// FormatV1 is the first version: bbolt file of flat buckets meta, sample, run, config and pin; values sealed
	// with a codec byte and a CRC32C over key and value; snapshot of a 32-byte header and a JSON payload. The names
	// host and agg (buckets), clean_close (key of meta), spool, quarantine, history.bak and tuner.sock (files) are
	// reserved for what is planned.
	FormatV1 Format = iota + 1

	// FormatV2 adds the bucket agg, which sums up the samples that were pruned. A build of version 1 may read it but
	// not write: where it puts a damaged database aside it would begin anew without agg, and what was pruned would be
	// gone. The files spool, history.bak and history.bak.1 and the mark in history.lock come with it.
	FormatV2

	// -- Add new versions here --

	formatNext
	// FormatNewest is the version that this build writes.
	FormatNewest Format = formatNext - 1
	// FormatOldestReader is the oldest version whose readers understand what this build writes.
	FormatOldestReader Format = FormatV1
)

// The names in a state directory.
const (
	lockName       = "history.lock"
	databaseName   = "history.db"
	snapshotName   = "current.cfg"
	quarantineName = "quarantine"
	spoolName      = "spool"
	backupName     = "history.bak"
	olderName      = "history.bak.1"
	newSuffix      = ".new" // a file being made; it counts once it is renamed
)

// The buckets.
var (
	bucketMeta   = []byte("meta")
	bucketSample = []byte("sample")
	bucketRun    = []byte("run")
	bucketConfig = []byte("config")
	bucketPin    = []byte("pin")
	bucketAgg    = []byte("agg")

	buckets = [][]byte{bucketMeta, bucketSample, bucketRun, bucketConfig, bucketPin, bucketAgg}
)

// The keys of the meta bucket.
var (
	metaMagic            = []byte("magic")
	metaSchema           = []byte("schema")
	metaMinReader        = []byte("min_reader_schema")
	metaGeneration       = []byte("generation")
	metaConfigGeneration = []byte("config_generation")
	metaSamples          = []byte("samples")
	metaCreated          = []byte("created")
)

// magic is the value of metaMagic: a bbolt file without it is another program's.
const magic = "bitnet-autotune history"

// codec says how the payload of a sealed value is written. Numbers are never reused.
type codec byte

const (
	codecUint   codec = 1 // 8 bytes, big-endian
	codecText   codec = 2 // UTF-8
	codecJSON   codec = 3 // one JSON document
	codecRecord codec = 4 // record.go
)
