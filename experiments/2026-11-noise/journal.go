package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
)

// key names an outcome.
type key struct {
	Noise, Way, Space string
	Runs, Seed        int
}

// line is an outcome in a file.
type line struct {
	key
	outcome
}

// journal is the outcomes so far, in a file too if it has one, so that a study can be done in parts, one after the other: two
// processes would damage the file.
type journal struct {
	mu       sync.Mutex
	file     *os.File
	outcomes map[key]outcome
}

// openJournal reads a file, which need not exist. A last line that was cut short is left out.
func openJournal(name string) (*journal, error) {
	j := &journal{outcomes: map[key]outcome{}}
	if name == "" {
		return j, nil
	}
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	whole := int64(0)
	lines := bufio.NewReader(file)
	for {
		text, err := lines.ReadBytes('\n')
		if err != nil {
			break
		}
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			file.Close()
			return nil, fmt.Errorf("%s at byte %d: %w", name, whole, err)
		}
		j.outcomes[l.key] = l.outcome
		whole += int64(len(text))
	}
	if err := file.Truncate(whole); err != nil {
		return nil, err
	}
	if _, err := file.Seek(0, io.SeekEnd); err != nil {
		return nil, err
	}
	j.file = file
	return j, nil
}

func (j *journal) close() {
	if j.file != nil {
		j.file.Close()
	}
}

func (j *journal) has(k key) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	_, ok := j.outcomes[k]
	return ok
}

func (j *journal) add(k key, o outcome) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.outcomes[k] = o
	if j.file == nil {
		return nil
	}
	text, err := json.Marshal(line{k, o})
	if err != nil {
		return err
	}
	_, err = j.file.Write(append(text, '\n'))
	return err
}

// of returns the outcomes of a way under a disturbance.
func (j *journal) of(noise, way string, runs int) []outcome {
	var list []outcome
	for k, o := range j.outcomes {
		if k.Noise == noise && k.Way == way && k.Runs == runs {
			list = append(list, o)
		}
	}
	return list
}
