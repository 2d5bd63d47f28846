package carrier

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

var errFault = errors.New("fault")

// faulty is a disk with a failure of the operation number at. It notes all
// operations.
type faulty struct {
	disk
	at    int
	did   []string
	short bool // a write that fails returns no error
}

// step counts an operation, and returns its error.
func (f *faulty) step(op string) error {
	f.did = append(f.did, op)
	if len(f.did)-1 == f.at {
		return errFault
	}
	return nil
}

func (f *faulty) create(path string, perm fs.FileMode) (file, error) {
	if err := f.step("create"); err != nil {
		return nil, err
	}
	one, err := f.disk.create(path, perm)
	return &faultyFile{one, f}, err
}

func (f *faulty) rename(from, to string) error {
	if err := f.step("rename"); err != nil {
		return err
	}
	return f.disk.rename(from, to)
}

func (f *faulty) remove(path string) error {
	if err := f.step("remove"); err != nil {
		return err
	}
	return f.disk.remove(path)
}

func (f *faulty) syncDir(path string) error {
	if err := f.step("syncDir"); err != nil {
		return err
	}
	return f.disk.syncDir(path)
}

type faultyFile struct {
	file
	of *faulty
}

func (f *faultyFile) Write(b []byte) (int, error) {
	if err := f.of.step("write"); err != nil {
		n, _ := f.file.Write(b[:len(b)/2]) // as a full disk does
		if f.of.short {
			err = nil
		}
		return n, err
	}
	return f.file.Write(b)
}

func (f *faultyFile) Sync() error {
	if err := f.of.step("sync"); err != nil {
		return err
	}
	return f.file.Sync()
}

func (f *faultyFile) Close() error {
	return errors.Join(f.of.step("close"), f.file.Close())
}

// content is the content of all files in the directory of the file, by name.
func content(t *testing.T, path string) map[string]string {
	t.Helper()
	all, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	names := make(map[string]string)
	for _, e := range all {
		b, err := os.ReadFile(filepath.Join(filepath.Dir(path), e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		names[e.Name()] = string(b)
	}
	return names
}

func threeTimes(text string) func(io.Writer) error {
	return func(w io.Writer) error {
		for range 3 {
			if _, err := io.WriteString(w, text); err != nil {
				return err
			}
		}
		return nil
	}
}

func TestAnyFailureLeavesTheOldFileWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	order := []string{"create", "write", "write", "write", "sync", "close", "rename", "syncDir"}
	for at := range len(order) + 1 {
		if err := WriteFile(path, 0o600, threeTimes("old ")); err != nil {
			t.Fatal(err)
		}
		on := &faulty{at: at}
		err := replace(on, path, 0o600, threeTimes("new "))
		want := "old old old "
		if at >= len(order)-1 { // the rename was done
			want = "new new new "
		}
		if got := content(t, path); len(got) != 1 || got["file"] != want {
			t.Errorf("operation %d fails, the directory has %q", at, got)
		}
		if at < len(order) && !errors.Is(err, errFault) || at == len(order) && err != nil || err != nil && !strings.Contains(err.Error(), path) {
			t.Errorf("operation %d fails: %v", at, err)
		}
		if did, plan := fmt.Sprint(on.did), fmt.Sprint(order[:min(at+1, len(order))]); !strings.HasPrefix(did, plan[:len(plan)-1]) {
			t.Errorf("operations are %s, want %s", did, plan)
		}
	}
}

func TestAWriteThatFailsCountsEvenIfItsErrorIsLost(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := WriteFile(path, 0o600, threeTimes("old ")); err != nil {
		t.Fatal(err)
	}
	for at := 1; at <= 3; at++ {
		for _, short := range []bool{false, true} {
			on, want := &faulty{at: at, short: short}, errFault
			if short {
				want = io.ErrShortWrite
			}
			err := replace(on, path, 0o600, func(w io.Writer) error {
				for range 3 {
					_, _ = io.WriteString(w, "new ")
				}
				return nil
			})
			if got := content(t, path); len(got) != 1 || got["file"] != "old old old " || !errors.Is(err, want) {
				t.Errorf("write %d fails, short %v: %v, the directory has %q", at, short, err, got)
			}
			if did := fmt.Sprint(on.did[at:]); did != "[write close remove]" {
				t.Errorf("after write %d: %s", at, did)
			}
		}
	}
}

func TestFailedRemovalIsTold(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	on := &faulty{at: 3} // create, close and remove after the failure of write
	err := replace(on, path, 0o600, func(io.Writer) error { return io.ErrClosedPipe })
	if !errors.Is(err, io.ErrClosedPipe) {
		t.Error(err)
	}
	on = &faulty{at: 2}
	if err = replace(on, path, 0o600, func(io.Writer) error { return io.ErrClosedPipe }); !errors.Is(err, io.ErrClosedPipe) || !errors.Is(err, errFault) {
		t.Errorf("%v after %v", err, on.did)
	}
}

func TestPanicOfTheCallerLeavesTheOldFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := WriteFile(path, 0o600, threeTimes("old ")); err != nil {
		t.Fatal(err)
	}
	func() {
		defer func() { _ = recover() }()
		_ = WriteFile(path, 0o600, func(w io.Writer) error {
			_, _ = io.WriteString(w, "new")
			panic("in the middle")
		})
		t.Error("the panic is lost")
	}()
	if got := content(t, path); len(got) != 1 || got["file"] != "old old old " {
		t.Errorf("%q", got)
	}
}

