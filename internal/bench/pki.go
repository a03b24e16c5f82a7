package bench

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/kubequorum/terraform-provider-kube/internal/build"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
)

// certified is a machine that receives certificates: an etcd member and a replica.
type certified struct{ name, address string }

var certifiedMachines = []certified{{"cp1", "10.0.0.11"}, {"cp2", "10.0.0.12"}, {"cp3", "10.0.0.13"}}

const certifiedEndpoint = "10.0.0.100"

// certificates measures the PKI of three machines against `kubeadm init phase certs all`. Both
// run as one process for each machine, and write files. kubeadm creates no kubeconfigs, which
// are included in the provider's measurement.
func (b *bench) certificates(ctx context.Context) ([]Result, error) {
	kubeadm, err := kubeadmProgram(ctx)
	if err != nil {
		return nil, err
	}
	own := filepath.Join(b.dir, "certificates")
	if err := build.Provider(ctx, "internal/bench/certificates", own); err != nil {
		return nil, err
	}
	byProvider, byKubeadm := map[pki.Algorithm]series{}, map[pki.Algorithm]series{}
	for round := range rounds {
		for _, algorithm := range []pki.Algorithm{pki.RSA2048, pki.ECDSAP256} {
			owns, err := providerAll(ctx, own, algorithm)
			if err != nil {
				return nil, err
			}
			kubeadms, err := kubeadmAll(ctx, kubeadm, algorithm)
			if err != nil {
				return nil, err
			}
			fmt.Fprintf(b.log, "certificates, %s, round %d of %d: %.3f s, kubeadm %.3f s\n", algorithm, round+1, rounds,
				owns, kubeadms)
			byProvider[algorithm] = append(byProvider[algorithm], 1000*owns)
			byKubeadm[algorithm] = append(byKubeadm[algorithm], 1000*kubeadms)
		}
	}
	const name = "PKI of three machines, kubeconfigs included, against kubeadm init phase certs all, "
	ecdsa, rsa := pki.ECDSAP256, pki.RSA2048
	return []Result{
		ratio(name+"each with its default (ECDSA-P256, RSA-2048)", byProvider[ecdsa], byKubeadm[rsa], 0.1, "ms"),
		ratio(name+"both with ECDSA-P256", byProvider[ecdsa], byKubeadm[ecdsa], 0.1, "ms"),
		// This mostly measures the generation of RSA keys, of which the provider has more.
		ratioTo(name+"both with RSA-2048", byProvider[rsa], byKubeadm[rsa], "ms"),
	}, nil
}

// providerAll returns the seconds that the provider's code takes to create the files of the
// machines, as a process for each machine.
func providerAll(ctx context.Context, program string, algorithm pki.Algorithm) (float64, error) {
	dir, err := os.MkdirTemp("", "bench-certificates-")
	if err != nil {
		return 0, fmt.Errorf("make a directory for certificates: %w", err)
	}
	defer os.RemoveAll(dir)
	return timed(func() error {
		for _, m := range certifiedMachines {
			if err := process(ctx, program, dir, string(algorithm), m.name, m.address, certifiedEndpoint); err != nil {
				return err
			}
		}
		return nil
	})
}

// process runs a program to its end.
func process(ctx context.Context, program string, args ...string) error {
	output, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", filepath.Base(program), err, strings.TrimSpace(string(output)))
	}
	return nil
}

const kubeadmConfig = `apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
localAPIEndpoint: {advertiseAddress: %[1]s, bindPort: 6443}
nodeRegistration: {name: %[2]s}
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: v%[3]s
clusterName: prod
encryptionAlgorithm: %[4]s
certificatesDir: %[5]s
controlPlaneEndpoint: %[6]s:6443
`

// kubeadmShared are the files that kubeadm's users copy from the first machine to the others,
// and that kubeadm then does not create again.
var kubeadmShared = []string{
	"ca.crt", "ca.key", "etcd/ca.crt", "etcd/ca.key", "front-proxy-ca.crt", "front-proxy-ca.key", "sa.key", "sa.pub",
}

// kubeadmAll returns the seconds that kubeadm takes to create the files of the machines.
// Writing its configuration and copying its files are not counted.
func kubeadmAll(ctx context.Context, program string, algorithm pki.Algorithm) (float64, error) {
	version, err := build.Version("kubernetes")
	if err != nil {
		return 0, err
	}
	dir, err := os.MkdirTemp("", "bench-kubeadm-")
	if err != nil {
		return 0, fmt.Errorf("make a directory for kubeadm: %w", err)
	}
	defer os.RemoveAll(dir)
	var sum float64
	for i, m := range certifiedMachines {
		own, config := filepath.Join(dir, m.name), filepath.Join(dir, m.name+".yaml")
		text := fmt.Sprintf(kubeadmConfig, m.address, m.name, version, algorithm, own, certifiedEndpoint)
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			return 0, fmt.Errorf("configure kubeadm: %w", err)
		}
		if i > 0 {
			if err := share(filepath.Join(dir, certifiedMachines[0].name), own); err != nil {
				return 0, err
			}
		}
		seconds, err := timed(func() error {
			return process(ctx, program, "init", "phase", "certs", "all", "--config", config)
		})
		if err != nil {
			return 0, err
		}
		sum += seconds
	}
	return sum, nil
}

func share(from, to string) error {
	if err := os.MkdirAll(filepath.Join(to, "etcd"), 0o700); err != nil {
		return fmt.Errorf("share kubeadm's authorities: %w", err)
	}
	for _, name := range kubeadmShared {
		content, err := os.ReadFile(filepath.Join(from, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(to, name), content, 0o600)
		}
		if err != nil {
			return fmt.Errorf("share kubeadm's authorities: %w", err)
		}
	}
	return nil
}

func kubeadmProgram(ctx context.Context) (string, error) {
	dir, err := build.Set(ctx, "kubernetes")
	return filepath.Join(dir, "kubeadm"), err
}
