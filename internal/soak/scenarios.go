package soak

import "slices"

// Scenarios are all that are known, in the order in which they are run.
func Scenarios() []Scenario {
	return slices.Concat(
		[]Scenario{loadScenario(), deadMachineScenario()}, carelessScenarios(), twoProcessScenarios(), upgradeScenarios(), accidentScenarios(),
		controlPlaneScenarios(), etcdScenarios(), cutUpgradeScenarios(),
	)
}
