package page

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"unicode/utf8"
)

// Query is the query of a request, or the form in its body. A bad query returns errors of
// all its methods.
type Query struct {
	values url.Values
	err    error
}

// QueryOf returns the query of the address of r.
func QueryOf(r *http.Request) Query {
	v, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		err = errors.New("strata: the query of the address cannot be read")
	}
	return Query{v, err}
}

// Text returns the text of a name, or "" if it is missing. A text of more than most bytes,
// invalid UTF-8, and a name given twice are errors.
func (q Query) Text(name string, most int) (string, error) {
	all := q.values[name]
	switch {
	case q.err != nil:
		return "", q.err
	case len(all) == 0:
		return "", nil
	case len(all) > 1:
		return "", fmt.Errorf("strata: %s is given more than once", name)
	case len(all[0]) > most:
		return "", fmt.Errorf("strata: %s has more than %d bytes", name, most)
	case !utf8.ValidString(all[0]):
		return "", fmt.Errorf("strata: %s is not UTF-8", name)
	}
	return all[0], nil
}

// Number returns the whole number of a name, or missing if there is none. A number below
// least or above most is an error.
func (q Query) Number(name string, least, most, missing int64) (int64, error) {
	text, err := q.Text(name, 20)
	if err != nil || text == "" {
		return missing, err
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < least || n > most {
		return missing, fmt.Errorf("strata: %s is a whole number from %d to %d", name, least, most)
	}
	return n, nil
}

// ReadJSON decodes the body of r into v, as DecodeJSON does.
func ReadJSON(r *http.Request, v any) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return fmt.Errorf("strata: the body of the request cannot be read: %w", err)
	}
	return DecodeJSON(body, v)
}

// DecodeJSON decodes body into v. Unknown fields, invalid UTF-8, and anything after the value
// are errors.
func DecodeJSON(body []byte, v any) error {
	if !utf8.Valid(body) {
		return errors.New("strata: the body of the request is not UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("strata: the body of the request cannot be read: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("strata: the body of the request has more than one value")
	}
	return nil
}

// Write answers with v as JSON.
func Write(w http.ResponseWriter, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		Fail(w, http.StatusInternalServerError, fmt.Errorf("strata: the answer cannot be written: %w", err))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.Write(body) //nolint:errcheck // the client is gone
}

// Failure is the answer to a request that the page refuses, as JSON.
type Failure struct {
	// Error is one sentence.
	Error string `json:"error"`
}

// Fail answers with a status and an error, as JSON. The errors of a body too large, or not
// received in time, have statuses of their own.
func Fail(w http.ResponseWriter, status int, err error) {
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		status = http.StatusRequestEntityTooLarge
	} else if errors.Is(err, os.ErrDeadlineExceeded) {
		status = http.StatusRequestTimeout
	}
	body, _ := json.Marshal(Failure{err.Error()})
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	w.Write(body) //nolint:errcheck // the client is gone
}
