package ptx

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Each mistake is told with the line of BAD and a reason.
func TestMistakes(t *testing.T) {
	for _, tt := range []struct{ body, want string }{
		{"dp5a.s32.s32 %r1, %r0, %r0, %r0; // BAD", "opcode dp5a is not known"},
		{"add.q32 %r1, %r0, %r0; // BAD", "add.q32 where a type that add has belongs"},
		{"add.f16 %h1, %h2, %h3; // BAD", "where a type that add has belongs"},
		{"add.s32.wide %r1, %r0, %r0; // BAD", "add has no modifier .wide here"},
		{"add.s32 %r1, %r0; // BAD", "add lacks operand 3"},
		{"add.s32 %r1, %r0, %r0, %r0; // BAD", "add takes 3 operands, not 4"},
		{"add.s32 %r1, %r0, %x9; // BAD", "register %x9 is not declared"},
		{"add.s32 %r1, %r0, %r32; // BAD", "register %r32 is not declared"},
		{"add.s32 %r1, %r0, %a0; // BAD", "%a0 is a .b64, not a .s32"},
		{"add.s32 %f1, %r0, %r0; // BAD", "%f1 is a .f32, not a .s32"},
		{"add.f32 %f1, %f2, 1; // BAD", "1 is not a number of type .f32"},
		{"add.s32 %r1, %r0, 0f3F800000; // BAD", "is not a number of type .s32"},
		{"add.s32 %r1, %r0, 5000000000; // BAD", "5000000000 does not fit into .s32"},
		{"add.s32 %tid.x, %r0, 1; // BAD", "add cannot write %tid.x"},
		{"add.s32 5, %r0, 1; // BAD", "add cannot write 5"},
		{"mov.u32 %r1, %clock; // BAD", "register %clock is not declared"},
		{"mov.u32 %r1, nowhere; // BAD", "nowhere is not declared"},
		{"bra NOWHERE; // BAD", "label NOWHERE does not exist"},
		{"ld.global.q32 %r1, [%a0]; // BAD", "where a type that ld has belongs"},
		{"ld.global.nc.L1::never.u32 %r1, [%a0]; // BAD", "where a type that ld has belongs"},
		{"ld.shared.nc.u32 %r1, [%a0]; // BAD", "where a type that ld has belongs"},
		{"ld.global.v4.u64 {%a0, %a1, %a2, %a3}, [%a4]; // BAD", "one instruction moves up to 16 bytes"},
		{"ld.global.v2.u32 %r1, [%a0]; // BAD", "is a list of 2 in braces"},
		{"ld.global.u32 %r1, %a0; // BAD", "is an address in brackets"},
		{"ld.global.u64 %r1, [%a0]; // BAD", "%r1 is a .b32, not a .u64"},
		{"st.const.u32 [%a0], %r1; // BAD", "nothing is stored to const memory"},
		{"@%r1 add.s32 %r1, %r0, 1; // BAD", "the guard is not a predicate"},
		{"setp.lt.b32 %p1, %r0, 1; // BAD", ".b32 values have no comparison lt"},
		{"cvt.s32.f32 %r1, %f1; // BAD", "a float becomes an integer by"},
		{"cvt.f16.f32 %h1, %f1; // BAD", "rounding and types of the conversion do not go together"},
		{"mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%r1, %r2}, {%r5, %r6, %r7, %r8}, {%r9, %r10}, {%r1, %r2, %r3, %r4}; // BAD", "operand 1 of mma is a list of 4 in braces"},
		{"mma.sync.aligned.m16n8k64.row.col.s32.s4.s4.s32 {%r1}, {%r5}, {%r9}, {%r1}; // BAD", "where one of m8n8k16, m16n8k16, m16n8k32 belongs"},
		{"cp.async.cg.shared.global [%r1], [%a0], 8; // BAD", "cp.async cannot copy 8 bytes here"},
		{"lop3.b32 %r1, %r0, %r0, %r0, 256; // BAD", "a number from 0 to 255"},
		{"call foo; // BAD", "opcode call is not known"},
		{"add.s32 %r1, %r0, 1 // BAD\nret;", ""},
		{".reg .b32 %r<10; // BAD", ""},
		{".shared .b8 huge[50000]; // BAD", "more than the 49152 allowed"},
		{"X: X: // BAD", "label X stands here twice"},
		{"{ // BAD", ""},
	} {
		text := entry(tt.body)
		_, err := Parse(header + text)
		if err == nil {
			t.Errorf("%s was accepted", tt.body)
			continue
		}
		if tt.want == "" {
			continue // an error suffices, as it may show on the next line
		}
		if want := fmt.Sprintf("ptx: line %d: ", lineOf(t, text, "BAD")); !strings.HasPrefix(err.Error(), want) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %s… %s", tt.body, err, want, tt.want)
		}
	}
}

