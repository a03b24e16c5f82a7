package controlplane

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/client"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/component"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/machine"
	"github.com/kubequorum/terraform-provider-kube/internal/controlplane/release"
	"github.com/kubequorum/terraform-provider-kube/internal/host"
	"github.com/kubequorum/terraform-provider-kube/internal/pki"
	"github.com/kubequorum/terraform-provider-kube/internal/problem"
)

// errRotationNotYet means that another replica is more than one stage away, or its stage is
// unknown.
var errRotationNotYet = errors.New("replicas out of step")

// checkRotation returns why the replica may not adopt the generations of the bundle now. It
// runs under the lock, so no other replica of this process is between two stages.
//
// What is created at one stage is trusted only at the adjacent stages. So no replica may move
// to a stage that another replica could not follow to. What is stored with a key that the stage drops is rewritten
// before it is judged what the replica could no longer read.
func (r *Replicas) checkRotation(ctx context.Context, s Spec, f machine.Observed) error {
	if err := r.checkStageChange(ctx, s, f); err != nil {
		return err
	}
	return checkReadable(ctx, s, f)
}

// checkStageChange returns why the replica may not move to the stages of the bundle now, or nil if it is there.
func (r *Replicas) checkStageChange(ctx context.Context, s Spec, f machine.Observed) error {
	target, joins := s.Bundle.Generations(), f.Record.ClusterID == ""
	if !joins && sameGenerations(f.Record.Generations, target) && !changesKeys(s, f) {
		return nil
	}
	others, err := r.otherReplicas(ctx, s)
	if err != nil {
		return err
	}
	if err := checkStages(s, target, concerned(s, f, others), joins); err != nil {
		return err
	}
	if !joins {
		if err := checkOwnStage(s, f.Record.Generations, target, others); err != nil {
			return err
		}
		if err := checkOwnKeys(s, f); err != nil {
			return err
		}
	}
	if err := checkEtcdTrust(ctx, s, f); err != nil {
		return err
	}
	if err := checkEtcdAccepts(ctx, s, f); err != nil {
		return err
	}
	return checkNoStaleObjects(ctx, s, f)
}

// concerned returns the replicas whose stage matters for a change of s. A takeover changes no stage, so it does not
// wait for API servers of kubeadm, which may be taken over after it.
func concerned(s Spec, f machine.Observed, others []replicaStatus) []replicaStatus {
	if !f.TakesOver(s.Replica) {
		return others
	}
	return slices.DeleteFunc(slices.Clone(others), func(st replicaStatus) bool { return st.foreign })
}

// awaitRotation is checkRotation for a new replica. It waits for other replicas that are
// changing. The machine of a new replica says nothing of the cluster, so its bundle may be one from before a rotation.
// A machine with the record of the replica may have the last copy of a key, so its keys are compared too.
func (r *Replicas) awaitRotation(ctx context.Context, s Spec, f machine.Observed) error {
	if sameGenerations(f.Record.Generations, s.Bundle.Generations()) {
		if joins := f.Record.ClusterID == ""; joins && !r.othersRotated(ctx, s) || !joins && !replacesKeys(s, f) {
			return nil
		}
	}
	return r.waitForOthers(ctx, s, false, func() error {
		t, err := r.changeLocks.acquire(ctx, s)
		if err != nil {
			return err
		}
		defer t.release()
		return r.checkRotation(t.context(ctx), s, f)
	})
}

// othersRotated reports whether another replica is known to be at other generations than the bundle, or to have another
// CA or key there.
func (r *Replicas) othersRotated(ctx context.Context, s Spec) bool {
	others, err := r.otherReplicas(ctx, s)
	return err == nil && anyRotated(s.Bundle, others)
}

func anyRotated(b *pki.Bundle, others []replicaStatus) bool {
	return slices.ContainsFunc(others, func(st replicaStatus) bool {
		return !st.absent && st.unknown == nil &&
			(!sameGenerations(st.generations, b.Generations()) || len(otherKeys(b, st)) > 0)
	})
}

// sameGenerations compares by part; a missing part is at the first generation.
func sameGenerations(a, b map[pki.Part]int) bool {
	return !slices.ContainsFunc(pki.Parts(), func(p pki.Part) bool { return a[p] != b[p] })
}

