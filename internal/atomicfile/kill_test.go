//go:build unix

package atomicfile

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Children of the tests are the test binary itself, with these variables.
const (
	childPath  = "STRATA_ATOMICFILE_PATH"
	childLimit = "STRATA_ATOMICFILE_LIMIT"
)

// versionLength is the length of a version that a child writes.
const versionLength = 256 << 10

// version is a content that tells whether it is whole.
func version(n uint64) []byte {
	b := bytes.Repeat(binary.LittleEndian.AppendUint64(nil, n), versionLength/8)
	return binary.LittleEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
}

// TestMain lets a child write until it is killed, or the system refuses.
func TestMain(m *testing.M) {
	path := os.Getenv(childPath)
	if path == "" {
		os.Exit(m.Run())
	}
	if limit, _ := strconv.ParseUint(os.Getenv(childLimit), 10, 64); limit > 0 {
		signal.Ignore(syscall.SIGXFSZ)
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: limit, Max: limit}); err != nil {
			panic(err)
		}
	}
	for n := uint64(1); ; n++ {
		err := Write(path, 0o600, func(w io.Writer) error {
			_, err := io.Copy(struct{ io.Writer }{w}, bytes.NewReader(version(n))) // in pieces of 32 KiB
			return err
		})
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println(n)
	}
}

// child begins a child, and returns the lines that it prints.
func child(t *testing.T, path string, env ...string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0])
	c.Env = append(os.Environ(), append(env, childPath+"="+path)...)
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	return c, bufio.NewScanner(out)
}

func TestKilledWriterLeavesAWholeFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	kills := 200
	if testing.Short() {
		kills = 20
	}
	leftovers := 0
	for range kills {
		if err := os.WriteFile(path, version(0), 0o600); err != nil {
			t.Fatal(err)
		}
		c, said := child(t, path)
		said.Scan() // the first version is done
		first := said.Text()
		kill := time.AfterFunc(rand.N(8*time.Millisecond), func() { _ = c.Process.Kill() })
		last := first
		for said.Scan() {
			last = said.Text()
		}
		_ = c.Wait() // it was killed
		kill.Stop()
		told, err := strconv.ParseUint(last, 10, 64)
		if err != nil {
			t.Fatalf("the child said %q: %v", last, err)
		}
		got, err := os.ReadFile(path)
		if err != nil || len(got) < 8 {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
		n := binary.LittleEndian.Uint64(got)
		if !bytes.Equal(got, version(n)) || n < told || n > told+1 {
			t.Fatalf("%d bytes of version %d, the child has told of %d", len(got), n, told)
		}
		all, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".file.*"))
		leftovers += len(all)
		for _, one := range all {
			_ = os.Remove(one)
		}
	}
	if leftovers == 0 {
		t.Error("no kill has come in the middle of a write")
	}
}

func TestFullDiskLeavesTheOldFileWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, limit := range []int{1, 32 << 10, versionLength / 2, versionLength} { // versions are four bytes longer
		c, said := child(t, path, childLimit+"="+strconv.Itoa(limit))
		said.Scan()
		var exit *exec.ExitError
		if err := c.Wait(); !errors.As(err, &exit) || !strings.Contains(said.Text(), syscall.EFBIG.Error()) || !strings.Contains(said.Text(), path) {
			t.Errorf("with room for %d bytes: %v, %q", limit, err, said.Text())
		}
		all, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*"))
		hidden, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".*"))
		if got, err := os.ReadFile(path); string(got) != "old" || err != nil || len(all)+len(hidden) != 1 {
			t.Errorf("with room for %d bytes: %q, %v, %q %q", limit, got, err, all, hidden)
		}
	}
}
