package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// sourced is a flag's value with where it came from.
type sourced struct{ flag, value, source string }

// fillFlags sets every flag of cmd that the command line did not from the environment (BITNET_AUTOTUNE_LOG_LEVEL for
// --log-level) or else from the config file.
func fillFlags(cmd *cobra.Command, env func(string) (string, bool)) ([]sourced, error) {
	file, values, err := configFile(env)
	if err != nil {
		return nil, err
	}
	if err := checkKeys(file, values, cmd.Root()); err != nil {
		return nil, err
	}
	flags := cmd.Flags()
	var sources []sourced
	flags.VisitAll(func(f *pflag.Flag) {
		if err != nil || f.Name == "help" {
			return
		}
		var s sourced
		s, err = fillFlag(flags, f, env, file, values)
		sources = append(sources, s)
	})
	return sources, err
}

// sourceNote is the annotation of a flag that the command line does not give.
const sourceNote = "source"

func fillFlag(flags *pflag.FlagSet, f *pflag.Flag, env func(string) (string, bool), file string, values map[string]any) (sourced, error) {
	name := "BITNET_AUTOTUNE_" + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
	fromEnv, inEnv := env(name)
	fromFile, inFile := values[f.Name]
	source, value := "default", f.DefValue
	switch {
	case f.Changed:
		source, value = "flag", f.Value.String()
	case inEnv && fromEnv != "":
		source, value = name, fromEnv
	case inFile:
		source, value = file, fmt.Sprint(fromFile)
	}
	if source != "flag" && source != "default" {
		if err := flags.Set(f.Name, value); err != nil {
			return sourced{}, fmt.Errorf("%s: %s: %w", source, f.Name, err)
		}
		f.Annotations = map[string][]string{sourceNote: {source}}
	}
	return sourced{flag: f.Name, value: value, source: source}, nil
}

// checkKeys refuses a key of the config file that is no flag of any verb: it would be passed over in silence.
func checkKeys(file string, values map[string]any, root *cobra.Command) error {
	known := map[string]bool{}
	addFlags(known, root)
	delete(known, "help")
	for _, key := range sortedKeys(values) {
		if !known[key] {
			return fmt.Errorf("config file %s: key %q: no verb has a flag --%s", file, key, key)
		}
		switch values[key].(type) {
		case string, bool, json.Number:
		default:
			return fmt.Errorf("config file %s: key %q: want a string, a number, true or false", file, key)
		}
	}
	return nil
}

// addFlags adds the names of the flags of cmd and of all verbs under it.
func addFlags(names map[string]bool, cmd *cobra.Command) {
	add := func(f *pflag.Flag) { names[f.Name] = true }
	cmd.PersistentFlags().VisitAll(add)
	cmd.LocalFlags().VisitAll(add)
	for _, verb := range cmd.Commands() {
		addFlags(names, verb)
	}
}

// configFile reads the config file, a flat JSON object with one key per flag. A default file that is absent is fine.
func configFile(env func(string) (string, bool)) (path string, values map[string]any, err error) {
	path, named := env("BITNET_AUTOTUNE_CONFIG")
	if !named || path == "" {
		dir, err := os.UserConfigDir()
		if err != nil {
			return "", nil, nil
		}
		path, named = filepath.Join(dir, "bitnet-autotune", "config.json"), false
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && !named {
		return path, nil, nil
	}
	if err != nil {
		return path, nil, fmt.Errorf("config file: %w", err)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber() // as they are written: 1000000 is no 1e+06
	if err := dec.Decode(&values); err != nil {
		return path, nil, fmt.Errorf("config file %s: %w; want one JSON object with a key per flag, such as {\"budget\": \"30s\"}", path, err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return path, nil, fmt.Errorf("config file %s: more than one JSON document; want one object with a key per flag", path)
	}
	return path, values, nil
}
