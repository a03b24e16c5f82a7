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
  secret_files = {} # Terraform refuses the default of an ephemeral variable when a test applies
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
