package advisor

// builtins are the rules of this package, each in a file of its own.
var builtins = []row{
	attentionRule, fragmentationRule, quantizationRule, threadingRule, fusionRule, cacheRule, batchRule, precisionRule,
	flashRule, checkpointingRule,
	quotaRule, smtRule, layoutRule, learnedBatchRule, remoteRule, hugePagesRule, governorRule, throttledRule, idleGPURule,
	knownBadRule,
}

// ours is the source of a figure that a requirement gives and nobody measured here.
func unmeasured(requirement string) string { return requirement + ", not measured here" }