// checkStages returns which of the others is more than one stage from target.
//
// joins means that the replica is new. If one of the others is at target, unreachable replicas
// do not count: that replica moved there when all were within one stage. A dead machine
// therefore does not prevent a cluster from growing.
func checkStages(s Spec, target map[pki.Part]int, others []replicaStatus, joins bool) error {
	var far, unseen, steps []string
	answered := joins && slices.ContainsFunc(others, func(st replicaStatus) bool {
		return st.unknown == nil && !st.absent && sameGenerations(st.generations, target)
	})
	for _, st := range others {
		switch {
		case st.absent, st.unknown != nil && answered && errors.Is(st.unknown, host.ErrUnreachable):
		case st.unknown != nil:
			unseen = append(unseen, st.unseen())
		default:
			problems, next := stagesApart(s.Bundle, st, target)
			far, steps = append(far, problems...), append(steps, next...)
			if differs := otherKeys(s.Bundle, st); len(differs) > 0 {
				far, steps = append(far, differs...), append(steps, "use "+lastBundle)
			}
		}
	}
	if len(far)+len(unseen) == 0 {
		return nil
	}
	next := "bring it back, or apply it first where it answers, or destroy its replica; then apply again."
	if slices.ContainsFunc(others, func(st replicaStatus) bool { return st.foreign }) {
		next = "import the replicas that are not imported yet, and apply them before the rotation goes on; or take their " +
			"machines away from the endpoint. Then apply again."
	}
	if len(unseen) == 0 {
		slices.Sort(steps)
		next = "apply again, the others included; where that does not help, " + strings.Join(slices.Compact(steps), "; ") +
			"."
	}
	return rotationNotYet(s, strings.Join(append(far, unseen...), "; "), next)
}

// checkOwnStage returns an error if target drops a key with which the replica has signed or encrypted until now: it has
// missed the stage at which it would have used the other one, or the bundle is an old one. If one of the others is at
// target already, it went there when this replica was within one stage, so the machine was put back since, and
// keeping it there helps nobody.
func checkOwnStage(s Spec, own, target map[pki.Part]int, others []replicaStatus) error {
	for _, p := range pki.Parts() {
		use, used := ownUse(p)
		if !used {
			continue
		}
		have, want := own[p], target[p]
		ends := pki.StageOf(want) == pki.Steady && !slices.ContainsFunc(others, func(st replicaStatus) bool {
			return st.unknown == nil && !st.absent && st.generations[p] == want
		})
		switch {
		case have > want+1 && (ends || !use.rewritten):
			return rotationRefused(s, fmt.Sprintf("it is at generation %d of %s, and the bundle is at %d, which does not know "+
				"what the replica %s with: %s", have, p, want, use.does, use.effect),
				fmt.Sprintf("if the state of kube_pki_bundle is an old one, use the newest one. If rotation.%s was lowered by "+
					"several stages, %s.", p.Attribute(), wayDown(s.Bundle, p, have)), nil)
		case have < want-1 && ends && !use.rewritten:
			return rotationRefused(s, fmt.Sprintf("it is at generation %d of %s, and %d drops the key with which it %s until "+
				"then: %s", have, p, want, use.does, use.effect),
				fmt.Sprintf("set rotation.%s back to %d, apply everything (without -target), and go on as the guide Rotating "+
					"CAs and keys says.", p.Attribute(), want-1), nil)
		}
	}
	return nil
}

// keyUse is what a replica does with the key of a part until it adopts the next one.
type keyUse struct {
	does, effect string // and what becomes of it without the key
	rewritten    bool   // the stages rewrite it with the other key, as far as they know both
}

// ownUse returns the use of the key of a part; false if nothing that a replica makes with it outlives a stage.
func ownUse(p pki.Part) (use keyUse, used bool) {
	switch {
	case p.Signs():
		return keyUse{does: "signs", effect: "what it has signed would be refused"}, true
	case p == pki.EncryptionPart:
		return keyUse{does: "encrypts", effect: "what it has encrypted would become unreadable", rewritten: true}, true
	}
	return keyUse{}, false
}

