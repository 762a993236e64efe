package kernels

// The assembly for arm64 is generated from here, as go generate passes over files that are for another architecture.

//go:generate _asm/generate.sh i2s_dotprod mul_i2s_dotprod_arm64.s
//go:generate _asm/generate.sh i2s_neon mul_i2s_neon_arm64.s
//go:generate _asm/generate.sh tl1_neon mul_tl1_neon_arm64.s
