package pki

import (
	"reflect"
)

const clusterIDBytes = 16

// Same reports whether two bundles agree on the cluster and on parts. If they do, nothing
// derived from those parts needs to change. The name of the cluster is in no part: see Renamed.
func (b *Bundle) Same(other *Bundle, parts ...Part) bool {
	if b == nil || other == nil {
		return b == other
	}
	own, others := b.only(parts), other.only(parts)
	return reflect.DeepEqual(own.encoded(), others.encoded())
}

// Renamed reports whether other is the bundle of the same cluster under another name.
func (b *Bundle) Renamed(other *Bundle) bool {
	return b != nil && other != nil && b.ClusterID == other.ClusterID && b.ClusterName != other.ClusterName
}

// DeletionProtected reports whether the cluster is protected from deletion. While it is, the
// last voter, the last serving replica and the bundle cannot be destroyed. Every copy of the
// bundle contains this setting, so that each member and replica knows it.
func (b *Bundle) DeletionProtected() bool { return b == nil || !b.Deletable }

// AllowDeletion describes how to turn deletion protection off.
const AllowDeletion = "to end the cluster, set deletion_protection = false on its kube_pki_bundle, apply, then destroy."

func (b *Bundle) only(parts []Part) *Bundle {
	out := &Bundle{ClusterID: b.ClusterID}
	for _, p := range parts {
		switch p {
		case KubernetesPart:
			out.CA, out.CARotation = b.CA, b.CARotation
		case EtcdPart:
			out.EtcdCA, out.EtcdCARotation = b.EtcdCA, b.EtcdCARotation
		case FrontProxyPart:
			out.FrontProxyCA, out.FrontProxyCARotation = b.FrontProxyCA, b.FrontProxyCARotation
		case ServiceAccountPart:
			out.ServiceAccount, out.ServiceAccountRotation = b.ServiceAccount, b.ServiceAccountRotation
		case EncryptionPart:
			out.Encryption, out.EncryptionRotation = b.Encryption, b.EncryptionRotation
			out.WithdrawnKeys = b.WithdrawnKeys
		}
	}
	return out
}
