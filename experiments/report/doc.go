// Package report says in tables and plots which search strategy was best on recorded spaces.
package report
