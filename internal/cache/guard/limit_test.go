package guard

import (
	"bytes"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"
)

// tree returns a file system with these files.
func tree(files map[string]string) fs.FS {
	all := fstest.MapFS{}
	for name, text := range files {
		all[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return all
}

const (
	mount2 = "41 31 0:38 / /sys/fs/cgroup rw,relatime shared:4 - cgroup2 cgroup2 rw\n"
	mount1 = "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
)

// TestSmallestLimitOfAllCgroupsCounts has forged trees of files: of both versions, in containers, and such that lie.
func TestSmallestLimitOfAllCgroupsCounts(t *testing.T) {
	for name, x := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"nothing": {nil, 0},
		"version 2, the parent has the smallest": {map[string]string{
			"proc/self/cgroup": "0::/a/b/c\n", "proc/self/mountinfo": mount2,
			"sys/fs/cgroup/a/b/c/memory.max": "max\n", "sys/fs/cgroup/a/b/memory.max": "209715200\n", "sys/fs/cgroup/a/memory.max": "419430400\n",
		}, 200 << 20},
		"version 2, the group itself": {map[string]string{
			"proc/self/cgroup": "0::/a/b\n", "proc/self/mountinfo": mount2,
			"sys/fs/cgroup/a/b/memory.max": "104857600\n", "sys/fs/cgroup/a/memory.max": "419430400\n",
		}, 100 << 20},
		"version 2, the top of a container": {map[string]string{
			"proc/self/cgroup": "0::/\n", "proc/self/mountinfo": mount2, "sys/fs/cgroup/memory.max": "104857600",
		}, 100 << 20},
		"version 2, a namespace that hides the group": {map[string]string{
			"proc/self/cgroup": "0::/../../x\n", "proc/self/mountinfo": mount2,
			"sys/fs/cgroup/memory.max": "104857600", "sys/fs/cgroup/x/memory.max": "1048576",
		}, 100 << 20},
		"version 1, mounted at the group": {map[string]string{
			"proc/self/cgroup":                           "5:cpu:/docker/1\n4:memory:/docker/1\n",
			"proc/self/mountinfo":                        "35 31 0:32 /docker/1 /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "104857600\n",
		}, 100 << 20},
		"version 1, an ancestor out of sight": {map[string]string{
			"proc/self/cgroup": "4:memory:/a\n", "proc/self/mountinfo": mount1,
			"sys/fs/cgroup/memory/a/memory.limit_in_bytes": "9223372036854771712\n",
			"sys/fs/cgroup/memory/a/memory.stat":           "cache 1\nhierarchical_memory_limit 104857600\n",
		}, 100 << 20},
		"both versions": {map[string]string{
			"proc/self/cgroup": "4:cpu,memory:/a\n0::/b\n", "proc/self/mountinfo": mount1 + "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
			"sys/fs/cgroup/memory/a/memory.limit_in_bytes": "104857600", "sys/fs/cgroup/unified/b/memory.max": "52428800",
		}, 50 << 20},
		"a space in the path": {map[string]string{
			"proc/self/cgroup": "0::/a\n", "proc/self/mountinfo": "41 31 0:38 / /my\\040groups rw - cgroup2 cgroup2 rw\n",
			"my groups/a/memory.max": "52428800",
		}, 50 << 20},
		"limits that lie": {map[string]string{
			"proc/self/cgroup": "0::/a/b/c/d/e\n", "proc/self/mountinfo": mount2, "sys/fs/cgroup/memory.max": "104857600",
			"sys/fs/cgroup/a/memory.max": "-1", "sys/fs/cgroup/a/b/memory.max": "4096", "sys/fs/cgroup/a/b/c/memory.max": "",
			"sys/fs/cgroup/a/b/c/d/memory.max": "5 apples", "sys/fs/cgroup/a/b/c/d/e/memory.max": "99999999999999999999999",
		}, 100 << 20},
		"files that are no such files": {map[string]string{
			"proc/self/cgroup": "4:memory\n:::\n0::/a", "proc/self/mountinfo": " - \na b c d e - cgroup\n" + mount2, "sys/fs/cgroup/a/memory.max": "104857600",
		}, 100 << 20},
		"a folder in place of a file": {map[string]string{
			"proc/self/cgroup/x": "", "proc/self/mountinfo": mount2, "sys/fs/cgroup/memory.max/x": "1",
		}, 0},
	} {
		if got, _ := groupLimit(tree(x.files)); got != x.want {
			t.Errorf("%s: %d, want %d", name, got, x.want)
		}
	}
}

// TestLimitIsTheOneThatHolds has all sources, and a file that changes while the process runs.
func TestLimitIsTheOneThatHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		files := fstest.MapFS{
			"proc/self/cgroup": {Data: []byte("0::/\n")}, "proc/self/mountinfo": {Data: []byte(mount2)},
			"sys/fs/cgroup/memory.max": {Data: []byte("104857600")},
		}
		l := limits{files: files}
		check := func(given, memLimit int64, want found) {
			t.Helper()
			if got := l.find(given, reading{memLimit: memLimit}, time.Now()); got != want {
				t.Errorf("%+v, want %+v", got, want)
			}
		}
		check(0, math.MaxInt64, found{100 << 20, fromGroup, false})
		check(0, 50<<20, found{50 << 20, fromMemLimit, true})
		check(0, 200<<20, found{100 << 20, fromGroup, false})
		check(70<<20, 60<<20, found{70 << 20, fromOptions, true})
		check(70<<20, math.MaxInt64, found{70 << 20, fromOptions, false})
		for _, x := range []struct {
			text string
			want int64
		}{{"52428800", 50 << 20}, {"what", 50 << 20}, {"209715200", 200 << 20}} {
			files["sys/fs/cgroup/memory.max"].Data = []byte(x.text)
			time.Sleep(fileInterval)
			check(0, math.MaxInt64, found{x.want, fromGroup, false})
		}
		delete(files, "proc/self/cgroup")
		time.Sleep(fileInterval)
		check(0, math.MaxInt64, found{200 << 20, fromGroup, false})
		files["proc/self/cgroup"] = &fstest.MapFile{Data: []byte("0::/\n")}
		files["sys/fs/cgroup/memory.max"].Data = []byte("max")
		time.Sleep(fileInterval)
		check(0, math.MaxInt64, found{})
	})
}

