package engine

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
)

// Row is one test that llama-bench ran: a prompt of so many tokens, or so many tokens generated, or both in turn.
type Row struct {
	Prompt   int       // tokens of the prompt, n_prompt
	Generate int       // tokens generated, n_gen
	Depth    int       // tokens in the context before, n_depth
	Samples  []float64 // ns of each repetition, samples_ns
	// Facts are the other fields: build, model, machine and the settings as the engine took them.
	Facts map[string]string
}

// Tokens is the work of one repetition.
func (r Row) Tokens() int { return r.Prompt + r.Generate }

// ErrGarbage is wrapped by the errors about output that is not what llama-bench prints.
var ErrGarbage = errors.New("not the output of llama-bench")

// ParseOutput reads what llama-bench prints with --output json or jsonl. Every release prints n_prompt, n_gen, samples_ns
// and samples_ts; what else there is differs by release and goes to Facts. Each time is checked against its rate, so that
// a field that changed its unit is an error and not a figure.
func ParseOutput(out []byte) ([]Row, error) {
	objects, err := split(out)
	if err != nil {
		return nil, fmt.Errorf("engine: %w: %w", ErrGarbage, err)
	}
	var rows []Row
	for i, object := range objects {
		row, err := parseRow(object)
		if err != nil {
			return nil, fmt.Errorf("engine: %w: test %d: %w", ErrGarbage, i+1, err)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// split returns the objects of an array, or of lines.
func split(out []byte) ([]map[string]any, error) {
	dec := json.NewDecoder(bytes.NewReader(out))
	dec.UseNumber()
	var objects []map[string]any
	if trimmed := bytes.TrimSpace(out); len(trimmed) > 0 && trimmed[0] == '[' {
		if err := dec.Decode(&objects); err != nil {
			return nil, err
		}
		if _, err := dec.Token(); err != io.EOF {
			return nil, errors.New("something follows the array")
		}
	} else {
		for dec.More() {
			var object map[string]any
			if err := dec.Decode(&object); err != nil {
				return nil, err
			}
			objects = append(objects, object)
		}
		if _, err := dec.Token(); err != io.EOF {
			return nil, errors.New("something follows the last object")
		}
	}
	if len(objects) == 0 {
		return nil, errors.New("no test in it")
	}
	return objects, nil
}

func parseRow(object map[string]any) (Row, error) {
	row := Row{Facts: map[string]string{}}
	var rates []float64
	var err error
	for _, field := range []struct {
		name string
		read func(any) error
		must bool
	}{
		{"n_prompt", func(v any) error { row.Prompt, err = count(v); return err }, true},
		{"n_gen", func(v any) error { row.Generate, err = count(v); return err }, true},
		{"n_depth", func(v any) error { row.Depth, err = count(v); return err }, false},
		{"samples_ns", func(v any) error { row.Samples, err = numbers(v); return err }, true},
		{"samples_ts", func(v any) error { rates, err = numbers(v); return err }, true},
	} {
		value, there := object[field.name]
		if !there && field.must {
			return Row{}, fmt.Errorf("no field %s", field.name)
		}
		if there {
			if err := field.read(value); err != nil {
				return Row{}, fmt.Errorf("field %s: %w", field.name, err)
			}
			delete(object, field.name)
		}
	}
	for name, value := range object {
		row.Facts[name] = fact(value)
	}
	return row, row.check(rates)
}

// rateDoubt is how far a rate may be from tokens / time: it is printed with six digits.
const rateDoubt = 0.001

// check compares times with rates.
func (r Row) check(rates []float64) error {
	if r.Tokens() == 0 {
		return errors.New("n_prompt and n_gen are both 0")
	}
	if len(rates) != len(r.Samples) {
		return fmt.Errorf("%d samples_ns and %d samples_ts: want as many of both", len(r.Samples), len(rates))
	}
	for i, ns := range r.Samples {
		if want := float64(r.Tokens()) * 1e9 / ns; math.Abs(rates[i]/want-1) > rateDoubt {
			return fmt.Errorf("repetition %d took %g ns for %d tokens, which is %.6g tokens/s and not the %g of samples_ts: the units are not those known", i+1, ns, r.Tokens(), want, rates[i])
		}
	}
	return nil
}

func count(v any) (int, error) {
	number, ok := v.(json.Number)
	if !ok {
		return 0, fmt.Errorf("%v: want a number", v)
	}
	n, err := number.Int64()
	if err != nil || n < 0 || n > 1<<30 {
		return 0, fmt.Errorf("%s: want a whole number of tokens", number)
	}
	return int(n), nil
}

func numbers(v any) ([]float64, error) {
	list, ok := v.([]any)
	if !ok || len(list) == 0 {
		return nil, errors.New("want a list of numbers, at least one")
	}
	var values []float64
	for _, item := range list {
		number, ok := item.(json.Number)
		if !ok {
			return nil, fmt.Errorf("%v: want a number", item)
		}
		f, err := number.Float64()
		if err != nil || !(f > 0) {
			return nil, fmt.Errorf("%s: want a positive number", number)
		}
		values = append(values, f)
	}
	return values, nil
}

// fact is a field for people.
func fact(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case nil:
		return ""
	}
	return fmt.Sprint(v)
}