func TestFileHasItsRightsAndItsLink(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "file"), filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(path, link); err != nil {
		t.Skip(err)
	}
	if err := os.WriteFile(path, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(link, 0o600, threeTimes("new ")); err != nil {
		t.Fatal(err)
	}
	about, err := os.Stat(path)
	if err != nil || about.Mode().Perm() != 0o600 || about.Size() != 12 {
		t.Errorf("%v %v %d", err, about.Mode(), about.Size())
	}
	if at, err := os.Readlink(link); at != path || err != nil {
		t.Errorf("the link is %q, %v", at, err)
	}
}

func TestPathThatCannotBeAFileIsAnError(t *testing.T) {
	dir := t.TempDir()
	touched := func(io.Writer) error { t.Error("write is called"); return nil }
	if err := WriteFile(dir, 0o600, touched); err == nil || !strings.Contains(err.Error(), "directory") {
		t.Error(err)
	}
	if err := WriteFile(filepath.Join(dir, "no", "file"), 0o600, touched); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if got := content(t, filepath.Join(dir, "x")); len(got) != 0 {
		t.Errorf("%q", got)
	}
}

func TestOnlyRegularFilesAreReplaced(t *testing.T) {
	dir := t.TempDir()
	loop := filepath.Join(dir, "loop")
	if err := os.Symlink("loop", loop); err != nil {
		t.Skip(err)
	}
	touched := func(io.Writer) error { t.Error("write is called"); return nil }
	for path, text := range map[string]string{os.DevNull: "not a regular file", loop: "too many", dir + string(filepath.Separator): "directory", "": "directory"} {
		if err := WriteFile(path, 0o600, touched); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%q: %v", path, err)
		}
	}
	if all, err := os.ReadDir(dir); err != nil || len(all) != 1 {
		t.Errorf("%v %v", all, err)
	}
}

func TestLinksStayAndLeadToTheirFile(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "a", "b"), 0o700), os.Symlink(filepath.Join("a", "b"), filepath.Join(dir, "short")),
		os.Symlink(filepath.Join("..", "file"), filepath.Join(dir, "a", "b", "link")), os.Symlink(filepath.Join("short", "link"), filepath.Join(dir, "link"))); err != nil {
		t.Skip(err)
	}
	for _, text := range []string{"first ", "second "} { // at first the file is missing
		if err := WriteFile(filepath.Join(dir, "link"), 0o600, threeTimes(text)); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(dir, "a", "file"))
		if string(got) != strings.Repeat(text, 3) || err != nil {
			t.Errorf("%q %v", got, err)
		}
	}
	for _, link := range []string{"link", filepath.Join("a", "b", "link")} {
		if about, err := os.Lstat(filepath.Join(dir, link)); err != nil || about.Mode()&fs.ModeSymlink == 0 {
			t.Errorf("%s: %v", link, err)
		}
	}
}

func TestNamesOfAnyLengthAreReplaced(t *testing.T) {
	for _, n := range []int{1, maxBase, maxBase + 1, 255} {
		path := filepath.Join(t.TempDir(), strings.Repeat("n", n))
		if err := WriteFile(path, 0o600, threeTimes("new ")); err != nil {
			t.Error(err)
		}
	}
}

func TestDirectoriesWithoutSyncAreNoFailure(t *testing.T) {
	for _, err := range []error{nil, syscall.EINVAL, errors.ErrUnsupported} {
		if got := supported(err); got != nil {
			t.Error(got)
		}
	}
	if err := supported(syscall.EIO); !errors.Is(err, syscall.EIO) {
		t.Error(err)
	}
}

func TestWritersAtOnceLeaveAWholeFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 20 {
				if err := WriteFile(path, 0o600, threeTimes(strings.Repeat(fmt.Sprint(i), 10_000))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	got := content(t, path)
	if b := []byte(got["file"]); len(got) != 1 || len(b) != 30_000 || bytes.Count(b, b[:1]) != len(b) {
		t.Errorf("%d files, %d bytes", len(got), len(b))
	}
}
