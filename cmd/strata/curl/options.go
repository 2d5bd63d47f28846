package curl

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// command is a command line while it is read.
type command struct {
	read func(file string) (string, error)

	urls    []string
	request string
	// given has the fields of --header, implied the fields of other options. A name without values is not
	// sent.
	given, implied http.Header
	cookies        []string
	data           []string
	timeout        time.Duration

	hasData, json, get, head  bool
	insecure, follow, globOff bool
}

// options returns the known options. The options in the last two lists change nothing about the
// request, or concern a thing that strata load does in its own way: it writes no answers, and has
// one connection for each running request.
func (c *command) options() *pflag.FlagSet {
	f := pflag.NewFlagSet("curl", pflag.ContinueOnError)
	// The parser would print the value of a wrong option, which may be a secret.
	f.SetOutput(io.Discard)
	f.Usage = func() {}
	take := func(name, short string, do func(string) error) { f.FuncP(name, short, "", do) }
	set := func(name, short string, at *bool) { f.BoolVarP(at, name, short, false, "") }
	take("url", "", func(s string) error { c.urls = append(c.urls, s); return nil })
	take("request", "X", func(s string) error { c.request = s; return nil })
	take("header", "H", c.addHeader)
	take("cookie", "b", c.addCookie)
	take("user-agent", "A", c.implies("User-Agent", ""))
	take("referer", "e", func(s string) error { return c.implies("Referer", "")(strings.TrimSuffix(s, ";auto")) })
	take("user", "u", c.setUser)
	take("oauth2-bearer", "", c.implies("Authorization", "Bearer "))
	take("max-time", "m", c.setTimeout)
	take("data", "d", c.addText)
	take("data-ascii", "", c.addText)
	take("data-raw", "", func(s string) error { c.addData(s); return nil })
	take("data-binary", "", c.addBinary)
	take("data-urlencode", "", c.addEncoded)
	take("json", "", c.addJSON)
	// These are the encodings that curl asks for, so that the target does the same work for strata
	// load.
	f.BoolFuncP("compressed", "", "", func(string) error { return c.implies("Accept-Encoding", "")("deflate, gzip, br, zstd") })
	set("get", "G", &c.get)
	set("head", "I", &c.head)
	set("insecure", "k", &c.insecure)
	set("location", "L", &c.follow)
	set("globoff", "g", &c.globOff)
	for name, short := range map[string]string{
		"silent": "s", "show-error": "S", "verbose": "v", "include": "i", "fail": "f", "no-buffer": "N", "progress-bar": "#", "disable": "q",
		"http1.1": "", "no-progress-meter": "", "fail-with-body": "", "basic": "", "no-keepalive": "", "remote-name": "O",
	} {
		f.BoolFuncP(name, short, "", func(string) error { return nil })
	}
	for name, short := range map[string]string{"output": "o", "write-out": "w", "connect-timeout": ""} {
		take(name, short, func(string) error { return nil })
	}
	return f
}

// parse reads all words.
func (c *command) parse(words []string) error {
	f := c.options()
	for _, w := range words {
		// curl takes the sign for the begin of the value, the parser for its end.
		if len(w) > 2 && w[0] == '-' && w[1] != '-' && w[2] == '=' {
			return fmt.Errorf("curl: write a space, not a =, behind %s", named("-"+w[1:2]))
		}
	}
	if err := f.Parse(words); err != nil {
		return explain(err)
	}
	c.urls = append(c.urls, f.Args()...)
	return nil
}

// explain returns an error that names an option and nothing behind it.
func explain(err error) error {
	if e, ok := errors.AsType[*pflag.NotExistError](err); ok {
		dashes := "--"
		if e.GetSpecifiedShortnames() != "" {
			dashes = "-"
		}
		return fmt.Errorf("curl: strata load does not know %s of curl; its own flags stand outside the command of curl", named(dashes+e.GetSpecifiedName()))
	}
	if e, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		return fmt.Errorf("curl: --%s has no value", e.GetFlag().Name)
	}
	if e, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return fmt.Errorf("curl: --%s: %w", e.GetFlag().Name, e.Unwrap())
	}
	if errors.Is(err, pflag.ErrHelp) {
		return errors.New("curl: the help of curl is no request")
	}
	return errors.New("curl: an option has no name")
}

// named is the name of an option for an error, or a neutral text if the word may be another thing
// in the place of an option: errors must not show values or parts of URLs.
func named(option string) string {
	if regexp.MustCompile(`^--?[0-9A-Za-z#.:][0-9A-Za-z.-]{0,30}$`).MatchString(option) {
		return option
	}
	return "an option"
}

// addData adds a piece of the body.
func (c *command) addData(s string) {
	c.hasData = true
	c.data = append(c.data, s)
}

// file returns the content of a file if s is the name of one behind an @.
func (c *command) file(s string) (content string, isFile bool, err error) {
	name, isFile := strings.CutPrefix(s, "@")
	if !isFile {
		return s, false, nil
	}
	content, err = c.read(name)
	return content, true, err
}

// addText adds the value of --data. curl leaves out the line breaks of files.
func (c *command) addText(s string) error {
	s, isFile, err := c.file(s)
	if isFile {
		s = strings.NewReplacer("\r", "", "\n", "", "\x00", "").Replace(s)
	}
	c.addData(s)
	return err
}

func (c *command) addBinary(s string) error {
	s, _, err := c.file(s)
	c.addData(s)
	return err
}

// addEncoded adds the value of --data-urlencode: CONTENT, =CONTENT, NAME=CONTENT, @FILE or NAME@FILE.
func (c *command) addEncoded(s string) (err error) {
	name, content := "", s
	if i := strings.IndexAny(s, "=@"); i >= 0 {
		name, content = s[:i], s[i+1:]
		if s[i] == '@' {
			if content, err = c.read(content); err != nil {
				return err
			}
		}
	}
	content = strings.ReplaceAll(url.QueryEscape(content), "+", "%20")
	if name != "" {
		content = name + "=" + content
	}
	c.addData(content)
	return nil
}

// addJSON adds the value of --json, and the fields that go with it.
func (c *command) addJSON(s string) error {
	s, _, err := c.file(s)
	c.json = true
	c.implied.Set("Content-Type", "application/json")
	c.implied.Set("Accept", "application/json")
	c.addData(s)
	return err
}
