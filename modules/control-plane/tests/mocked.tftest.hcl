# The outputs of the module, applied with a mocked provider: no machine is contacted.
# Tests of modules that use this one can use the same mocks.

mock_provider "kube" {
  source = "./tests/mocks"
}

variables {
  cluster_name = "prod"
  endpoint     = { address = "10.0.0.100" }
  machines = {
    cp1 = { address = "10.0.0.11" }
    cp2 = { address = "10.0.0.12" }
    cp3 = { address = "10.0.0.13" }
    lb1 = { address = "10.0.0.21", roles = ["balancer"] }
  }
  etcd         = { version = "3.6.16" }
  kubernetes   = { version = "1.36.3" }
  private_keys = {} # Terraform refuses the default of an ephemeral variable when a test applies
  secret_files = {}
}

run "outputs" {
  assert {
    condition     = output.url == "https://192.0.2.100:6443" && startswith(output.ca_certificate, "-----BEGIN CERTIFICATE-----")
    error_message = "url and ca_certificate come from the endpoint and the bundle."
  }
  assert {
    condition     = length(output.etcd_client_urls) == 3 && toset(output.etcd_client_urls) == toset(["https://192.0.2.11:2379"]) && length(output.drift) == 0
    error_message = "There is a client URL for each of the three members, and no drift."
  }
  assert {
    condition     = length(kube_control_plane_endpoint.this.haproxy.hosts) == 4
    error_message = "The endpoint is on all four balancers."
  }
}

run "without_a_kubeconfig" {
  variables {
    admin_kubeconfig = false
  }

  assert {
    condition     = output.kubeconfig == null && length(kube_kubeconfig.admin) == 0
    error_message = "Without admin_kubeconfig no kubeconfig is issued."
  }
}

run "keys_of_your_own" {
  variables {
    admin_kubeconfig = false
    private_keys     = { kubernetes = "a key" }
    pki = {
      ca      = { certificate = run.without_a_kubeconfig.ca_certificate, private_key_wo_version = 1 }
      etcd_ca = { certificate = run.without_a_kubeconfig.ca_certificate, key_held_elsewhere = true }
    }
    signed = { cp1 = {
      etcd_member = { keys = "{}", certificates = { "etcd/server" = "a certificate" } }
      replica     = { keys = "{}", certificates = { apiserver-etcd-client = "a certificate" } }
    } }
  }

  assert {
    condition     = kube_pki_bundle.this.ca.private_key_wo_version == 1 && kube_pki_bundle.this.etcd_ca.key_held_elsewhere
    error_message = "The bundle has the given CAs."
  }
  assert {
    condition = alltrue([
      kube_etcd_member.this["cp1"].signed.certificates["etcd/server"] == "a certificate", kube_etcd_member.this["cp2"].signed == null,
      kube_control_plane_replica.this["cp1"].signed.certificates["apiserver-etcd-client"] == "a certificate",
    ])
    error_message = "Signed certificates go to their machine."
  }
}
