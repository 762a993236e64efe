package advisor

// builtins are the rules of this package, each in a file of its own.
var builtins = []row{
	attentionRule, fragmentationRule, quantizationRule, threadingRule, fusionRule, cacheRule, batchRule, precisionRule,
	flashRule, checkpointingRule,
	quotaRule, crowdRule, smtRule, layoutRule, learnedBatchRule, remoteRule, hugePagesRule, governorRule, throttledRule, idleGPURule,
	knownBadRule,
}

// unmeasured is the source of the figures that came with the rules R2.10 to R2.19 and that nobody measured here.
const unmeasured = "a figure commonly given, not measured here"
