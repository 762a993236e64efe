package model

import "strings"

// What a model is for, as Model.Family tells.
const (
	TextGeneration = "text_generation"
	Embedding      = "embedding"
	Vision         = "vision"
	Audio          = "audio"
	Multimodal     = "multimodal"
	Unknown        = "unknown"
)

// families tells the family of an architecture, by the names that GGUF files carry.
var families = map[string]string{
	"bitnet": TextGeneration, "bitnet-25": TextGeneration, "bitnet-b1.58": TextGeneration,
	"llama": TextGeneration, "llama4": TextGeneration, "falcon": TextGeneration, "falcon-h1": TextGeneration,
	"gpt2": TextGeneration, "gptj": TextGeneration, "gptneox": TextGeneration, "gpt-oss": TextGeneration,
	"mpt": TextGeneration, "baichuan": TextGeneration, "starcoder": TextGeneration, "starcoder2": TextGeneration,
	"refact": TextGeneration, "bloom": TextGeneration, "stablelm": TextGeneration, "olmo": TextGeneration,
	"qwen": TextGeneration, "qwen2": TextGeneration, "qwen2moe": TextGeneration, "qwen3": TextGeneration,
	"qwen3moe": TextGeneration, "phi2": TextGeneration, "phi3": TextGeneration, "gemma": TextGeneration,
	"gemma2": TextGeneration, "gemma3": TextGeneration, "mamba": TextGeneration, "rwkv6": TextGeneration,
	"deepseek": TextGeneration, "deepseek2": TextGeneration, "command-r": TextGeneration, "granite": TextGeneration,
	"internlm2": TextGeneration, "minicpm": TextGeneration, "t5": TextGeneration,
	"bert": Embedding, "nomic-bert": Embedding, "jina-bert-v2": Embedding, "modern-bert": Embedding,
	"t5encoder": Embedding, "gemma-embedding": Embedding,
	"clip": Vision, "vit": Vision, "siglip": Vision, "whisper": Audio, "wavtokenizer-dec": Audio,
	"llava": Multimodal, "mllama": Multimodal, "qwen2vl": Multimodal, "qwen3vl": Multimodal, "chameleon": Multimodal, "cogvlm": Multimodal,
}

// FamilyOf tells the family of an architecture by its name, of which every bitnet* generates text; Unknown if it is not
// known.
func FamilyOf(architecture string) string {
	name := strings.ToLower(architecture)
	if family, known := families[name]; known {
		return family
	}
	if strings.HasPrefix(name, "bitnet") {
		return TextGeneration
	}
	return Unknown
}

// familyOf tells the family of a file. A pooling type other than none (0) makes an embedding model of any
// architecture: that is how the BitNet embeddings, which are qwen3 and gemma3, differ from chat models.
func (f *File) familyOf(arch string) string {
	if pooling, _ := f.Keys[arch+".pooling_type"].(uint64); pooling > 0 {
		return Embedding
	}
	return FamilyOf(arch)
}
