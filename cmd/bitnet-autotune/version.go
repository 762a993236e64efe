package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/bitnet-autotune/bitnet-autotune/kernels"
)

// build identifies the command: its version, the kernel table that results depend on, and how it was built.
type build struct {
	Version   string `json:"version"`
	Signature string `json:"kernel_signature"`
	Go        string `json:"go"`
	OS        string `json:"os"`
	Arch      string `json:"arch"`
	Cgo       bool   `json:"cgo"`
	Revision  string `json:"revision"`
	Modified  bool   `json:"modified"`
}

func thisBuild() build {
	b := build{Version: "unknown", Signature: kernels.Signature(), Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	b.Version = info.Main.Version
	for _, s := range info.Settings {
		switch s.Key {
		case "CGO_ENABLED":
			b.Cgo = s.Value == "1"
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

func (a *app) versionVerb() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version, the kernel table's signature and the build",
		Example: "  bitnet-autotune version --format json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			b := thisBuild()
			return a.print(b, func(w io.Writer) {
				fmt.Fprintf(w, "bitnet-autotune %s\nkernels %s\n%s %s/%s, cgo %v, revision %s\n", b.Version, b.Signature, b.Go, b.OS, b.Arch, b.Cgo, orUnknown(b.Revision))
			})
		},
	}
}
