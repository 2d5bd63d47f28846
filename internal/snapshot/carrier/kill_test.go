//go:build linux

package carrier

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/strata-cache/strata/internal/testing/kit"
)

// Children of the tests are the test binary itself, with these variables.
const (
	childPath  = "STRATA_ATOMICFILE_PATH"
	childLimit = "STRATA_ATOMICFILE_LIMIT" // the largest size of a file
	childDisk  = "STRATA_ATOMICFILE_DISK"  // the size of the file system
	childUser  = "STRATA_ATOMICFILE_USER"  // a user without rights
	// childVersions is the number of versions to write.
	childVersions = "STRATA_ATOMICFILE_VERSIONS"
)

// versionLength is the length of a version that a child writes.
const versionLength = 256 << 10

// version is a content that tells whether it is whole.
func version(n uint64) []byte {
	b := bytes.Repeat(binary.LittleEndian.AppendUint64(nil, n), versionLength/8)
	return binary.LittleEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
}

// TestMain lets a child write until it is killed, the system refuses, or it has written as many
// versions as it was told to write.
func TestMain(m *testing.M) {
	path := os.Getenv(childPath)
	if path == "" {
		os.Exit(m.Run())
	}
	if err := confine(&path); err != nil {
		fmt.Println("confine:", err)
		os.Exit(1)
	}
	last, _ := strconv.ParseUint(os.Getenv(childVersions), 10, 64)
	for n := uint64(1); n <= last || last == 0; n++ {
		err := WriteFile(path, 0o600, func(w io.Writer) error {
			_, err := io.Copy(struct{ io.Writer }{w}, bytes.NewReader(version(n))) // in pieces of 32 KiB
			return err
		})
		if err != nil {
			beside, _ := os.ReadDir(filepath.Dir(path))
			fmt.Printf("%v; the directory has %v\n", err, beside)
			os.Exit(1)
		}
		fmt.Println(n)
	}
}

// confine brings a child into the state that its variables ask for.
func confine(path *string) error {
	if limit, _ := strconv.ParseUint(os.Getenv(childLimit), 10, 64); limit > 0 {
		signal.Ignore(syscall.SIGXFSZ)
		return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: limit, Max: limit})
	}
	if size := os.Getenv(childDisk); size != "" { // in a mount namespace of its own
		if err := syscall.Mount("tmpfs", filepath.Dir(*path), "tmpfs", 0, "size="+size); err != nil {
			return err
		}
		return os.WriteFile(*path, []byte("old"), 0o600)
	}
	if os.Getenv(childUser) != "" && os.Geteuid() == 0 {
		// The folders above belong to root, so that only the working directory is open.
		err := errors.Join(os.Chdir(filepath.Dir(*path)), syscall.Setgroups(nil), syscall.Setgid(65534), syscall.Setuid(65534))
		*path = filepath.Base(*path)
		return err
	}
	return nil
}

// read returns the number of a version, and whether it is whole.
func read(b []byte) (n uint64, whole bool) {
	if len(b) < 8 {
		return 0, false
	}
	n = binary.LittleEndian.Uint64(b)
	return n, bytes.Equal(b, version(n))
}

// command is a child before its start.
func command(t *testing.T, path string, env ...string) *exec.Cmd {
	c := exec.CommandContext(t.Context(), os.Args[0])
	c.Env = append(os.Environ(), append(env, childPath+"="+path)...)
	return c
}

// child begins a child, and returns the lines that it prints.
func child(t *testing.T, path string, env ...string) (*exec.Cmd, *bufio.Scanner) {
	c := command(t, path, env...)
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Error(err)
		return c, bufio.NewScanner(strings.NewReader(""))
	}
	return c, bufio.NewScanner(out)
}

// groups is the number of processes killed at the same time.
const groups = 4

func TestKilledWriterLeavesAWholeFile(t *testing.T) {
	kills := kit.Rounds(200)
	var leftovers atomic.Int64
	var all sync.WaitGroup
	for range groups {
		path := filepath.Join(t.TempDir(), "file")
		all.Go(func() {
			for range kills / groups {
				if err := killOnce(t, path); err != nil {
					t.Error(err)
					return
				}
			}
			n, err := leftBehind(path)
			if err != nil || n > kills/groups {
				t.Errorf("%d kills have left %d files behind: %v", kills/groups, n, err)
			}
			leftovers.Add(int64(n))
		})
	}
	all.Wait()
	t.Logf("%d of %d kills have come in the middle of a write", leftovers.Load(), kills)
	if leftovers.Load() == 0 {
		t.Error("no kill has come in the middle of a write")
	}
}

