// Package t4 reads and writes the files in which auto-tuners exchange what they measured: the cache files of Kernel
// Tuner and results in the T4 format.
//
// # Basics
//
//	rd, err := t4.NewReader(file)            // plain or gzipped, cache or results
//	for e, err := rd.Next(); err != io.EOF; e, err = rd.Next() { … }
//	head := rd.Header()
//
//	w, err := t4.NewWriter(file, t4.Results, head)
//	err = w.Write(e)
//	err = w.Close()
//
// What one format says and is read, the same format says again when written: values as they were spelled, times, error
// classes, the order of parameters and entries, and fields that this package does not know. From one format to the
// other go those that both have. Records turns the records of a history into entries, and Import back again.
//
// # Caveats
//
// The file of a killed run ends anywhere. Its whole entries are read, and Torn tells.
//
// Memory is bounded by the values of the parameters and by one entry, of 4 MiB at the most.
//
// Numbers other than values of parameters are float64; where unknown fields stand among the known ones is forgotten.
// NaN and Infinity, which Python writes, are read and written.
//
// History knows more statuses than Kernel Tuner has classes. An entry made of records carries its status and the records
// themselves as fields. A setting of which every sample was censored is in no class of either format and is left out.
//
// What another tuner measured has no fingerprint of a host or a model. Import makes them from the names of device and
// kernel, so that the same file is the same run again.
//
// # Decisions
//
// 2026-11-21: a scanner of our own rather than encoding/json. Its Decoder has no line numbers, keeps a value
// of any size in memory, and knows neither NaN nor the comma at which a killed run ends. The road taken is some 250
// lines, and encoding/json still judges strings.
//
// 2026-11-21: fields with a meaning here are typed and all others are carried as JSON text in order, rather than a
// generic document: searchers need the times without looking up names, and a round trip needs the rest.
package t4
