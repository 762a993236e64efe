package history

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// openGolden puts a stored version into a new directory.
func openGolden(t *testing.T, version string) string {
	t.Helper()
	dir := t.TempDir()
	for name, suffix := range map[string]string{databaseName: ".db", snapshotName: ".cfg"} {
		content, err := os.ReadFile("testdata/" + version + suffix)
		must(t, err)
		must(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	return dir
}

// A database of version 1 is read as it is by who may only read, and brought to the newest version by who may write.
func TestMigrationOfV1(t *testing.T) {
	dir := openGolden(t, "v1")
	reading, err := Open(dir, Options{ReadOnly: true})
	must(t, err)
	if got := len(collectRecords(t, reading, Filter{})); got != 20 {
		t.Errorf("%d records of version 1, want 20", got)
	}
	checkSound(t, reading)
	before, err := os.ReadFile(filepath.Join(dir, databaseName))
	must(t, err)

	s := openTest(t, dir)
	if warnings := s.Warnings(); len(warnings) != 1 || !strings.Contains(warnings[0].Error(), "brought from format 1 to 2") {
		t.Errorf("Warnings: %v", warnings)
	}
	if kept, err := os.ReadFile(s.path(backupName)); err != nil || string(kept) != string(before) {
		t.Errorf("the old database is not the backup: %v", err)
	}
	if got := len(collectRecords(t, s, Filter{})); got != 20 {
		t.Errorf("%d records, want 20", got)
	}
	must(t, s.Append(context.Background(), samples(6, 0, 3)...))
	checkSound(t, reading)

	// It happens once, and a restore of the old one brings it to this version again.
	if again := openTest(t, dir); len(again.Warnings()) > 0 {
		t.Errorf("Warnings of the second: %v", again.Warnings())
	}
	done, err := s.Restore(context.Background(), "")
	must(t, err)
	if done.Records != 20 {
		t.Errorf("restored %+v, want the 20 records of version 1", done)
	}
}

// A migration that cannot be done leaves everything as it is.
func TestMigrationOfADamagedV1(t *testing.T) {
	dir := openGolden(t, "v1")
	flipSample(t, filepath.Join(dir, databaseName), 5)
	before, err := os.ReadFile(filepath.Join(dir, databaseName))
	must(t, err)
	s, err := Open(dir, Options{})
	if err == nil || !strings.Contains(err.Error(), "from format 1 to 2") {
		t.Fatalf("Open: %v", err)
	}
	if after, err := os.ReadFile(filepath.Join(dir, databaseName)); err != nil || string(after) != string(before) {
		t.Errorf("the database was changed: %v", err)
	}
	done, err := s.Repair(context.Background())
	must(t, err)
	if done.Lost > 1 || done.Records < 19 {
		t.Errorf("repaired %+v, want all but one", done)
	}
	checkSound(t, s)
}
