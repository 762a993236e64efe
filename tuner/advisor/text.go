package advisor

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// WriteText writes the report for a terminal.
func (r Report) WriteText(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "%s\n", r.headline())
	for _, s := range r.Suggestions {
		fmt.Fprintf(b, "\n%-8s  %s  (%s, %s)\n", strings.ToUpper(string(s.Impact)), s.Title, s.ID, s.Difficulty)
		fmt.Fprintf(b, "  %s\n", s.Description)
		fmt.Fprintf(b, "  expected: %s\n", s.Expected.sentence(s.Basis))
		for i, step := range s.Steps {
			fmt.Fprintf(b, "  %d. %s\n", i+1, step)
		}
		for _, example := range s.Examples {
			fmt.Fprintf(b, "     $ %s\n", example)
		}
		if s.Measure != "" {
			fmt.Fprintf(b, "  measure it: %s\n", s.Measure)
		}
		for _, warning := range s.Warnings {
			fmt.Fprintf(b, "  note: %s\n", warning)
		}
	}
	for _, list := range r.remainders() {
		fmt.Fprintf(b, "\n%s\n", list.title)
		for _, line := range list.lines {
			fmt.Fprintf(b, "  %s\n", line)
		}
	}
	return b.Flush()
}

// WriteMarkdown writes the report as a document.
func (r Report) WriteMarkdown(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "# Performance advice\n\n%s\n", r.headline())
	for _, s := range r.Suggestions {
		fmt.Fprintf(b, "\n## %s\n\n", s.Title)
		fmt.Fprintf(b, "`%s` · impact **%s** · difficulty %s · %s\n\n", s.ID, s.Impact, s.Difficulty, s.Category)
		fmt.Fprintf(b, "%s\n\n", s.Description)
		fmt.Fprintf(b, "Expected: %s\n\n", s.Expected.sentence(s.Basis))
		for i, step := range s.Steps {
			fmt.Fprintf(b, "%d. %s\n", i+1, step)
		}
		if len(s.Examples) > 0 {
			fmt.Fprintf(b, "\n```\n%s\n```\n", strings.Join(s.Examples, "\n"))
		}
		if s.Measure != "" {
			fmt.Fprintf(b, "\nMeasure it: `%s`\n", s.Measure)
		}
		for i, warning := range s.Warnings {
			if i == 0 {
				fmt.Fprintln(b)
			}
			fmt.Fprintf(b, "> %s\n", warning)
		}
	}
	for _, list := range r.remainders() {
		fmt.Fprintf(b, "\n## %s\n\n", list.title)
		for _, line := range list.lines {
			fmt.Fprintf(b, "- %s\n", line)
		}
	}
	return b.Flush()
}

// headline says in a sentence what the report is of.
func (r Report) headline() string {
	text := fmt.Sprintf("%s from %d rules for host %.8s", count(len(r.Suggestions), "suggestion"), r.Checked, r.Host)
	if r.Model != "" {
		text += " and model " + r.Model
	}
	if r.Filtered > 0 {
		text += fmt.Sprintf(", %d more left out by the filters", r.Filtered)
	}
	if r.Constrained {
		text += "; memory is short here, so what saves memory comes first"
	}
	return text + "."
}

// remainder is a list at the end of a report.
type remainder struct {
	title string
	lines []string
}

// remainders are what the report has to say besides suggestions.
func (r Report) remainders() []remainder {
	var all []remainder
	for _, list := range []struct {
		title   string
		entries []Skipped
	}{{"Not judged", r.Skipped}, {"Rules that failed", r.Failed}} {
		if len(list.entries) == 0 {
			continue
		}
		all = append(all, remainder{list.title, byReason(list.entries)})
	}
	if len(r.Silenced) > 0 {
		all = append(all, remainder{"Silenced", r.Silenced})
	}
	return all
}

// byReason is a line for each reason, with the rules that share it, in the order of their first.
func byReason(entries []Skipped) []string {
	var reasons []string
	ids := map[string][]string{}
	for _, s := range entries {
		if ids[s.Reason] == nil {
			reasons = append(reasons, s.Reason)
		}
		ids[s.Reason] = append(ids[s.Reason], s.ID)
	}
	for i, reason := range reasons {
		reasons[i] = fmt.Sprintf("%s (%s)", reason, strings.Join(ids[reason], ", "))
	}
	return reasons
}

// sentence tells figures, their basis and their source.
func (i Improvement) sentence(basis Basis) string {
	var parts []string
	add := func(r *Range, text string) {
		if r != nil {
			parts = append(parts, text)
		}
	}
	add(i.Speed, i.Speed.ratio("speed"))
	add(i.Throughput, i.Throughput.ratio("throughput"))
	add(i.Latency, i.Latency.percent("time"))
	add(i.Memory, i.Memory.percent("memory"))
	if len(parts) == 0 {
		return i.Source
	}
	text := strings.Join(parts, ", ")
	if i.Of != "" {
		text += " of " + i.Of
	}
	text += fmt.Sprintf(" (%s: %s", basis, i.Source)
	if i.Confidence > 0 {
		text += fmt.Sprintf(", %.0f %% interval", 100*i.Confidence)
	}
	if len(i.Records) > 0 {
		text += ", " + strings.Join(i.Records, ", ")
	}
	return text + ")"
}

// ratio is "1.5x speed" or "1x to 3x (2x) speed".
func (r *Range) ratio(of string) string {
	switch {
	case r == nil:
		return ""
	case r.Low == r.High:
		return fmt.Sprintf("%.4gx %s", r.Estimate, of)
	}
	return fmt.Sprintf("%.4gx %s (%.4gx to %.4gx)", r.Estimate, of, r.Low, r.High)
}

// percent is "30 % less memory" or "20 % more time".
func (r *Range) percent(of string) string {
	if r == nil {
		return ""
	}
	amount := func(x float64) string { return fmt.Sprintf("%.3g %%", max(x, -x)) }
	direction := "less"
	if r.Estimate > 0 {
		direction = "more"
	}
	if r.Low == r.High {
		return fmt.Sprintf("%s %s %s", amount(r.Estimate), direction, of)
	}
	return fmt.Sprintf("%s to %s %s %s", amount(r.High), amount(r.Low), direction, of)
}

// count is "1 suggestion", "2 suggestions".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
