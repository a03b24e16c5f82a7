// Package markdown reads the fenced blocks of the documents, and the marks that say which test
// runs them. CONTRIBUTING.md describes the marks.
package markdown

import (
	"fmt"
	"regexp"
	"strings"
)

// Block is a fenced block of a Markdown file.
type Block struct {
	File     string // path in the checkout
	Line     int    // line of the opening fence
	Language string
	Mark     string // comment on the line before it; "" if there is none
	Text     string // without the indentation of the fence
}

func (b Block) String() string { return fmt.Sprintf("%s:%d", b.File, b.Line) }

var (
	fence   = regexp.MustCompile("^( *)```(\\w*)$")
	comment = regexp.MustCompile(`^ *<!-- (.*) -->$`)
	runBy   = regexp.MustCompile(`^run by (Test\w+(?:, Test\w+)*)$`)
)

// RunBy returns the tests that run the commands of the block, as its mark names them.
func (b Block) RunBy() []string {
	if match := runBy.FindStringSubmatch(b.Mark); match != nil {
		return strings.Split(match[1], ", ")
	}
	return nil
}

// Blocks returns the fenced blocks of a document.
func Blocks(file, text string) []Block {
	var out []Block
	var open *Block
	var indent, before string
	for number, line := range strings.Split(text, "\n") {
		got := fence.FindStringSubmatch(line)
		switch {
		case open == nil && got != nil:
			indent = got[1]
			open = &Block{File: file, Line: number + 1, Language: got[2]}
			if mark := comment.FindStringSubmatch(before); mark != nil {
				open.Mark = mark[1]
			}
		case open != nil && line == indent+"```":
			out, open = append(out, *open), nil
		case open != nil:
			open.Text += strings.TrimPrefix(line, indent) + "\n"
		}
		before = line
	}
	return out
}
