package heuristic

// needsUsage is why no network is trained to imitate a policy by usage.
const needsUsage = "it scores measured usage, which the clusters of a training with a teacher do not have"

// The published score plugins that look at measured usage. Without it they score requests.
var (
	targetLoadPacking = Heuristic{
		Name:  TargetLoadPacking{}.Name(),
		About: "Trimaran: up to 40 % of measured CPU the fullest node, above it the emptiest",
		New:   fixed(TargetLoadPacking{}), Usage: true, RandomTies: true, NotImitable: needsUsage,
	}
	loadVariation = Heuristic{
		Name:  LoadVariationRiskBalancing{}.Name(),
		About: "Trimaran: the least mean plus deviation of measured CPU and memory",
		New:   fixed(LoadVariationRiskBalancing{}), Usage: true, RandomTies: true, NotImitable: needsUsage,
	}
	koordinatorLoadAware = Heuristic{
		Name:  KoordinatorLoadAware{}.Name(),
		About: "Koordinator: the most left of measured CPU and memory",
		New:   fixed(KoordinatorLoadAware{}), Usage: true, RandomTies: true, NotImitable: needsUsage,
	}
	craneDynamic = Heuristic{
		Name:  CraneDynamic{}.Name(),
		About: "Crane: the least measured usage of five minutes, an hour and a day, and few pods of late",
		New:   fixed(CraneDynamic{}), Usage: true, RandomTies: true, NotImitable: needsUsage,
	}
	peaks = Heuristic{
		Name:  Peaks{}.Name(),
		About: "Trimaran: the node whose power rises least, by measured CPU",
		New:   fixed(Peaks{}), Usage: true, RandomTies: true, NotImitable: needsUsage,
	}
)
