package main

import (
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/bitnet-autotune/bitnet-autotune/cuda/memory"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/advisor"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/device"
	"github.com/bitnet-autotune/bitnet-autotune/tuner/placement"
)

// constants are the figures behind the answers that rest on rules, by package. --constant changes them.
type constants struct {
	Device    device.Constants    `json:"device"`
	Memory    memory.Constants    `json:"memory"`
	Advisor   advisor.Constants   `json:"advisor"`
	Placement placement.Constants `json:"placement"`
}

func defaultConstants() constants {
	return constants{Device: device.Defaults, Memory: memory.Defaults, Advisor: advisor.Defaults, Placement: placement.Defaults}
}

// constant is one of them as it is listed. Its field carries source, unit and doc as tags.
type constant struct {
	Name       string `json:"name"` // package and field: "device.most_load"
	Value      any    `json:"value"`
	Default    any    `json:"default"`
	Overridden bool   `json:"overridden"`
	Unit       string `json:"unit"`
	Source     string `json:"source"` // the requirement that asks for it, and whether the value is ours
	Doc        string `json:"doc"`
}

// constantFlag adds --constant, which changes c before the verb runs.
func constantFlag(cmd *cobra.Command, c *constants) {
	var set []string
	cmd.Flags().StringArrayVar(&set, "constant", nil, "a figure of the rules to use instead: NAME=VALUE, several with spaces between (config --constants lists them)")
	completeFlag(cmd, "constant", func(*cobra.Command) []string {
		var names []string
		for _, f := range defaultConstants().list() {
			names = append(names, f.Name+"=")
		}
		return names
	})
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		*c = defaultConstants()
		for _, word := range strings.Fields(strings.Join(set, " ")) {
			if err := c.set(word); err != nil {
				return usage(fmt.Errorf("--constant %s: %w", word, err))
			}
		}
		if err := c.validate(); err != nil {
			return usage(fmt.Errorf("--constant: %w", err))
		}
		return run(cmd, args)
	}
}

// validate names the first that cannot be meant, whichever package it is of.
func (c *constants) validate() error {
	packages := reflect.ValueOf(c).Elem()
	for i := range packages.NumField() {
		if err := packages.Field(i).Interface().(interface{ Validate() error }).Validate(); err != nil {
			return err
		}
	}
	return nil
}

// options are those of a decision with these constants.
func (c *constants) options(fixed bool, log *zerolog.Logger) device.Options {
	return device.Options{Constants: &c.Device, Memory: &c.Memory, Off: fixed, Log: log}
}

// each calls visit for every constant, with its name.
func (c *constants) each(visit func(name string, field reflect.StructField, value reflect.Value)) {
	packages := reflect.ValueOf(c).Elem()
	for i := range packages.NumField() {
		prefix, fields := packages.Type().Field(i).Tag.Get("json"), packages.Field(i)
		for j := range fields.NumField() {
			field := fields.Type().Field(j)
			visit(prefix+"."+field.Tag.Get("json"), field, fields.Field(j))
		}
	}
}

// set changes one constant: "device.most_load=0.5". A value is JSON, or a duration such as 200ms.
func (c *constants) set(word string) error {
	name, text, _ := strings.Cut(word, "=")
	err := fmt.Errorf("no such constant: config --constants lists them")
	c.each(func(known string, _ reflect.StructField, value reflect.Value) {
		if known != name {
			return
		}
		fresh := reflect.New(value.Type())
		if d, bad := time.ParseDuration(text); bad == nil && value.Type() == reflect.TypeFor[time.Duration]() {
			fresh.Elem().SetInt(int64(d))
			err = nil
		} else if err = json.Unmarshal([]byte(text), fresh.Interface()); err != nil {
			err = fmt.Errorf("%q: want a value such as %v", text, jsonOf(value.Interface()))
		}
		if err == nil {
			value.Set(fresh.Elem())
		}
	})
	return err
}

// list tells of every constant, in the order of the packages and their fields.
func (c constants) list() []constant {
	var defaults []any
	standard := defaultConstants()
	standard.each(func(_ string, _ reflect.StructField, value reflect.Value) {
		defaults = append(defaults, value.Interface())
	})
	list := []constant{}
	c.each(func(name string, field reflect.StructField, value reflect.Value) {
		was := defaults[len(list)]
		list = append(list, constant{Name: name, Value: value.Interface(), Default: was, Overridden: !reflect.DeepEqual(value.Interface(), was),
			Unit: field.Tag.Get("unit"), Source: field.Tag.Get("source"), Doc: field.Tag.Get("doc")})
	})
	return list
}

func writeConstants(w io.Writer, list []constant) {
	tab := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tab, "NAME\tVALUE\tUNIT\tSOURCE\t")
	for _, c := range list {
		value := jsonOf(c.Value)
		if c.Overridden {
			value += " (overridden, default " + jsonOf(c.Default) + ")"
		}
		fmt.Fprintf(tab, "%s\t%s\t%s\t%s\t%s\n", c.Name, value, c.Unit, c.Source, c.Doc)
	}
	tab.Flush()
}

// jsonOf is a value as --constant takes it.
func jsonOf(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic("cmd: a constant always marshals")
	}
	return string(text)
}
