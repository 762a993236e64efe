package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// manVerb writes the man pages from what --help knows. cobra's own generator would bring two more modules.
func (a *app) manVerb() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:     "man --to DIR",
		Short:   "Write a man page for each verb",
		Example: `  bitnet-autotune man --to /usr/local/share/man/man1`,
		Args:    cobra.NoArgs,
		Hidden:  true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return err
			}
			return writeManPages(cmd.Root(), dir)
		},
	}
	cmd.Flags().StringVar(&dir, "to", "", "directory for the pages")
	if err := cmd.MarkFlagRequired("to"); err != nil {
		panic("cmd: a flag just defined")
	}
	return cmd
}

// writeManPages writes the page of cmd and those of the verbs under it.
func writeManPages(cmd *cobra.Command, dir string) error {
	if cmd.Hidden || !cmd.IsAvailableCommand() && cmd.HasParent() {
		return nil
	}
	if err := os.WriteFile(filepath.Join(dir, manName(cmd)+".1"), manPage(cmd), 0o644); err != nil {
		return err
	}
	for _, verb := range cmd.Commands() {
		if err := writeManPages(verb, dir); err != nil {
			return err
		}
	}
	return nil
}

func manName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// manPage is the page of one command, in the macros of man(7).
func manPage(cmd *cobra.Command) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, ".TH %s 1 \"\" \"%s\" \"User Commands\"\n", strings.ToUpper(roff(manName(cmd))), roff("bitnet-autotune "+cmd.Root().Version))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(manName(cmd)), roff(cmd.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n", roff(cmd.UseLine()))
	if cmd.Long != "" {
		b.WriteString(".SH DESCRIPTION\n")
		paragraphs(&b, cmd.Long)
	}
	manFlags(&b, "OPTIONS", cmd.NonInheritedFlags())
	manFlags(&b, "OPTIONS OF EVERY VERB", cmd.InheritedFlags())
	if cmd.Example != "" {
		fmt.Fprintf(&b, ".SH EXAMPLES\n.nf\n%s\n.fi\n", roff(strings.TrimRight(cmd.Example, "\n")))
	}
	var others []string
	if cmd.HasParent() {
		others = append(others, manName(cmd.Parent()))
	}
	for _, verb := range cmd.Commands() {
		if !verb.Hidden && verb.IsAvailableCommand() {
			others = append(others, manName(verb))
		}
	}
	if len(others) > 0 {
		fmt.Fprintf(&b, ".SH SEE ALSO\n")
		for i, name := range others {
			end := ","
			if i == len(others)-1 {
				end = ""
			}
			fmt.Fprintf(&b, ".BR %s (1)%s\n", roff(name), end)
		}
	}
	return b.Bytes()
}

func paragraphs(b *bytes.Buffer, text string) {
	for i, part := range strings.Split(text, "\n\n") {
		if i > 0 {
			b.WriteString(".PP\n")
		}
		fmt.Fprintln(b, roff(part))
	}
}

func manFlags(b *bytes.Buffer, title string, flags *pflag.FlagSet) {
	if !flags.HasAvailableFlags() {
		return
	}
	fmt.Fprintf(b, ".SH %s\n", title)
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		kind, help := pflag.UnquoteUsage(f)
		fmt.Fprintf(b, ".TP\n\\fB%s\\fR", roff(name))
		if kind != "" {
			fmt.Fprintf(b, " \\fI%s\\fR", roff(kind))
		}
		if unset := map[string]bool{"": true, "false": true, "0": true, "0s": true, "[]": true}; !unset[f.DefValue] && f.Name != "store" { // that one is of this user
			help += " (default " + f.DefValue + ")"
		}
		fmt.Fprintf(b, "\n%s\n", roff(help))
	})
}

// roff is plain text as it is written in a page: minus signs to be copied, and no line that is taken for a request.
func roff(text string) string {
	lines := strings.Split(strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	var b strings.Builder
	for _, r := range strings.Join(lines, "\n") {
		if r < utf8.RuneSelf {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, `\[u%04X]`, r)
		}
	}
	return b.String()
}
