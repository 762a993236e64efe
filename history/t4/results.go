package t4

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// invalidities are the words of T4 for the error classes of Kernel Tuner.
var invalidities = []struct{ word, class string }{
	{"compile", "CompilationFailedConfig"},
	{"runtime", "RuntimeFailedConfig"},
	{"constraints", "InvalidConfig"},
	{"correctness", "CorrectnessFailedConfig"},
	{"timeout", "TimeoutFailedConfig"},
}

// invalidity returns T4's word for an error class; "constraints" for one that T4 does not know, as Kernel Tuner does.
func invalidity(class string) string {
	if class == "" {
		return "correct"
	}
	for _, row := range invalidities {
		if row.class == class {
			return row.word
		}
	}
	return "constraints"
}

// failure returns the error class of T4's word; "" of "correct".
func failure(word string) (string, error) {
	if word == "correct" {
		return "", nil
	}
	for _, row := range invalidities {
		if row.word == word {
			return row.class, nil
		}
	}
	return "", fmt.Errorf("%.40q: want timeout, compile, runtime, correctness, constraints or correct", word)
}

// result reads one entry of results.
func (r *Reader) result(e *Entry) error {
	seen := map[string]bool{}
	class := ""
	err := r.s.object(func(key string) (err error) {
		if seen[key] {
			return errors.New("for the second time")
		}
		seen[key] = true
		switch key {
		case "timestamp":
			return r.stamp(e)
		case "configuration":
			return r.configuration(e)
		case "times":
			return r.s.object(func(key string) error { return r.spent(e, key) })
		case "measurements":
			return r.s.array(func() error { return r.measurement(e) })
		}
		text, err := r.s.raw()
		if err != nil {
			return err
		}
		e.Result = append(e.Result, Field{Name: key, JSON: text})
		if key == "invalidity" {
			class, err = word(text)
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, key := range []string{"configuration", "times", "invalidity", "correctness"} {
		if !seen[key] {
			return within(key, errors.New("missing"))
		}
	}
	return r.judge(e, class)
}

// word is failure of a JSON text.
func word(text string) (string, error) {
	if text[0] != '"' {
		return "", errors.New("want a string")
	}
	return failure(unquote(text))
}

// judge settles what became of an entry.
func (r *Reader) judge(e *Entry, class string) error {
	if class != "" && e.Failure == "" {
		e.Failure = class
	}
	if class == "" && e.Failure != "" {
		return within("invalidity", fmt.Errorf("correct, but the time is %.40q", e.Failure))
	}
	return r.whole(e)
}

// configuration reads the parameters. Those of the first entry are the parameters of the file.
func (r *Reader) configuration(e *Entry) error {
	naming := r.head.Params == nil
	return r.s.object(func(key string) error {
		if naming {
			if err := r.addParam(key); err != nil {
				return err
			}
			e.Values = append(e.Values, "")
		}
		k, ok := r.places[key]
		if !ok {
			return errors.New("not a parameter of the first entry")
		}
		return r.setting(e, k)
	})
}

// spent reads one member of "times".
func (r *Reader) spent(e *Entry, key string) error {
	phase := slices.Index(resultPhases[:], key)
	switch {
	case key == "compilation_time": // as the schema spells it, where Kernel Tuner writes compilation
		phase = Compile
	case key == "runtimes":
		return r.times(e)
	}
	if phase >= 0 {
		return r.phase(e, phase)
	}
	return r.unknown(&e.Result, timesPrefix+key)
}

// timesPrefix marks the members of "times" that have no place of their own in an Entry.
const timesPrefix = "times."

// measurement reads one element of "measurements".
func (r *Reader) measurement(e *Entry) error {
	var f Field
	err := r.s.object(func(key string) (err error) {
		switch key {
		case "name":
			f.Name, err = r.s.string()
		case "value":
			f.JSON, err = r.s.raw()
		case "unit":
			f.Unit, err = r.s.string()
		default:
			err = errors.New("want name, value and unit only")
		}
		return err
	})
	if err != nil {
		return within("measurements", err)
	}
	if f.Name == "" || f.JSON == "" {
		return errors.New("measurement without a name or a value")
	}
	if f.Name == "time" {
		e.Unit = f.Unit
		return within("time", r.time(e, f.JSON))
	}
	e.Rest = append(e.Rest, f)
	return nil
}

// version1 reports whether JSON text is a schema version that this package knows.
func version1(text string) bool { return strings.HasPrefix(text, `"1.`) }
