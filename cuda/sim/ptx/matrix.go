package ptx

// shape is the m, n and k of a product of matrices by a warp.
type shape struct{ m, n, k int }

var shapes = map[string]shape{"m8n8k16": {8, 8, 16}, "m16n8k16": {16, 8, 16}, "m16n8k32": {16, 8, 32}}

// buildMma: D = A*B + C, of bytes into 32 bits. Every lane holds a fragment of each matrix: with g = lane/4, t = lane%4,
//
//	register r of A has rows g + 8*(r%2) (one row of registers where m is 8), columns 16*(r/2) + 4*t to +3
//	register r of B has rows 16*r + 4*t to +3, column g
//	register r of C and D has row g + 8*(r/2), column 2*t + r%2
//
// as in the section on mma.m16n8k32 of the PTX ISA.
func buildMma(b *builder) {
	b.need("sync")
	b.need("aligned")
	s := shapes[b.need("m8n8k16", "m16n8k16", "m16n8k32")]
	b.need("row")
	b.need("col")
	sat := b.has("satfinite")
	b.typ("s32")
	ta, tb := b.typ("s8", "u8"), b.typ("s8", "u8")
	b.typ("s32")
	d := b.registers(0, s.m*s.n/warpSize, true)
	ra := b.registers(1, s.m*s.k/4/warpSize, false)
	rb := b.registers(2, s.n*s.k/4/warpSize, false)
	rc := b.registers(3, s.m*s.n/warpSize, false)
	p := product{shape: s, signedA: ta.signed(), signedB: tb.signed(), sat: sat, d: d, a: ra, b: rb, c: rc}
	b.in.flow = collect
	b.in.collective = func(w *warp, _ *fragment, m uint32) bool {
		if !w.whole(m) || !w.ready(m, ra...) || !w.ready(m, rb...) || !w.ready(m, rc...) {
			return false
		}
		p.run(w)
		return true
	}
}

// A product is a compiled mma.
type product struct {
	shape
	signedA, signedB, sat bool
	d, a, b, c            []int
}

// run gathers the matrices from the lanes and multiplies. Two columns of B share a word, 32 bits apart: a sum of 32
// products of bytes stays below 2^22, so the lower one leaves at most a borrow in the upper one.
func (p *product) run(w *warp) {
	var a [16][32]int64
	var b [4][32]int64
	for word := range p.k / 4 {
		for row := range p.m {
			x := w.r[p.a[word/4*(p.m/8)+row/8]][row%8*4+word%4]
			for i := range 4 {
				a[row][4*word+i] = octet(x>>(8*i), p.signedA)
			}
		}
		for col := range p.n {
			y := w.r[p.b[word/4]][col*4+word%4]
			for i := range 4 {
				b[col/2][4*word+i] += octet(y>>(8*i), p.signedB) << (32 * (col % 2))
			}
		}
	}
	var d [4]lanes
	put := func(row, col int, sum int64) {
		r, lane := row/8*2+col%2, row%8*4+col/2
		sum += int64(int32(w.r[p.c[r]][lane]))
		if d[r][lane] = uint64(uint32(sum)); p.sat {
			d[r][lane] = clampS32(sum)
		}
	}
	for row := range p.m {
		var s0, s1, s2, s3 int64
		for i, x := range &a[row] {
			s0 += x * b[0][i]
			s1 += x * b[1][i]
			s2 += x * b[2][i]
			s3 += x * b[3][i]
		}
		for t, s := range [4]int64{s0, s1, s2, s3} {
			low := int64(int32(s))
			put(row, 2*t, low)
			put(row, 2*t+1, (s-low)>>32)
		}
	}
	for r := range p.d {
		w.r[p.d[r]] = d[r]
		w.def[p.d[r]] = fullWarp
	}
}

func octet(v uint64, isSigned bool) int64 {
	if isSigned {
		return int64(int8(v))
	}
	return int64(uint8(v))
}

// registers is a list of n registers of 32 bits in operand i.
func (b *builder) registers(i, n int, write bool) []int {
	var r []int
	parts := b.vector(i, n)
	for j := range parts {
		if write {
			r = append(r, b.into(&parts[j], "b32", false))
		} else {
			r = append(r, b.from(&parts[j], "b32", false))
		}
	}
	return r
}

// buildLdmatrix loads matrices of 8x8 halves: lane 8*i+j has the address of row j of matrix i, and gets columns 2*t and
// 2*t+1 of row g of each; transposed, those rows of column g.
func buildLdmatrix(b *builder) {
	b.need("sync")
	b.need("aligned")
	b.need("m8n8")
	n := map[string]int{"x1": 1, "x2": 2, "x4": 4}[b.need("x1", "x2", "x4")]
	trans := b.has("trans")
	b.need("shared", "shared::cta")
	b.typ("b16")
	d := b.registers(0, n, true)
	at := b.addressOf(1)
	b.in.flow = collect
	b.in.collective = func(w *warp, _ *fragment, m uint32) bool {
		addressed := fullWarp >> (warpSize - 8*n)
		if !w.whole(m) || !w.ready(addressed, at.base) {
			return false
		}
		r := &w.b.worker.request
		var rows [warpSize][]byte
		for lane := range 8 * n {
			addr := w.r[at.base][lane] + at.offset
			p := w.resolve(shared, lane, addr, 16, 0)
			if p.bytes == nil || !r.note(w, p, lane, addr, 16, reading) {
				return false
			}
			rows[lane] = p.bytes
		}
		r.count(w.b.worker, nil, 16, addressed)
		for i := range n {
			for lane := range warpSize {
				g, t := lane/4, lane%4
				v := fetch(rows[8*i+g][4*t:], 4)
				if trans {
					v = fetch(rows[8*i+2*t][2*g:], 2) | fetch(rows[8*i+2*t+1][2*g:], 2)<<16
				}
				w.r[d[i]][lane] = v
			}
			w.def[d[i]] = fullWarp
		}
		return true
	}
}
