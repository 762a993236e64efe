package t4

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
)

// maxValues bounds how many values a parameter may have.
const maxValues = 1 << 16

// Reader reads the entries of one file, which may be plain or gzipped, one after another.
type Reader struct {
	format Format
	head   Header
	s      *scanner
	places map[string]int   // of the parameters in head.Params
	known  []map[string]int // of each parameter, the places of its values
	listed bool             // the file lists the values of its parameters
	first  bool             // no entry has been read yet
	begun  bool             // the bracket that opens the entries has been read
	timed  bool             // the present entry says its time, or why it has none
	done   bool
	torn   bool
}

// NewReader reads r as far as its first entry. The error is that of an unreadable header, and names line and key.
func NewReader(r io.Reader) (*Reader, error) {
	plain, err := inflate(r)
	if err != nil {
		return nil, fmt.Errorf("t4: read: %w", err)
	}
	rd := &Reader{s: newScanner(plain), first: true}
	if err := rd.open(); err != nil {
		return nil, rd.fail(err)
	}
	return rd, nil
}

// inflate returns what r holds, unpacked if it is gzipped.
func inflate(r io.Reader) (io.Reader, error) {
	in := bufio.NewReader(r)
	if magic, _ := in.Peek(2); !bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		return in, nil
	}
	return gzip.NewReader(in)
}

// fail says in which line err was met.
func (r *Reader) fail(err error) error { return fmt.Errorf("t4: read: line %d: %w", r.s.line, err) }

// Format returns what kind of file it is.
func (r *Reader) Format() Format { return r.format }

// Header returns what the file says about all entries: of a cache at once, of results when Next has returned io.EOF,
// for they name parameters and values entry by entry.
func (r *Reader) Header() Header { return r.head }

// Torn reports whether the file ended early, as that of a killed run does. It is known when Next has returned io.EOF;
// the entries before the tear are sound.
func (r *Reader) Torn() bool { return r.torn }

// open reads the header as far as the first entry.
func (r *Reader) open() error {
	if err := r.s.take('{'); err != nil {
		return err
	}
	return r.fields(true)
}

// fields reads the fields of the file's object up to the entries, or after them up to its end.
func (r *Reader) fields(first bool) error {
	for ; ; first = false {
		more, err := r.s.more(first, '}')
		if err != nil {
			return err
		}
		if !more {
			break
		}
		key, err := r.s.key()
		if err != nil {
			return err
		}
		entries, err := r.field(key)
		if err != nil {
			return within(key, err)
		}
		if entries {
			return nil
		}
		r.s.reset()
	}
	if !r.begun {
		return errors.New(`neither "cache" nor "results": want a Kernel Tuner cache file or T4 results`)
	}
	r.done = true
	return nil
}

// field reads one field of the header, or the bracket that opens the entries.
func (r *Reader) field(key string) (entries bool, err error) {
	if key == "cache" || key == "results" {
		return true, r.begin(key)
	}
	switch key {
	case "device_name":
		r.head.Device, err = r.s.string()
	case "kernel_name":
		r.head.Kernel, err = r.s.string()
	case "problem_size":
		r.head.ProblemSize, err = r.s.raw()
	case "objective":
		r.head.Objective, err = r.s.string()
	case "tune_params_keys":
		err = r.names()
	case "tune_params":
		err = r.s.object(r.values)
	default:
		var text string
		text, err = r.s.raw()
		if key == "schema_version" && err == nil && !version1(text) {
			err = fmt.Errorf("%.40s; want \"1.x.y\"", text)
		}
		if err == nil {
			r.head.Rest = append(r.head.Rest, Field{Name: key, JSON: text})
		}
	}
	return false, err
}

// begin takes the bracket that opens the entries.
func (r *Reader) begin(key string) error {
	if r.begun {
		return errors.New("entries for the second time")
	}
	r.begun = true
	r.s.reset()
	if key == "results" {
		r.format = Results
		return r.s.take('[')
	}
	if len(r.head.Params) == 0 {
		return errors.New(`no "tune_params_keys" before it`)
	}
	for _, p := range r.head.Params {
		if r.listed && p.Values == nil {
			return fmt.Errorf("tune_params: no values of %q", p.Name)
		}
	}
	return r.s.take('{')
}

// names reads the names of the parameters.
func (r *Reader) names() error {
	if r.known != nil {
		return errors.New("for the second time, or after tune_params")
	}
	return r.s.array(func() error {
		name, err := r.s.string()
		if err != nil {
			return err
		}
		return r.addParam(name)
	})
}

func (r *Reader) addParam(name string) error {
	if r.places == nil {
		r.places = map[string]int{}
	}
	if _, taken := r.places[name]; taken || name == "" {
		return fmt.Errorf("parameter %q is empty or taken", name)
	}
	r.places[name] = len(r.head.Params)
	r.head.Params = append(r.head.Params, Param{Name: name})
	r.known = append(r.known, map[string]int{})
	return nil
}

// values reads the values of a parameter.
func (r *Reader) values(name string) error {
	k, ok := r.places[name]
	if !ok {
		return errors.New("is not in the tune_params_keys before it")
	}
	if len(r.known[k]) > 0 {
		return errors.New("for the second time")
	}
	r.listed = true
	r.head.Params[k].Values = []string{}
	return r.s.array(func() error {
		value, err := r.s.scalar()
		if err != nil {
			return err
		}
		if _, twice := r.known[k][value]; twice {
			return fmt.Errorf("value %s for the second time", value)
		}
		return r.addValue(k, value)
	})
}

