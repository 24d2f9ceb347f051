package web

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// maxWindow bounds what one zstd stream may hold in memory; zstd's levels up to 19 stay below it.
const maxWindow = 8 << 20

// unpack undoes a content encoding: gzip, zstd or none.
func unpack(r io.Reader, encoding string) (io.Reader, error) {
	switch strings.ToLower(strings.TrimSpace(encoding)) {
	case "", "identity":
		return r, nil
	case "gzip", "x-gzip":
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, damaged("gzip", err)
		}
		return &packedReader{z, "gzip"}, nil
	case "zstd":
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, damaged("zstd", err)
		}
		return &packedReader{z, "zstd"}, nil
	}
	p := refuse(http.StatusUnsupportedMediaType, "Content-Encoding %s is not understood: gzip, zstd or none is", quote(encoding))
	p.allow = "gzip, zstd, identity"
	return nil, p
}

// packedReader names what failed when packed bytes are no such thing.
type packedReader struct {
	r    io.Reader
	kind string
}

func (p *packedReader) Read(b []byte) (int, error) {
	n, err := p.r.Read(b)
	if err != nil && err != io.EOF {
		err = damaged(p.kind, err)
	}
	return n, err
}

func damaged(kind string, err error) error {
	var known *problem
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return badField("", "the %s data is cut", kind)
	case errors.Is(err, zstd.ErrWindowSizeExceeded) || errors.Is(err, zstd.ErrDecoderSizeExceeded):
		return badField("", "the zstd data needs a window of more than %s: compress it without --long and --ultra", size(maxWindow))
	}
	return badField("", "not %s data, or damaged: %v", kind, err)
}

// openText looks at the first bytes: io.EOF where there are none, an error where they are no text. Bytes that are not
// UTF-8 are fine: logs are written in any encoding.
func openText(r io.Reader, what string) (io.Reader, error) {
	text := bufio.NewReaderSize(r, sniffBytes)
	head, err := text.Peek(sniffBytes)
	if err != nil && err != io.EOF {
		return nil, err
	}
	if len(head) == 0 {
		return text, io.EOF
	}
	if why := binary(head); why != "" {
		return nil, refuse(http.StatusUnsupportedMediaType, "%s is not a text log: %s", what, why)
	}
	return text, nil
}

// magics are first bytes of files that are sent by mistake, and what to do instead.
var magics = []struct{ magic, why string }{
	{"\x1f\x8b", "it is gzip: send it with Content-Encoding: gzip, or as a file named .gz in a form"},
	{"\x28\xb5\x2f\xfd", "it is zstd: send it with Content-Encoding: zstd, or as a file named .zst in a form"},
	{"PK\x03\x04", "it is a zip archive, perhaps a PyTorch checkpoint: unpack it and send the log"},
	{"BZh", "it is bzip2: unpack it, or send it as gzip or zstd"},
	{"\xfd7zXZ\x00", "it is xz: unpack it, or send it as gzip or zstd"},
	{"\x7fELF", "it is a program or a core dump (ELF)"},
	{"\x89HDF", "it is an HDF5 file"},
	{"\x89PNG", "it is a PNG picture"},
	{"%PDF-", "it is a PDF document"},
	{"\xff\xfe", "it is UTF-16: convert it, as with iconv -f UTF-16 -t UTF-8"},
	{"\xfe\xff", "it is UTF-16: convert it, as with iconv -f UTF-16 -t UTF-8"},
}

// binary says why bytes are no text; "" where they may be a log.
func binary(head []byte) string {
	for _, m := range magics {
		if bytes.HasPrefix(head, []byte(m.magic)) {
			return m.why
		}
	}
	if len(head) > 262 && string(head[257:262]) == "ustar" {
		return "it is a tar archive: send its files as parts of a form"
	}
	nuls, controls := 0, 0
	for _, b := range head {
		switch {
		case b == 0:
			nuls++
		case b < 0x20 && !bytes.ContainsRune([]byte("\t\n\v\f\r\b\a\x1b"), rune(b)), b == 0x7f:
			controls++
		}
	}
	switch {
	case nuls*10 > len(head)*3:
		return "it is binary: most of its first bytes are NUL"
	case (nuls+controls)*20 > len(head):
		return "it is binary: its first bytes are full of control characters"
	}
	return ""
}
