package curl_test

import (
	"errors"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"

	"github.com/strata-cache/strata/cmd/strata/curl"
)

// files reads the only file of the tests.
func files(name string) (string, error) {
	if name != "body" {
		return "", os.ErrNotExist
	}
	return "a=1\r\nb=2\n", nil
}

// request parses a command line that begins with curl.
func request(text string) (*curl.Request, error) {
	words, err := curl.Words(text)
	if err != nil {
		return nil, err
	}
	if len(words) == 0 || words[0] != "curl" {
		return nil, errors.New("another command")
	}
	return curl.Parse(words[1:], files)
}

// ofChrome is a command line as Chromium copies it.
const ofChrome = `curl 'http://localhost:8080/x?a=1&b=2' \
  -H 'Accept: application/json' \
  -H 'Authorization: Bearer s3cret' \
  -b 'session=abc; theme=dark' \
  -H 'User-Agent: Mozilla/5.0 (X11; Linux x86_64)' \
  --data-raw $'{"text":"it\'s \u0021\\n\u00e9"}' \
  --compressed \
  --insecure`

func TestCommandLinesAreReadAsCurlReadsThem(t *testing.T) {
	plain := func(more http.Header) http.Header {
		h := http.Header{"Accept": {"*/*"}}
		for name, values := range more {
			h[name] = values
		}
		return h
	}
	for text, want := range map[string]curl.Request{
		"curl localhost:8080/x": {URL: "localhost:8080/x", Header: plain(nil)},
		ofChrome: {
			URL: "http://localhost:8080/x?a=1&b=2", Method: "POST", Body: `{"text":"it's !\né"}`, Insecure: true,
			Header: http.Header{
				"Accept": {"application/json"}, "Authorization": {"Bearer s3cret"}, "Cookie": {"session=abc; theme=dark"},
				"User-Agent": {"Mozilla/5.0 (X11; Linux x86_64)"}, "Accept-Encoding": {"deflate, gzip, br, zstd"},
			},
		},
		`curl -sSLkXPUT -d a=b -da=c "http://h/{i}"`:                    {URL: "http://h/{i}", Method: "PUT", Body: "a=b&a=c", Follow: true, Insecure: true, Header: plain(nil)},
		"curl --request DELETE --location --url http://h -m 1.5":        {URL: "http://h", Method: "DELETE", Follow: true, Timeout: 1500 * time.Millisecond, Header: plain(nil)},
		"curl -G http://h/?q=1#f -d a=b --data-urlencode 'c=d e&f'":     {URL: "http://h/?q=1&a=b&c=d%20e%26f#f", Header: plain(nil)},
		"curl --get http://h --data-urlencode =é --data-urlencode 'x '": {URL: "http://h?%C3%A9&x%20", Header: plain(nil)},
		"curl -G http://h -I -X PUT --url-less":                         {},
		"curl http://h/{i} -d {i}":                                      {URL: "http://h/{i}", Method: "POST", Body: "{i}", Header: plain(nil)},
		"curl -I http://h":                                              {URL: "http://h", Method: "HEAD", Header: plain(nil)},
		"curl http://h -d @body -d c":                                   {URL: "http://h", Method: "POST", Body: "a=1b=2&c", Header: plain(nil)},
		"curl http://h --data-binary @body":                             {URL: "http://h", Method: "POST", Body: "a=1\r\nb=2\n", Header: plain(nil)},
		"curl http://h --data-raw @body":                                {URL: "http://h", Method: "POST", Body: "@body", Header: plain(nil)},
		"curl http://h --data-urlencode c@body":                         {URL: "http://h", Method: "POST", Body: "c=a%3D1%0D%0Ab%3D2%0A", Header: plain(nil)},
		"curl http://h -d ''":                                           {URL: "http://h", Method: "POST", Header: plain(nil)},
		"curl -d -5 http://h":                                           {URL: "http://h", Method: "POST", Body: "-5", Header: plain(nil)},
		`curl http://h --json '{"a":' --json 1}`:                        {URL: "http://h", Method: "POST", Body: `{"a":1}`, Header: http.Header{"Accept": {"application/json"}, "Content-Type": {"application/json"}}},
		"curl http://h -u me:a:b -A x -e 'http://r;auto'":               {URL: "http://h", Header: plain(http.Header{"Authorization": {"Basic bWU6YTpi"}, "User-Agent": {"x"}, "Referer": {"http://r"}})},
		"curl http://h --oauth2-bearer abc -A ''":                       {URL: "http://h", Header: plain(http.Header{"Authorization": {"Bearer abc"}, "User-Agent": nil})},
		"curl http://h -u me:pw -H 'authorization: x'":                  {URL: "http://h", Header: plain(http.Header{"Authorization": {"x"}})},
		"curl http://h -b a=b -b c=d -H 'X: 1' -H 'X: 2'":               {URL: "http://h", Header: plain(http.Header{"Cookie": {"a=b; c=d"}, "X": {"1", "2"}})},
		"curl http://h -H 'Accept:' -H 'Empty;'":                        {URL: "http://h", Header: http.Header{"Accept": nil, "Empty": {""}}},
		"curl -g 'http://h/{a,b}[1-2]'":                                 {URL: "http://h/{a,b}[1-2]", Header: plain(nil)},
		"curl 'http://[::1]:80/' -o /dev/null -w x -v":                  {URL: "http://[::1]:80/", Header: plain(nil)},
		"curl -d a=b -- http://h":                                       {URL: "http://h", Method: "POST", Body: "a=b", Header: plain(nil)},
		"curl \"a\\\"b\\\\c\"d\\ e":                                     {URL: `a"b\cd e`, Header: plain(nil)},
	} {
		got, err := request(text)
		if want.URL == "" {
			if err == nil {
				t.Errorf("%s is accepted: %+v", text, got)
			}
			continue
		}
		if err != nil || !reflect.DeepEqual(*got, want) {
			t.Errorf("%s: %+v, %v; want %+v", text, got, err, want)
		}
	}
}

