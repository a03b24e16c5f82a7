package soak

import "slices"

// Scenarios returns all scenarios in the order in which they run.
func Scenarios() []Scenario {
	return slices.Concat(
		[]Scenario{loadScenario(), deadMachineScenario(), plugScenario()}, staticPodLoadScenarios(), carelessScenarios(),
		twoProcessScenarios(),
		upgradeScenarios(), accidentScenarios(),
		endpointScenarios(), interruptEndpointScenarios(), controlPlaneScenarios(), etcdScenarios(), restoreScenarios(),
		cutUpgradeScenarios(), staticPodScenarios(), adoptionScenarios(),
	)
}
