package main

import (
	"strings"

	"github.com/spf13/cobra"
)

// completeFlag makes a flag of cmd complete to the words that values returns for the verb at hand, and not to files.
func completeFlag(cmd *cobra.Command, flag string, values func(verb *cobra.Command) []string) {
	complete := func(verb *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return values(verb), cobra.ShellCompDirectiveNoFileComp
	}
	if err := cmd.RegisterFlagCompletionFunc(flag, complete); err != nil {
		panic("cmd: completion for a flag just defined")
	}
}

// completeList is completeFlag for a list with commas: it completes the last word.
func completeList(cmd *cobra.Command, flag string, values func(verb *cobra.Command) []string) {
	complete := func(verb *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		before := typed[:strings.LastIndex(typed, ",")+1]
		var lists []string
		for _, v := range values(verb) {
			lists = append(lists, before+v)
		}
		return lists, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
	if err := cmd.RegisterFlagCompletionFunc(flag, complete); err != nil {
		panic("cmd: completion for a flag just defined")
	}
}

// words are values that depend on no verb.
func words(list ...string) func(*cobra.Command) []string {
	return func(*cobra.Command) []string { return list }
}