// wayDown describes what a replica at generation have of a part follows, if the bundle is more than one stage below it.
// Between rotations, a higher number is the beginning of the next one, with another CA or key.
func wayDown(b *pki.Bundle, p pki.Part, have int) string {
	if !b.Reintroduces(p) {
		return fmt.Sprintf("use the state of kube_pki_bundle of generation %d or %d of %s. Do not raise rotation.%s before "+
			"that: it would introduce another %s", have, have-1, p, p.Attribute(), noun(p))
	}
	with := ""
	if p == pki.EncryptionPart {
		with = " with the encryption that belongs to that number"
	}
	return fmt.Sprintf("set rotation.%s to %d%s, apply everything (without -target), then lower it again", p.Attribute(),
		have-1, with)
}

// stagesApart returns the parts in which a replica is more than one stage from target, where b is, and for each what
// leads there.
func stagesApart(b *pki.Bundle, st replicaStatus, target map[pki.Part]int) (problems, steps []string) {
	for _, p := range pki.Parts() {
		have, want := st.generations[p], target[p]
		if max(have-want, want-have) <= 1 {
			continue
		}
		setting := "rotation." + p.Attribute()
		step := fmt.Sprintf("set %s back to %d, apply, then raise it again", setting, want-1)
		if have > want {
			step = wayDown(b, p, have)
		}
		steps = append(steps, step)
		problems = append(problems, fmt.Sprintf("replica %s is at generation %d of %s, this one would go to %d: they "+
			"would not trust each other",
			st.machine(), have, p, want))
	}
	return problems, steps
}

// rotationNotYet returns a refusal that a change of the others may resolve.
func rotationNotYet(s Spec, cause, next string) error {
	return fmt.Errorf("%w: %w", errRotationNotYet, rotationRefused(s, cause, next, nil))
}

// rotationRefused returns the error for a replica that stays at its stage. err, if not nil, is what cause describes.
func rotationRefused(s Spec, cause, next string, err error) error {
	return &problem.Problem{
		Summary:   "Control-plane replica not moved to another stage of a rotation",
		Host:      s.Machine(),
		Cause:     cause,
		Err:       err,
		Unchanged: problem.Nothing,
		Next:      next,
	}
}

// intermediateStage returns s at the encryption stage before the wanted one, if the wanted
// stage drops a key and the replica does not run at the stage before it yet. While the replica
// still writes with that key, it cannot be proven that no object is stored with it.
func intermediateStage(s Spec, f machine.Observed) (Spec, bool) {
	to := s.Bundle.Generation(pki.EncryptionPart)
	if f.Record.ClusterID == "" || pki.StageOf(to) != pki.Steady {
		return s, false
	}
	noted := f.StartNote(f.Runtime(), release.APIServer)
	switch stages := to - f.Record.Generations[pki.EncryptionPart]; {
	case stages >= 2:
	// an interrupted change
	case stages == 1 && noted[component.EncryptionConfigPath] != f.Facts.Files[component.EncryptionConfigPath].SHA256:
	default:
		return s, false
	}
	between, err := s.Bundle.Rotate(map[pki.Part]int{pki.EncryptionPart: to - 1}, pki.Next{}, pki.Options{})
	if err != nil {
		return s, false // the previous encryption is unknown, so the objects in etcd decide
	}
	s.Bundle = between
	return s, true
}

// etcdTimeout limits one request to a member for what concerns certificates.
const etcdTimeout = 5 * time.Second

// checkEtcdTrust returns an error if an etcd CA would be removed from the trust of an API
// server while a member has a certificate of that CA alone: the API server would start without
// etcd.
func checkEtcdTrust(ctx context.Context, s Spec, f machine.Observed) error {
	next := s.Bundle.Anchors(pki.Etcd)
	if !pki.Loses(f.Facts.Files[component.EtcdClientCA].Content, next) {
		return nil
	}
	var refused []string
	for _, member := range slices.Sorted(slices.Values(s.EtcdURLs)) {
		chain, err := servingChain(ctx, s, member)
		if reason := losesMember(next, member, chain, err, time.Now()); reason != "" {
			refused = append(refused, reason)
		}
	}
	if len(refused) == 0 {
		return nil
	}
	return rotationNotYet(s, strings.Join(refused, "; "),
		"make sure that every etcd member runs and has been applied at the stage before, then apply again.")
}

