action "kube_etcd_snapshot" "before_migration" {
  config {
    pki   = kube_pki_bundle.prod.bundle
    peers = local.hosts
    label = "before-migration"
  }
}

# Now: terraform apply -invoke=action.kube_etcd_snapshot.before_migration
# Or before each change of something else:
resource "terraform_data" "migration" {
  input = "42"

  lifecycle {
    action_trigger {
      events  = [before_create, before_update]
      actions = [action.kube_etcd_snapshot.before_migration]
    }
  }
}