// No error has a value, a part of a URL or anything else that can be a secret.
func TestBadCommandLinesAreRefusedWithoutTheirValues(t *testing.T) {
	for text, want := range map[string]string{
		"curl":                                    "no URL",
		"curl http://u:secret@h http://secret":    "more than one URL",
		"curl http://h 'Authorization: secret'":   "more than one URL",
		"curl --url http://secret http://h":       "more than one URL",
		"curl http://h -x http://secret":          "does not know -x of curl",
		"curl http://h -sSxsecret":                "does not know -x of curl",
		"curl http://h --proxy=secret":            "does not know --proxy of curl",
		"curl http://h -F a=secret":               "does not know -F of curl",
		"curl http://h --rate secret":             "does not know --rate of curl",
		"curl http://h '--secret value'":          "does not know an option of curl",
		"curl http://h -H":                        "--header has no value",
		"curl http://h -H secret":                 `--header: want "Name: value"`,
		"curl http://h -H ': secret'":             `--header: want "Name: value"`,
		"curl http://h -H $'A: secret\\r\\nB: c'": `--header: want "Name: value"`,
		"curl http://h -H @secret":                "--header: a file",
		"curl http://h -u secret":                 "--user: want USER:PASSWORD",
		"curl http://h -b secret":                 "--cookie: want NAME=VALUE",
		"curl http://h -b $'a=secret\\n'":         "--cookie: the value has a control character",
		"curl http://h -A $'secret\\n'":           "--user-agent: the value",
		"curl http://h -m secret":                 "--max-time: want a number",
		"curl http://h -m -1":                     "--max-time: want a number",
		"curl http://h -d=secret":                 "a space, not a =, behind -d",
		"curl http://h -d @secret":                "--data: file does not exist",
		"curl http://h --data-binary @secret":     "--data-binary: file does not exist",
		"curl http://h --data-urlencode a@secret": "--data-urlencode: file does not exist",
		"curl http://h --json @secret":            "--json: file does not exist",
		"curl -I -d secret http://h":              "--head has neither",
		"curl -IG http://h":                       "--head has neither",
		"curl 'http://h/{secret,b}'":              "several URLs",
		"curl 'http://h/[1-9]?secret'":            "several URLs",
		"curl --help secret":                      "no request",
		"curl -h secret":                          "no request",
		"curl --=secret":                          "no name",
		"curl http://h/?a=1&secret=2":             "one command",
		"curl http://h | jq .secret":              "one command",
		"curl http://h > secret":                  "one command",
		"curl http://h; echo secret":              "one command",
		"curl http://h\ncurl http://secret":       "one command",
		"secret=1 curl http://h":                  "one command",
		"! curl http://secret":                    "one command",
		"(curl http://secret)":                    "one command",
		"":                                        "one command",
		"curl http://$secret":                     "without variables",
		"curl http://{secret,b}":                  "without variables",
		"curl http://h -d {1..999999999}":         "without variables",
		"curl http://h -d ~secret/x":              "without variables",
		"curl \"http://${secret}\"":               "without variables",
		"curl http://h -H \"A: $(cat secret)\"":   "without variables",
		"curl http://h -H \"A: `cat secret`\"":    "without variables",
		"curl http://h -H 'A: secret":             "line 1, column 18",
		"curl http://h \\\n  -H \"A: secret":      "line 2, column 6",
		"curl " + strings.Repeat("secret", 1<<18): "longer than",
	} {
		got, err := request(text)
		if err == nil {
			t.Errorf("%.60s is accepted: %+v", text, got)
			continue
		}
		if !strings.HasPrefix(err.Error(), "curl: ") || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%.60s: %v; want %s", text, err, want)
		}
	}
}

// FuzzRequest reads texts as command lines. An accepted command line is sound, and is read the same
// if each word is in quotes. The error of a refused one has one line, without its words.
func FuzzRequest(f *testing.F) {
	for _, text := range []string{
		ofChrome, "curl -G -d a=b --data-urlencode 'c=d e' -u a:b http://h", "curl --json '{}' h -H 'A;' -H 'B:'", "curl -sSLXPUT h -m 5", "curl -b a=b -e c -A d $'\\x41\\u00e9' {a,b} {1..9} ~/x *",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		words, err := curl.Words(text)
		if err != nil {
			sound(t, err)
			return
		}
		var quoted []string
		for _, w := range words {
			q, err := syntax.Quote(w, syntax.LangBash)
			if err != nil { // a NUL
				return
			}
			quoted = append(quoted, q)
		}
		if again, err := curl.Words(strings.Join(quoted, " ")); err != nil || !slices.Equal(again, words) {
			t.Errorf("%q in quotes are %q, %v", words, again, err)
		}
		r, err := curl.Parse(words, files)
		if err != nil {
			sound(t, err)
			return
		}
		for name, values := range r.Header {
			if name == "" || strings.ContainsAny(name+strings.Join(values, ""), "\r\n") {
				t.Errorf("the header has %q", name)
			}
		}
	})
}

// sound checks the text of an error.
func sound(t *testing.T, err error) {
	t.Helper()
	text := err.Error()
	if len(text) > 200 || !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) {
		t.Errorf("%q is not a line", text)
	}
}