// losesMember returns why an API server that trusts only next would not, or may not, reach a
// member that serves chain, or "". err is why the chain is unknown.
func losesMember(next, member string, chain []*x509.Certificate, err error, now time.Time) string {
	switch {
	case err != nil:
		return fmt.Sprintf("cannot determine which certificate %s serves: %v", member, err)
	case len(chain) == 0:
		return member + " serves no certificate"
	case !pki.Accepts(next, chain, pki.Server, now):
		return fmt.Sprintf("%s serves a certificate of %q, which would no longer be trusted", member,
			chain[0].Issuer.CommonName)
	}
	return ""
}

// checkEtcdAccepts returns an error if the API server would present a certificate of another CA to etcd, and a member
// does not accept it: the API server could not connect to that member any more. Usually the previous CA has signed the
// next one, and a member that knows only the previous one accepts both. Without its key, it could not sign.
func checkEtcdAccepts(ctx context.Context, s Spec, f machine.Observed) error {
	if s.Bundle.Issues(pki.Etcd, f.Facts.Files[component.EtcdClientCert].Content) {
		return nil
	}
	pair, err := s.Bundle.Issue(pki.APIServerEtcdClient(), time.Now(), time.Hour)
	if err != nil {
		return err
	}
	certificate, err := tls.X509KeyPair([]byte(pair.Certificate), []byte(pair.PrivateKey))
	if err != nil {
		return fmt.Errorf("load %s certificate: %w", pki.APIServerEtcdClient().Name, err)
	}
	answers := map[string]error{}
	for _, member := range s.EtcdURLs {
		answers[member] = presentTo(ctx, s, member, certificate)
	}
	reason := refusesReplica(answers, f.Record.ClusterID == "")
	if reason == "" {
		return nil
	}
	return rotationNotYet(s, reason, "make sure that every etcd member is at this stage or the one before it (apply the "+
		"members first, without -target; an etcd of your own must trust the CA that issues at this stage), then apply "+
		"again.")
}

// refusesReplica returns why an API server must not get a certificate, by the answers of the etcd members to it, or "".
// A member that does not answer is no reason while another one accepts it: an API server uses any of them, and a
// machine that is down must not stop a rotation. A new API server has nothing to lose.
func refusesReplica(answers map[string]error, joins bool) string {
	var refused, silent []string
	for _, member := range slices.Sorted(maps.Keys(answers)) {
		switch err := answers[member]; {
		case errors.Is(err, host.ErrCertificateRefused):
			refused = append(refused, member+" does not accept the certificate of the etcd CA at this stage")
		case err != nil:
			silent = append(silent, fmt.Sprintf("cannot determine whether %s accepts the certificate of the etcd CA at this "+
				"stage: %v", member, client.Cause(err)))
		}
	}
	if len(refused) == 0 && (joins || len(silent) < len(answers)) {
		return ""
	}
	return strings.Join(append(refused, silent...), "; ")
}

// presentTo presents a certificate to an etcd member, from the machine of the replica.
func presentTo(ctx context.Context, s Spec, member string, certificate tls.Certificate) error {
	ctx, cancel := context.WithTimeout(ctx, etcdTimeout)
	defer cancel()
	at, err := url.Parse(member)
	if err != nil {
		return err
	}
	return s.Host.PresentCertificate(ctx, at.Host, certificate)
}

// servingChain returns the certificate chain that an etcd member serves, as seen from the
// machine of the replica.
func servingChain(ctx context.Context, s Spec, member string) ([]*x509.Certificate, error) {
	ctx, cancel := context.WithTimeout(ctx, etcdTimeout)
	defer cancel()
	at, err := url.Parse(member)
	if err != nil {
		return nil, err
	}
	// A member may end the handshake without a client certificate. By then it has sent
	// its own.
	chain, err := s.Host.ServingChain(ctx, at.Host)
	if len(chain) == 0 && err != nil {
		return nil, client.Cause(err)
	}
	return chain, nil
}
