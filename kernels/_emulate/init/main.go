// Command init is the only program on the emulated machine of bochs.sh besides the test binary: it runs the tests that
// RUN names on the kernel's command line, prints "exit 0" or what went wrong, and switches the machine off.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

func main() {
	result := "exit 0"
	if err := run(); err != nil {
		result = err.Error()
	}
	fmt.Printf("\nemulate: %s\n", result)
	time.Sleep(time.Second) // of the emulated clock: the serial port sends what it has buffered
	syscall.Reboot(syscall.LINUX_REBOOT_CMD_POWER_OFF)
}

func run() error {
	for kind, at := range map[string]string{"proc": "/proc", "sysfs": "/sys", "devtmpfs": "/dev"} {
		if err := syscall.Mount(kind, at, kind, 0, ""); err != nil {
			return fmt.Errorf("mount %s: %w", kind, err)
		}
	}
	console, err := os.OpenFile("/dev/console", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	os.Stdout = console
	tests := exec.Command("/kernels.test", "-test.v", "-test.short", "-test.run="+os.Getenv("RUN"))
	tests.Stdin, tests.Stdout, tests.Stderr = console, console, console
	return tests.Run()
}
