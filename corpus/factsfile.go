package corpus

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
)

// The facts are written to a file now and then, so that the next process need not read a million rows before its first
// answer. The file may be old: what has changed after its rev is read from the database. It may be lost or damaged: then
// everything is. All numbers are little endian:
//
//	"culpritf" version (4) rev (8) terms (4) facts (8)
//	each term: length (4) and bytes; each fact: factSize bytes; CRC-32 of all before it (4)
const (
	factsMagic   = "culpritf"
	factsVersion = 1 // raised with every change of fact
	factsHeader  = len(factsMagic) + 4 + 8 + 4 + 8
	factSize     = 8 + 8 + 8 + 4 + 4 + 10*4
	saveAfter    = 100_000 // changes since the last time
	saveAtClose  = 1000
)

func (c *Corpus) factsPath() string { return c.path("facts.bin") }

// encode returns the facts as a file.
func (f *facts) encode() []byte {
	le := binary.LittleEndian
	size := factsHeader + len(f.list)*factSize + 4
	for _, s := range f.text {
		size += 4 + len(s)
	}
	b := append(make([]byte, 0, size), factsMagic...)
	b = le.AppendUint32(b, factsVersion)
	b = le.AppendUint64(b, uint64(f.rev))
	b = le.AppendUint32(b, uint32(len(f.text)))
	b = le.AppendUint64(b, uint64(len(f.list)))
	for _, s := range f.text {
		b = append(le.AppendUint32(b, uint32(len(s))), s...)
	}
	for i := range f.list {
		r := &f.list[i]
		b = le.AppendUint64(b, uint64(r.id))
		b = le.AppendUint64(b, uint64(r.ended))
		b = le.AppendUint64(b, uint64(r.rtf))
		b = le.AppendUint32(b, r.job)
		b = le.AppendUint32(b, uint32(r.gpus))
		for _, t := range r.terms() {
			b = le.AppendUint32(b, uint32(*t))
		}
	}
	return le.AppendUint32(b, crc32.ChecksumIEEE(b))
}

var errFactsFile = errors.New("it is no file of facts of this version, or damaged")

// decodeFacts reads what encode wrote.
func decodeFacts(b []byte) (*facts, error) {
	le := binary.LittleEndian
	if len(b) < factsHeader+4 || string(b[:8]) != factsMagic || le.Uint32(b[8:]) != factsVersion ||
		crc32.ChecksumIEEE(b[:len(b)-4]) != le.Uint32(b[len(b)-4:]) {
		return nil, errFactsFile
	}
	f := &facts{rev: int64(le.Uint64(b[12:])), terms: terms{number: map[string]term{}}}
	terms, count := int(le.Uint32(b[20:])), int(le.Uint64(b[24:]))
	b = b[factsHeader : len(b)-4]
	for i := range terms {
		if len(b) < 4 || len(b)-4 < int(le.Uint32(b)) {
			return nil, errFactsFile
		}
		n := int(le.Uint32(b))
		s := string(b[4 : 4+n])
		f.number[s], f.text = term(i), append(f.text, s)
		b = b[4+n:]
	}
	if len(b)%factSize != 0 || len(b)/factSize != count {
		return nil, errFactsFile
	}
	f.list = make([]fact, count, count+count/8)
	for i := range f.list {
		r := &f.list[i]
		r.id, r.ended, r.rtf = int64(le.Uint64(b)), int64(le.Uint64(b[8:])), int64(le.Uint64(b[16:]))
		r.job, r.gpus = le.Uint32(b[24:]), int32(le.Uint32(b[28:]))
		for n, t := range r.terms() {
			if *t = term(le.Uint32(b[32+4*n:])); int(*t) >= terms {
				return nil, errFactsFile
			}
		}
		b = b[factSize:]
	}
	return f, nil
}

// readFactsFile returns the facts of the file, nil where it cannot be used. One that has more than the database, as after
// a backup was put back, is of no use.
func (c *Corpus) readFactsFile(newest int64) *facts {
	b, err := os.ReadFile(c.factsPath())
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	var f *facts
	if err == nil {
		f, err = decodeFacts(b)
	}
	if err == nil && f.rev > newest {
		err = fmt.Errorf("it has read more than the database holds")
	}
	if err != nil {
		c.log.Warn("the facts are read from the database", "file", c.factsPath(), "err", err)
		return nil
	}
	return f
}

// dropNewerFacts removes a file of facts that is ahead of the database, before what comes next makes it look right.
func (c *Corpus) dropNewerFacts() error {
	file, err := os.Open(c.factsPath())
	if err != nil {
		return nil // there is none
	}
	defer file.Close()
	var head [factsHeader]byte
	if _, err := io.ReadFull(file, head[:]); err == nil && int64(binary.LittleEndian.Uint64(head[12:])) <= c.rev.Load() {
		return nil
	}
	return os.Remove(c.factsPath())
}

// saveFacts writes the facts where at least that many changes have come since the last time. What it cannot write, it does
// without.
func (c *Corpus) saveFacts(changes int64) {
	f := &c.facts
	f.mu.RLock()
	if f.rev-f.saved.Load() < changes || f.rev == 0 {
		f.mu.RUnlock()
		return
	}
	body := f.encode()
	f.saved.Store(f.rev)
	f.mu.RUnlock()
	temp := c.path(filepath.Join("staging", "facts"))
	err := os.WriteFile(temp, body, 0o640)
	if err == nil {
		err = os.Rename(temp, c.factsPath())
	}
	if err != nil {
		os.Remove(temp)
		c.log.Warn("could not write the facts", "err", err)
	}
}
