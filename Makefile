# Everything here works on a Debian-like machine with Go, make and root or sudo,
# and may be repeated: what is there is not made again. "make help" lists the targets.

SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c

.NOTPARALLEL:

# The machine's own CLI configuration may redirect providers, or name a file that is not there.
unexport TF_CLI_CONFIG_FILE

SUDO := $(if $(filter 0,$(shell id -u)),,sudo -E env PATH=$$PATH HOME=$$HOME)
LAB  := bin/kube-lab

# Lab machines share two cores, so packages are tested one after the other.
# The go command runs as the user; only the test programs are root's.
GOTEST := go test -count=1 -p 1 $(if $(SUDO),-exec "$(SUDO)")

.PHONY: help
help: ## list the targets
	@sed -nE 's/^([a-z-]+):.*## (.*)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

.PHONY: build
build: ## the provider: bin/terraform-provider-kube
	go build -o bin/ .

.PHONY: setup
setup: $(LAB) ## install Debian packages, build etcd and Kubernetes (once, about 7 minutes)
	$(SUDO) $(LAB) setup
	$(LAB) build etcd kubernetes

.PHONY: demo
demo: setup ## a control plane of three machines on this computer
	$(SUDO) $(LAB) demo

.PHONY: demo-down
demo-down: $(LAB) ## remove the demo
	$(SUDO) $(LAB) demo-down

.PHONY: bench
bench: setup ## measure apply, plan, day 2, upgrade and memory against their floors (BENCH="--only upgrade" for a part)
	$(SUDO) $(LAB) bench $(BENCH)

ACCEPTANCE := $(GOTEST) -v -timeout 60m ./internal/acceptance
STORIES    := TestScale|TestSealed$$|TestModule|TestHealth|TestGettingStarted|TestNoApplyEndsTheCluster
LONG       := TestRefuse|TestHostileMachine|TestUpgradeRefused|TestReplace|TestDelete|TestBringYourOwn|TestRenewalOnMachines|TestExternalAuthorities|TestRotationDetours|TestUpgrade$$|TestUpgradeRolledBack|TestUpgradeUndone|TestUpgradeByReplacement|TestEncryption|TestRepair|TestRotateAuthorities|TestFleet|TestMoveEtcd|TestImport|TestProduction
LONG_LABS  := TestSlowLineOnMachines|TestUpgradeTrapsOnMachines|TestUpgradeThroughMinors|TestRollbackOfAMinor|TestReleasesSayTheSame

.PHONY: soak
soak: setup ## clients during every change, accidents, careless edits, two processes, applies cut off anywhere (SOAK="--only join" for a part)
	$(SUDO) $(LAB) soak $(SOAK)

.PHONY: test-long
test-long: setup ## what would make test too long: refuse, repair, replace, delete, rotations, upgrades by minor versions, a fleet
	$(LAB) build etcd-3.5 kubernetes-1.33 kubernetes-1.35 terragrunt
	KUBE_TEST_LONG=1 $(GOTEST) -timeout 60m ./internal/etcd ./internal/controlplane -run='$(LONG_LABS)'
	TF_ACC=1 KUBE_TEST_TERRAFORM=$$(command -v terraform || $(LAB) build tofu) $(ACCEPTANCE) -run='$(LONG)'

.PHONY: test
test: lint generate-check vet test-unit test-release test-acceptance ## everything that CI runs

.PHONY: test-unit
test-unit: setup ## tests of every package, those on lab machines included
	$(LAB) build etcd-3.5 etcd-3.5-before
	$(GOTEST) -timeout 30m $$(go list ./... | grep -v /internal/acceptance$$)

.PHONY: test-release
test-release: $(LAB) ## a release for this platform is made, signed, and installed by Terraform and OpenTofu, without network
	@$(LAB) build goreleaser cyclonedx-gomod tofu >/dev/null
	KUBE_TEST_RELEASE=1 go test -count=1 -v -timeout 20m ./internal/release

.PHONY: test-acceptance
test-acceptance: test-terraform test-tofu ## Terraform, then OpenTofu, on lab machines

.PHONY: test-terraform
test-terraform: setup ## the same with Terraform only (skipped where it is not installed)
	@if terraform=$$(command -v terraform); then \
		echo "acceptance tests with $$terraform"; \
		TF_ACC=1 KUBE_TEST_TERRAFORM=$$terraform $(ACCEPTANCE) -skip='$(LONG)'; \
	else \
		echo "terraform is not installed: acceptance tests run with OpenTofu only"; \
	fi

.PHONY: test-tofu
test-tofu: setup ## the same with OpenTofu only
	@tofu=$$($(LAB) build tofu); \
	echo "acceptance tests with $$tofu"; \
	TF_ACC=1 KUBE_TEST_TERRAFORM=$$tofu \
	TF_ACC_PROVIDER_HOST=registry.opentofu.org TF_ACC_PROVIDER_NAMESPACE=kubequorum \
	$(ACCEPTANCE) -skip=$$(command -v terraform >/dev/null && echo 'TestInterrupted|$(STORIES)|')'$(LONG)' # once is enough: these are about the provider

.PHONY: vet
vet:
	go vet ./...

.PHONY: lint
lint: $(LAB) ## golangci-lint, the import rules among its checks; actionlint
	$$($(LAB) build golangci-lint) run
	$$($(LAB) build actionlint) -shellcheck= -pyflakes= .github/workflows/*.yml examples/*/github-actions.yml # whatever else is installed

.PHONY: generate
generate: $(LAB) build ## format sources, write docs/
	$$($(LAB) build gofumpt) -w main.go cmd internal
	tools/docs/generate write

.PHONY: generate-check
generate-check: $(LAB) build # gofumpt is checked by lint
	tools/docs/generate check

.PHONY: release-snapshot
release-snapshot: $(LAB) ## in dist/: what a release would have, signed when GPG_FINGERPRINT names a key (no network needed)
	tools/goreleaser/release snapshot

.PHONY: release
release: $(LAB) ## publish the release of the tag that is checked out (CI does; see CONTRIBUTING.md)
	tools/goreleaser/release publish

.PHONY: clean
clean: ## remove bin/ and dist/ (the cache of built programs stays)
	rm -rf bin dist

.PHONY: $(LAB)
$(LAB):
	@go build -o $@ ./cmd/kube-lab
