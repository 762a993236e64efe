package ptx

// opcodes is the list of what can be read, with the function that compiles each. An initialiser of its own because the
// functions refer to it through the builder.
var opcodes map[string]func(b *builder)

func init() {
	opcodes = map[string]func(b *builder){
		"add": buildAddSub, "sub": buildAddSub, "mul": buildMul, "mad": buildMad, "fma": buildFma,
		"div": buildDiv, "rem": buildRem, "abs": buildAbs, "neg": buildNeg, "min": buildMinMax, "max": buildMinMax,
		"popc": buildCount, "clz": buildCount, "bfind": buildFind, "brev": buildReverse, "sad": buildSad,
		"bfe": buildExtract, "bfi": buildInsert, "bmsk": buildMask, "szext": buildSignExtend,
		"dp4a": buildDot4, "dp2a": buildDot2,
		"and": buildLogic, "or": buildLogic, "xor": buildLogic, "not": buildNot, "cnot": buildNot,
		"lop3": buildLop3, "shl": buildShift, "shr": buildShift, "shf": buildFunnel, "prmt": buildPermute,
		"setp": buildSetp, "set": buildSet, "selp": buildSelp, "slct": buildSlct, "testp": buildTestp,
		"rcp": buildReciprocal, "sqrt": buildRoot, "rsqrt": buildApprox, "ex2": buildApprox, "lg2": buildApprox,
		"sin": buildApprox, "cos": buildApprox, "tanh": buildApprox, "copysign": buildCopysign,
		"cvt": buildCvt, "mov": buildMov, "cvta": buildCvta, "isspacep": buildIsSpace,
		"ld": buildLoad, "ldu": buildLoad, "st": buildStore, "prefetch": buildPrefetch, "prefetchu": buildPrefetch,
		"createpolicy": buildPolicy, "atom": buildAtomic, "red": buildAtomic,
		"membar": buildFence, "fence": buildFence, "nanosleep": buildSleep, "griddepcontrol": buildDependency,
		"bra": buildBranch, "ret": buildExit, "exit": buildExit, "trap": buildTrap,
		"bar": buildBarrier, "barrier": buildBarrier,
		"shfl": buildShuffle, "vote": buildVote, "match": buildMatch, "activemask": buildActive, "redux": buildRedux,
		"mma": buildMma, "ldmatrix": buildLdmatrix, "cp": buildAsync,
		"wgmma": buildRefused, "setmaxnreg": buildRefused, "elect": buildRefused,
	}
}
