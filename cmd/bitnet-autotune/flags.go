package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"
)

// sourced is a flag's value with where it came from.
type sourced struct{ flag, value, source string }

// fillFlags sets every flag that the command line did not from the environment (BITNET_AUTOTUNE_LOG_LEVEL for
// --log-level) or else from the config file.
func fillFlags(flags *pflag.FlagSet, env func(string) (string, bool)) ([]sourced, error) {
	file, values, err := configFile(env)
	if err != nil {
		return nil, err
	}
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
	}
	return sourced{flag: f.Name, value: value, source: source}, nil
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
	if err := json.Unmarshal(data, &values); err != nil {
		return path, nil, fmt.Errorf("config file %s: %w; want one JSON object with a key per flag, such as {\"budget\": \"30s\"}", path, err)
	}
	return path, values, nil
}