// killOnce kills a child while it writes the file at path. The file must be the last
// version that the child has told of, or the one after it.
func killOnce(t *testing.T, path string) error {
	if err := os.WriteFile(path, version(0), 0o600); err != nil {
		return err
	}
	c, said := child(t, path)
	said.Scan() // the first version is done
	last := said.Text()
	kill := time.AfterFunc(rand.N(8*time.Millisecond), func() { _ = c.Process.Kill() })
	defer kill.Stop()
	for said.Scan() {
		last = said.Text()
	}
	_ = c.Wait() // it was killed
	told, err := strconv.ParseUint(last, 10, 64)
	if err != nil {
		return fmt.Errorf("the child said %q", last)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if n, whole := read(got); !whole || n < told || n > told+1 {
		return fmt.Errorf("%d bytes of version %d, the child has told of %d", len(got), n, told)
	}
	return nil
}

// leftBehind counts the temporary files beside path, and looks whether a Write removes
// them a minute later.
func leftBehind(path string) (int, error) {
	all, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".file.*"))
	later := time.Now().Add(-unlockedAge - time.Second)
	for _, one := range all {
		err = errors.Join(err, os.Chtimes(one, later, later))
	}
	err = errors.Join(err, WriteFile(path, 0o600, threeTimes("new ")))
	if stay, _ := os.ReadDir(filepath.Dir(path)); len(stay) != 1 {
		err = errors.Join(err, fmt.Errorf("after a Write, the directory has %v", stay))
	}
	return len(all), err
}

func TestProcessesAtOnceLeaveAWholeFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	const versions = 20
	if err := os.WriteFile(path, version(0), 0o600); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 3 {
		c, said := child(t, path, childVersions+"="+strconv.Itoa(versions))
		all.Go(func() {
			for said.Scan() {
				got, err := os.ReadFile(path)
				if n, whole := read(got); !whole || n > versions || err != nil {
					t.Errorf("%d bytes of version %d, %v", len(got), n, err)
				}
			}
			if err := c.Wait(); err != nil {
				t.Errorf("%v: %s", err, said.Text())
			}
		})
	}
	all.Wait()
	got, err := os.ReadFile(path)
	if n, whole := read(got); !whole || n != versions || err != nil {
		t.Errorf("%d bytes of version %d, %v", len(got), n, err)
	}
	if beside, _ := os.ReadDir(filepath.Dir(path)); len(beside) != 1 {
		t.Errorf("the directory has %v", beside)
	}
}

func TestDiskWithoutRoomLeavesTheOldFileWhole(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	c := command(t, path, childDisk+"="+strconv.Itoa(versionLength/2))
	c.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	if uid := os.Getuid(); uid != 0 {
		c.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
		c.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: uid, Size: 1}}
		c.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	out, err := c.Output()
	said := string(out)
	if errors.Is(err, fs.ErrPermission) || strings.HasPrefix(said, "confine:") {
		t.Skipf("no file system of its own: %v %s", err, said)
	}
	if !strings.Contains(said, syscall.ENOSPC.Error()) || !strings.Contains(said, "write "+path) || !strings.Contains(said, "[- file]") {
		t.Errorf("%v: %s", err, said)
	}
}

func TestDirectoryThatIsNotOursLeavesTheOldFileWhole(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	if err := errors.Join(os.WriteFile(path, []byte("old"), 0o666), os.Chmod(dir, 0o555)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(dir, 0o700) })
	out, err := command(t, path, childUser+"=1").Output()
	said := string(out)
	if strings.HasPrefix(said, "confine:") {
		t.Skip(said)
	}
	got, _ := os.ReadFile(path)
	if !strings.Contains(said, syscall.EACCES.Error()) || !strings.Contains(said, "create a file beside") || !strings.Contains(said, "[- file]") || string(got) != "old" {
		t.Errorf("%v: %s, %q", err, said, got)
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
