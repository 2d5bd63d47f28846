package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/strata-cache/strata/internal/snapshot/carrier"
	"github.com/strata-cache/strata/internal/snapshot/format"
)

// filePerm are the rights of a snapshot's file: it contains the data of the caches.
const filePerm = 0o600

// Save writes the entries of caches to a file, the most used ones first, with their values
// and lives. Only the user of the process may read it. The file takes its name when it is
// whole and on disk: if Save fails or the process is killed, an older file stays as it was.
//
// It returns an error of the file system, of ctx, and of a closed cache, or of one
// without a name or with keys without names. Entries that the codec cannot encode are
// left out and counted in the [Report].
func Save(ctx context.Context, path string, o Options, caches ...Cache) (Report, error) {
	return save(ctx, path, o, format.Values, caches)
}

// SaveKeys writes the keys of the entries of caches to a file, the hottest first, for
// [WarmKeys]. Names of keys are in it, but no values. It returns the same errors as
// Save.
//
// After an hour without traffic L1 has few entries or none, and its keys would make a poor
// file. So a cache with fewer than half of its keys in the file at path keeps the others
// behind its own, up to as many as there were: [CacheReport].Kept counts them. A file with
// such keys keeps its time of creation, and a week after that they are given up.
func SaveKeys(ctx context.Context, path string, o Options, caches ...Cache) (Report, error) {
	return save(ctx, path, o, format.Keys, caches)
}

func save(ctx context.Context, path string, o Options, mode format.Mode, caches []Cache) (r Report, err error) {
	all, err := sources(caches)
	if err != nil {
		return Report{}, err
	}
	if err := o.check(); err != nil {
		return Report{}, err
	}
	err = carrier.WriteFile(path, filePerm, func(w io.Writer) (err error) {
		r, err = write(ctx, w, path, o, mode, caches)
		return err
	})
	if err != nil {
		err = fmt.Errorf("snapshot: %w", err)
	}
	r.log(o.logger(all), "snapshot is saved", "snapshot is not saved", err)
	return r, err
}

// Load fills caches from a file of [Save]. The entries are as much older as the wall clock
// says. Load can run while the caches are in use: it replaces no entry.
//
// It returns an error of the file or of ctx, and one of this package for a snapshot that
// is none, is damaged or cut. The entries before an error are in use. A path that names no
// regular file is an error, because the opening of a pipe waits for a writer, for however
// long: [Read] takes any reader.
func Load(ctx context.Context, path string, o Options, caches ...Cache) (Report, error) {
	return load(ctx, path, o, format.Values, caches)
}

// WarmKeys reads the keys in a file of [SaveKeys], or of [Save], from L2, so that they are
// in L1 with the values that L2 has now. It runs no Loader. Caches need an L2. It returns
// the errors of Load, and one if L2 does not answer.
func WarmKeys(ctx context.Context, path string, o Options, caches ...Cache) (Report, error) {
	return load(ctx, path, o, format.Keys, caches)
}

var errNoFile = errors.New("it is no regular file (Read takes pipes and devices)")

func load(ctx context.Context, path string, o Options, mode format.Mode, caches []Cache) (Report, error) {
	// Before it is opened: that may not return.
	about, err := os.Stat(path)
	if err == nil && !about.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: path, Err: errNoFile}
	}
	if err != nil {
		return Report{}, fmt.Errorf("snapshot: %w", err)
	}
	f, err := os.Open(path)
	if err != nil {
		return Report{}, fmt.Errorf("snapshot: %w", err)
	}
	defer f.Close()
	return read(ctx, f, o, mode, about.Size(), caches)
}