// TestAdviceNamesALimitThatTheCollectorDoesNotKnow makes guards below one, and above.
func TestAdviceNamesALimitThatTheCollectorDoesNotKnow(t *testing.T) {
	files := tree(map[string]string{"proc/self/cgroup": "0::/\n", "proc/self/mountinfo": mount2, "sys/fs/cgroup/memory.max": "104857600"})
	for memLimit, lines := range map[int64]int{math.MaxInt64: 1, 90 << 20: 0} {
		var log bytes.Buffer
		newState(Options{Share: 0.7, Logger: slog.New(slog.NewTextHandler(&log, nil))}, files, func() reading { return reading{memLimit: memLimit, percent: 100} })
		if text := log.String(); strings.Count(text, "\n") != lines || lines > 0 && !strings.Contains(text, "limit=104857600") {
			t.Errorf("GOMEMLIMIT %d: the log is %q", memLimit, text)
		}
	}
}

// TestCeilingLeavesRoomForTheCollector compares limits that the collector knows with others.
func TestCeilingLeavesRoomForTheCollector(t *testing.T) {
	for _, x := range []struct {
		f    found
		r    reading
		want int64
	}{
		{found{100, fromMemLimit, true}, reading{percent: 100}, 70},
		{found{100, fromMemLimit, true}, reading{percent: 100, beside: 50}, 35},
		{found{100, fromMemLimit, true}, reading{beside: 200}, 0},
		{found{100, fromGroup, false}, reading{percent: 100}, 45},
		{found{100, fromGroup, false}, reading{percent: 10}, 70},
		{found{100, fromGroup, false}, reading{percent: math.MaxInt64}, 70},
	} {
		if got := x.f.ceiling(0.7, x.r); got != x.want {
			t.Errorf("%+v with %+v: %d, want %d", x.f, x.r, got, x.want)
		}
	}
}

// TestReadingHasAllMetrics reads the runtime of this test.
func TestReadingHasAllMetrics(t *testing.T) {
	kept := make([]byte, 32<<20)
	r := readRuntime()
	if r.memLimit <= 0 || r.percent <= 0 || r.beside <= 0 || r.beside > 1<<30 || r.live < 0 {
		t.Errorf("%+v", r)
	}
	kept[0]++
}

// FuzzGroups has any text in the files about cgroups.
func FuzzGroups(f *testing.F) {
	f.Add("0::/a/b\n", mount2, "104857600")
	f.Add("4:cpu,memory:/docker/1\n", mount1, "9223372036854771712")
	f.Add("0::/../..\n4:memory:/x", mount1+mount2, "max")
	f.Add("0::"+fmt.Sprintf("%0200d", 0), "a b c /.. ../../x rw - cgroup2 x y", "-1")
	f.Fuzz(func(t *testing.T, groups, mounts, limit string) {
		files := everywhere{"proc/self/cgroup": groups, "proc/self/mountinfo": mounts, "": limit}
		n, ok := groupLimit(files)
		if n != 0 && (n < leastLimit || n >= noLimit || !ok) {
			t.Errorf("limit %d, %v", n, ok)
		}
	})
}

// everywhere is a file system with some files, and the text of "" in all others.
type everywhere map[string]string

func (e everywhere) Open(name string) (fs.File, error) {
	text, ok := e[name]
	if !ok {
		text = e[""]
	}
	return fstest.MapFS{"x": {Data: []byte(text)}}.Open("x")
}