func TestModulesWithMistakes(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"", "where \".version\" belongs"},
		{".version 7.8\n.target sm_80\n.address_size 32\n", "addresses have 64 bits"},
		{header + ".entry k() { ret; }\n.entry k() { ret; }", "kernel k is defined twice"},
		{header + ".func (.param .b32 r) f() { ret; }", "functions that are called are not simulated"},
		{header + ".extern .global .u32 x;", "lives in another module"},
		{header + ".global .b8 x[9999999999];", "is not a whole number up to"},
		{header + ".const .u32 x[2] = {1, 2, 3};", "more values than places"},
		{header + ".const .u8 x = 256;", "256 does not fit into .u8"},
		{header + ".entry k(.param .b8 p[5000]) { ret; }", "is not a whole number up to 4352"},
		{header + ".align 3 .b8 x;", "is not a directive"},
		{header + ".global .align 3 .b8 x;", "an alignment is a power of two"},
		{header + "/* never ends", "a comment has no end"},
		{header + "\"never ends", "a string has no end"},
		{header + "#define X", "PTX has no character '#'"},
		{header + ".entry k() {" + strings.Repeat("{", 100), "braces in each other"},
	} {
		if _, err := Parse(tt.text); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%.60q: %v, want %s", tt.text, err, tt.want)
		}
	}
}

// Inline assembly has registers and labels of its own, under names that occur outside.
func TestScopes(t *testing.T) {
	got := words(t, 4, `mov.u32 %r1, 5;
	{
		.reg .b32 %r1, t;
		.reg .pred p;
		mov.u32 t, 7;
		mov.u32 %r1, 9;
		setp.eq.u32 p, %r0, 2;
		@p bra L;
		mov.u32 t, 100;
	L:
		add.u32 %r9, t, %r1;
	}
	{
		.reg .b32 t;
	L:
		mov.u32 t, 1000;
		add.u32 %r9, %r9, t;
	}
	add.u32 %r1, %r1, %r9;`+storeR)
	for i, want := range []uint32{1114, 1114, 1021, 1114} {
		if got[i] != want {
			t.Errorf("thread %d: %d, want %d", i, got[i], want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(header + entry(storeR))
	f.Add(header + sharedWords + entry("st.shared.v4.u32 [s], {%r0, %r0, %r0, %r0}; bar.sync 0;"))
	f.Add(header + ".const .align 4 .b8 t[4] = {1, 2};\n" + entry("@!%p1 bra X; X: shfl.sync.idx.b32 %r1|%p1, %r0, 0, 31, -1;"))
	f.Add(".version 7.0\n.target sm_80\n.address_size 64\n.entry k(){.reg .b32 %r<4000000>; { lop3.b32 %r1, %r2, 0x1F, -1, 0xfe; }}")
	for _, name := range ptxFiles(f) {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(b))
	}
	f.Fuzz(func(t *testing.T, text string) {
		m, err := Parse(text)
		if err != nil {
			if m != nil {
				t.Error("there is an error and a module")
			}
			return
		}
		for _, k := range m.Kernels { // what loads may fail, but must end
			_, _ = k.Launch(t.Context(), &Heap{}, Launch{Block: [3]int{33}, Params: make([]byte, k.ParamBytes), MaxInstructions: 1 << 15, Workers: 1})
		}
	})
}

func ptxFiles(t testing.TB) []string {
	files, err := filepath.Glob("testdata/*.ptx")
	if err != nil || len(files) == 0 {
		t.Fatalf("no PTX in testdata: %v", err)
	}
	return files
}
