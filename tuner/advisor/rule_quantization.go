package advisor

import "fmt"

// quantizationRule is R2.12: a large model in floating point. One that is ternary already has nothing to gain.
var quantizationRule = row{id: "quantization/ternary", category: Quantization, difficulty: Coding, check: func(c *Context) (*Suggestion, error) {
	k := c.constants()
	weights, quantised, err := c.quantised()
	if err != nil || quantised || weights <= k.QuantizationWeights {
		return nil, err
	}
	return &Suggestion{
		Title:       "Quantise the weights",
		Description: fmt.Sprintf("%.3g weights are in floating point. INT8 or INT4 take a quarter or an eighth of the memory traffic; a ternary model (1.58 bit) has to be trained as one.", float64(weights)),
		Expected:    Improvement{Memory: exactly(k.QuantizationMemory), Speed: exactly(k.QuantizationSpeed), Source: unmeasured},
		Steps:       []string{"Look for a published ternary model of the task", "Else quantise to INT8 or INT4 with your engine's own tool", "Compare the accuracy on your own data before and after"},
		Examples:    []string{"bitnet-autotune models"},
		Warnings:    []string{fmt.Sprintf("accept a loss of accuracy below %g only", k.AccuracyDrop), "weights cannot be rounded to ternary after training without a heavy loss"},
	}, nil
}}

// quantised tells how many weights the model has, and whether most of them are quantised.
func (c *Context) quantised() (weights uint64, quantised bool, err error) {
	if c.Model != nil && c.Model.Tunable() == nil || c.Graph != nil && c.Graph.ternary() {
		return 0, true, nil
	}
	if c.Graph != nil {
		weights := c.Graph.weights()
		return weights, 2*c.Graph.unquantised() <= weights, nil
	}
	if _, err := c.Current.text("quantization"); err != nil {
		return 0, false, &Missing{Part: "model graph, or current quantization and parameters"}
	}
	if !c.Current.Is("quantization", "none", "f64", "f32", "fp32", "f16", "fp16", "bf16") {
		return 0, true, nil
	}
	weights, err = c.Current.parameters()
	return weights, false, err
}
