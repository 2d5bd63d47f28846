package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
)

func TestPictureOfTheReadmeIsTheOneThatIsDrawn(t *testing.T) {
	committed, err := os.ReadFile("../../docs/read.svg")
	if err != nil {
		t.Fatal(err)
	}
	if strings.ReplaceAll(string(committed), "\r\n", "\n") != draw() {
		t.Error("docs/read.svg differs from what is drawn: go run ./test/picture > docs/read.svg")
	}
}

func TestPictureIsWellFormed(t *testing.T) {
	d := xml.NewDecoder(strings.NewReader(draw()))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}
