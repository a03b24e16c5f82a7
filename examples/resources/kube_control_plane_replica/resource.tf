resource "kube_control_plane_replica" "prod" {
  for_each = local.hosts

  name     = each.key
  host     = { address = each.value }
  endpoint = kube_control_plane_endpoint.prod.registration
  etcd     = [kube_etcd_member.prod[each.key].client_url]
  pki      = kube_pki_bundle.prod.bundle
  version  = "1.36.3"

  # Optional: people log in with OpenID Connect, and the audit log is kept longer.
  authentication = {
    jwt = yamlencode([{
      issuer        = { url = "https://login.example.com/realms/prod", audiences = ["kubernetes"] }
      claimMappings = { username = { claim = "email", prefix = "login:" } }
    }])
  }
  audit = { max_age_days = 90 }

  # Optional: an admission configuration, which a flag names.
  extra_args = {
    apiserver = { admission-control-config-file = "/etc/kubernetes/files/admission.yaml" }
  }
  files = {
    "admission.yaml" = {
      content = yamlencode({
        apiVersion = "apiserver.config.k8s.io/v1"
        kind       = "AdmissionConfiguration"
        plugins = [{
          name = "PodSecurity"
          configuration = {
            apiVersion = "pod-security.admission.config.k8s.io/v1"
            kind       = "PodSecurityConfiguration"
            defaults   = { enforce = "baseline" }
          }
        }]
      })
    }
  }
}
