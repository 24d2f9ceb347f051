package web

import (
	"fmt"
	"strconv"
	"strings"
)

// style is how a terminal colours a text from a byte on, as classes of the style sheet.
type style struct {
	from  int
	class string
}

// styler cuts pieces where the style changes. Its ranges are asked for in their order.
type styler struct {
	styles []style
	class  string // in force
}

// append appends the text from one byte to another.
func (s *styler) append(out []piece, line string, from, to int, hit bool) []piece {
	for from < to {
		for len(s.styles) > 0 && s.styles[0].from <= from {
			s.class, s.styles = s.styles[0].class, s.styles[1:]
		}
		end := to
		if len(s.styles) > 0 {
			end = min(to, s.styles[0].from)
		}
		out = signs(out, line[from:end], hit, s.class)
		from = end
	}
	return out
}

// coloured takes the ANSI codes out of a line and says how those of colour and weight style what is left.
func coloured(line string) (string, []style) {
	var b strings.Builder
	var styles []style
	var pen pen
	at := 0
	for _, m := range escapes.FindAllStringIndex(line, -1) {
		b.WriteString(line[at:m[0]])
		at = m[1]
		code := line[m[0]:m[1]]
		if strings.HasPrefix(code, "\x1b[") && strings.HasSuffix(code, "m") {
			pen.set(code[2 : len(code)-1])
			styles = append(styles, style{b.Len(), pen.class()})
		}
	}
	b.WriteString(line[at:])
	return b.String(), styles
}

// pen is what a terminal writes with. Colours are 1 to 16, 0 the terminal's own.
type pen struct {
	colour, ground             int
	bold, faint, italic, under bool
	reversed                   bool
}

// set reads the parameters of an SGR code, such as 1;31 or 38;5;196. Those that mean nothing here are passed over.
func (p *pen) set(parameters string) {
	var list []int
	for _, s := range strings.FieldsFunc(parameters+";", func(r rune) bool { return r == ';' || r == ':' }) {
		n, _ := strconv.Atoi(s) // what is no number is 0, as on a terminal
		list = append(list, n)
	}
	if len(list) == 0 {
		list = []int{0}
	}
	for i := 0; i < len(list); i++ {
		switch n := list[i]; {
		case n == 38 || n == 48:
			colour, used := extended(list[i+1:])
			i += used
			if n == 38 {
				p.colour = colour
			} else {
				p.ground = colour
			}
		default:
			p.one(n)
		}
	}
}

func (p *pen) one(n int) {
	switch {
	case n == 0:
		*p = pen{}
	case n == 1:
		p.bold = true
	case n == 2:
		p.faint = true
	case n == 3:
		p.italic = true
	case n == 4:
		p.under = true
	case n == 7:
		p.reversed = true
	case n == 22:
		p.bold, p.faint = false, false
	case n == 23:
		p.italic = false
	case n == 24:
		p.under = false
	case n == 27:
		p.reversed = false
	case n == 39:
		p.colour = 0
	case n == 49:
		p.ground = 0
	case 30 <= n && n <= 37:
		p.colour = n - 29
	case 90 <= n && n <= 97:
		p.colour = n - 81
	case 40 <= n && n <= 47:
		p.ground = n - 39
	case 100 <= n && n <= 107:
		p.ground = n - 91
	}
}

// extended reads a colour of 256 or of 16 million as the nearest of the 16 that a style sheet can keep legible.
func extended(list []int) (colour, used int) {
	switch {
	case len(list) >= 2 && list[0] == 5:
		return nearest256(list[1]), 2
	case len(list) >= 4 && list[0] == 2:
		return nearestRGB(list[1], list[2], list[3]), 4
	}
	return 0, len(list)
}

func nearest256(n int) int {
	switch {
	case n < 0 || n > 255:
		return 0
	case n < 16:
		return n + 1
	case n < 232:
		n -= 16
		return nearestRGB(n/36*51, n/6%6*51, n%6*51)
	}
	grey := (n-232)*10 + 8
	return nearestRGB(grey, grey, grey)
}

func nearestRGB(r, g, b int) int {
	bit := func(v, floor, n int) int {
		if v > floor {
			return n
		}
		return 0
	}
	high := max(r, g, b)
	if high < 64 {
		return 1
	}
	colour := bit(r, high/2, 1) | bit(g, high/2, 2) | bit(b, high/2, 4)
	if colour == 7 && high < 150 {
		return 9 // grey
	}
	if high > 200 {
		colour += 8
	}
	return colour + 1
}

func (p pen) class() string {
	var list []string
	add := func(on bool, name string) {
		if on {
			list = append(list, name)
		}
	}
	add(p.colour > 0, fmt.Sprintf("fg%d", p.colour))
	add(p.ground > 0, fmt.Sprintf("bg%d", p.ground))
	add(p.bold, "bold")
	add(p.faint, "faint")
	add(p.italic, "italic")
	add(p.under, "under")
	add(p.reversed, "reversed")
	return strings.Join(list, " ")
}
