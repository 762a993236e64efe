package ptx

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"
)

const header = ".version 8.0\n.target sm_90\n.address_size 64\n"

// parse reads a module whose kernels stand in text, after the header.
func parse(t *testing.T, text string) *Module {
	t.Helper()
	m, err := Parse(header + text)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// entry is a kernel of one pointer, in %out, with registers to use.
func entry(body string) string {
	return `.visible .entry k(.param .u64 p) {
	.reg .pred %p<8>, %q<8>;
	.reg .b16 %h<8>;
	.reg .b32 %r<32>;
	.reg .f32 %f<8>;
	.reg .b64 %a<8>;
	.reg .b64 %out;
	ld.param.u64 %out, [p];
	mov.u32 %r0, %tid.x;
` + body + `
	ret;
}
`
}

// launch runs the one kernel of a module on a buffer of out bytes, which it returns.
func launch(t *testing.T, m *Module, out int, l Launch) ([]byte, Stats, error) {
	t.Helper()
	var h Heap
	b := make([]byte, out)
	l.Params = binary.LittleEndian.AppendUint64(l.Params, h.Put(b))
	stats, err := m.Kernels[0].Launch(context.Background(), &h, l)
	return b, stats, err
}

// words runs a body on one block, where each thread leaves 32 bits at %out + 4*thread.
func words(t *testing.T, threads int, body string) []uint32 {
	t.Helper()
	m := parse(t, entry(body))
	b, _, err := launch(t, m, 4*threads, Launch{Block: [3]int{threads}})
	if err != nil {
		t.Fatal(err)
	}
	return values(b)
}

func values(b []byte) []uint32 {
	var v []uint32
	for i := 0; i < len(b); i += 4 {
		v = append(v, binary.LittleEndian.Uint32(b[i:]))
	}
	return v
}

// storeR stores %r1 of each thread at its place.
const storeR = `
	mul.wide.u32 %a0, %r0, 4;
	add.s64 %a0, %out, %a0;
	st.global.u32 [%a0], %r1;
`

// fault runs a body that has to fail, and returns how.
func fault(t *testing.T, text string, l Launch) *Fault {
	t.Helper()
	_, _, err := launch(t, parse(t, text), 4096, l)
	var f *Fault
	if !errors.As(err, &f) {
		t.Fatalf("the launch ended with %v, want a fault", err)
	}
	return f
}

// lineOf is the line of the text, after the header, that holds a marker.
func lineOf(t *testing.T, text, marker string) int {
	t.Helper()
	for i, line := range strings.Split(header+text, "\n") {
		if strings.Contains(line, marker) {
			return i + 1
		}
	}
	t.Fatalf("no line holds %q", marker)
	return 0
}

// evaluate runs an instruction on registers d, a, b and c of the given types, once for each row of operands, and
// returns d.
func evaluate(t *testing.T, instruction string, d, a, b, c Type, rows [][3]uint64) []uint64 {
	t.Helper()
	declare := func(name string, typ Type) string {
		if typ == "pred" {
			return fmt.Sprintf("\t.reg .pred %s;\n\tld.global.u32 tmp, [row+%d];\n\tsetp.ne.u32 %s, tmp, 0;\n", name, 8*(name[0]-'a'), name)
		}
		memory := Type(fmt.Sprintf("b%d", typ.Bits()))
		return fmt.Sprintf("\t.reg .%s %s;\n\tld.global.%s %s, [row+%d];\n", typ, name, memory, name, 8*(name[0]-'a'))
	}
	save := fmt.Sprintf("\tst.global.b%d [row+24], d;\n", d.Bits())
	if d == "pred" {
		save = "\tselp.u32 tmp, 1, 0, d;\n\tst.global.u32 [row+24], tmp;\n"
	}
	text := ".entry k(.param .u64 p) {\n\t.reg .b32 i, tmp;\n\t.reg .b64 row, off;\n\tld.param.u64 row, [p];\n" +
		"\tmov.u32 i, %tid.x;\n\tmul.wide.u32 off, i, 32;\n\tadd.u64 row, row, off;\n" +
		declare("a", a) + declare("b", b) + declare("c", c) +
		fmt.Sprintf("\t.reg .%s d;\n\t%s\n", d, instruction) + save + "\tret;\n}\n"
	m, err := Parse(header + text)
	if err != nil {
		t.Fatal(err)
	}
	data := make([]byte, 32*len(rows))
	for i, row := range rows {
		for j, v := range row {
			binary.LittleEndian.PutUint64(data[32*i+8*j:], v)
		}
	}
	var h Heap
	params := binary.LittleEndian.AppendUint64(nil, h.Put(data))
	if _, err := m.Kernels[0].Launch(context.Background(), &h, Launch{Block: [3]int{len(rows)}, Params: params}); err != nil {
		t.Fatal(err)
	}
	out := make([]uint64, len(rows))
	for i := range rows {
		out[i] = binary.LittleEndian.Uint64(data[32*i+24:])
	}
	return out
}
