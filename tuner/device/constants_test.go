package device

import (
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// RX.2, R0.37: every constant has a name, a source, a unit and a sentence.
func TestConstantsAreDocumented(t *testing.T) {
	source := regexp.MustCompile(`^R0\.\d+(, our choice)?$`)
	c := reflect.TypeOf(Constants{})
	for i := range c.NumField() {
		f := c.Field(i)
		if tag := f.Tag.Get("source"); !source.MatchString(tag) {
			t.Errorf("%s: source %q: want a requirement", f.Name, tag)
		}
		for _, tag := range []string{"json", "unit", "doc"} {
			if f.Tag.Get(tag) == "" {
				t.Errorf("%s has no tag %s", f.Name, tag)
			}
		}
	}
}

// R0.32: every constant can be overridden, and one that makes no sense is refused by its name.
func TestConstantsThatMakeNoSense(t *testing.T) {
	c := reflect.TypeOf(Constants{})
	for i := range c.NumField() {
		name := c.Field(i).Tag.Get("json")
		bad := Defaults
		reflect.ValueOf(&bad).Elem().Field(i).SetZero()
		if name == "quiet_cores" { // 0: any load takes a core
			bad.QuietCores = -1
		}
		if err := bad.Validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v, want an error that names it", name, err)
		}
	}
	if err := Defaults.Validate(); err != nil {
		t.Error(err)
	}
	crossed := Defaults
	crossed.LeastFraction = 0.99
	if err := crossed.Validate(); err == nil || !strings.Contains(err.Error(), "ascending") {
		t.Errorf("got %v, want an error about the order", err)
	}
}