func (r *Reader) addValue(k int, value string) error {
	if len(r.known[k]) == maxValues {
		return fmt.Errorf("more than %d values", maxValues)
	}
	r.known[k][value] = len(r.known[k])
	r.head.Params[k].Values = append(r.head.Params[k].Values, value)
	return nil
}

// Next returns the next entry, or io.EOF after the last one, also where the file was torn after its header. Any other
// error names line and key, and ends the reading.
func (r *Reader) Next() (Entry, error) {
	if r.done {
		return Entry{}, io.EOF
	}
	e, err := r.next()
	switch {
	case err == nil:
		return e, nil
	case err == io.EOF:
		return e, io.EOF
	case errors.Is(err, errTorn):
		r.done, r.torn = true, true
		return e, io.EOF
	}
	r.done = true
	return e, r.fail(err)
}

func (r *Reader) next() (Entry, error) {
	end := byte('}')
	if r.format == Results {
		end = ']'
	}
	more, err := r.s.more(r.first, end)
	if err != nil {
		return Entry{}, err
	}
	r.first = false
	if !more {
		if err := r.fields(false); err != nil {
			return Entry{}, err
		}
		if err := r.nothingMore(); err != nil {
			return Entry{}, err
		}
		return Entry{}, io.EOF
	}
	r.s.reset()
	return r.entry()
}

// nothingMore makes sure that the file ends here, and that what gzip sums up about it is true.
func (r *Reader) nothingMore() error {
	c, err := r.s.peek()
	switch {
	case err == nil:
		return fmt.Errorf("found %q after the end", c)
	case errors.Is(err, errTorn):
		return nil
	}
	return err
}

func (r *Reader) entry() (Entry, error) {
	r.timed = false
	e := Entry{Time: math.NaN(), Spent: NotRecorded(), Values: make([]string, len(r.head.Params))}
	if r.format == Results {
		err := r.result(&e)
		return e, err
	}
	key, err := r.s.key()
	if err != nil {
		return e, err
	}
	return e, within(key, r.cached(&e))
}

// cached reads one entry of a cache.
func (r *Reader) cached(e *Entry) error {
	err := r.s.object(func(key string) error {
		if k, ok := r.places[key]; ok {
			return r.setting(e, k)
		}
		if phase := slices.Index(cachePhases[:], key); phase >= 0 {
			return r.phase(e, phase)
		}
		switch key {
		case "time":
			text, err := r.s.raw()
			if err != nil {
				return err
			}
			return r.time(e, text)
		case "times":
			return r.times(e)
		case "timestamp":
			return r.stamp(e)
		}
		return r.unknown(&e.Rest, key)
	})
	if err != nil {
		return err
	}
	return r.whole(e)
}

// setting reads the value of parameter k.
func (r *Reader) setting(e *Entry, k int) error {
	value, err := r.s.scalar()
	if err != nil {
		return err
	}
	if e.Values[k] != "" {
		return errors.New("for the second time")
	}
	e.Values[k] = value
	if _, ok := r.known[k][value]; ok {
		return nil
	}
	if r.listed {
		return fmt.Errorf("%s is not among the values in tune_params", value)
	}
	return r.addValue(k, value)
}

func (r *Reader) phase(e *Entry, phase int) (err error) {
	e.Spent[phase], err = r.s.number()
	return err
}

func (r *Reader) times(e *Entry) error {
	e.Times = []float64{}
	return r.s.array(func() error {
		x, err := r.s.number()
		e.Times = append(e.Times, x)
		return err
	})
}

// unknown reads the value of a key that has no meaning here.
func (r *Reader) unknown(rest *[]Field, key string) error {
	text, err := r.s.raw()
	if err == nil {
		*rest = append(*rest, Field{Name: key, JSON: text})
	}
	return err
}

func (r *Reader) stamp(e *Entry) (err error) {
	e.Stamp, err = r.s.string()
	return err
}

// time takes a time, or the class of an error in its place.
func (r *Reader) time(e *Entry, text string) (err error) {
	if r.timed {
		return errors.New("for the second time")
	}
	r.timed = true
	if text[0] == '"' {
		if e.Failure = unquote(text); e.Failure == "" {
			return errors.New("want a number, or an error class that is not empty")
		}
		return nil
	}
	e.Time, err = number(text)
	return err
}

// whole checks that an entry has all it needs.
func (r *Reader) whole(e *Entry) error {
	for k, value := range e.Values {
		if value == "" {
			return within(r.head.Params[k].Name, errors.New("missing"))
		}
	}
	if e.Failure == "" && !r.timed {
		return e.failureElsewhere(r.head.Objective)
	}
	return nil
}

// failureElsewhere looks for the class of an error where newer releases and other objectives keep it.
func (e *Entry) failureElsewhere(objective string) error {
	for _, f := range e.Rest {
		if (f.Name == "__error__" || f.Name == objective) && f.JSON[0] == '"' && len(f.JSON) > 2 {
			e.Failure = unquote(f.JSON)
			return nil
		}
	}
	return within("time", errors.New("missing; want a number or an error class"))
}
