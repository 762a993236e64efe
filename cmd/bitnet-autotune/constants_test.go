package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
)

// RX.2: every package with constants of the requirements is in the list, and each of them says where it comes from.
func TestEveryConstantIsListed(t *testing.T) {
	listed := map[string]bool{}
	var names []string
	for _, c := range defaultConstants().list() {
		pkg, name, _ := strings.Cut(c.Name, ".")
		listed[pkg] = true
		if name == "" || c.Unit == "" || c.Doc == "" || c.Source == "" || c.Overridden {
			t.Errorf("constant %+v: want a name, a unit, a source and a sentence, and not overridden", c)
		}
		if slices.Contains(names, c.Name) {
			t.Errorf("constant %s is listed twice", c.Name)
		}
		names = append(names, c.Name)
	}
	root := os.DirFS("../..")
	err := fs.WalkDir(root, ".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(file, ".go") || path.Dir(file) == "cmd/bitnet-autotune" {
			return err
		}
		source, err := fs.ReadFile(root, file)
		if err != nil {
			return err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, source, parser.SkipObjectResolution)
		if err != nil {
			return nil // testdata
		}
		for _, d := range parsed.Decls {
			if declares(d, "Constants") && !listed[parsed.Name.Name] {
				t.Errorf("%s declares Constants, which config --constants does not list: add them to type constants", file)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// declares reports whether d declares a type of that name.
func declares(d ast.Decl, name string) bool {
	types, ok := d.(*ast.GenDecl)
	return ok && slices.ContainsFunc(types.Specs, func(s ast.Spec) bool {
		spec, ok := s.(*ast.TypeSpec)
		return ok && spec.Name.Name == name
	})
}
