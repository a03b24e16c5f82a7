# Generated from mocked.tftest.hcl and mocks/kube.tfmock.hcl, for OpenTofu:
#   go test ./internal/provider -run TestOpenTofuMocks -update

mock_provider "kube" {
  mock_resource "kube_pki_bundle" {
    defaults = {
      bundle         = "{\"mock\": true}"
      ca_certificate = <<-PEM
        -----BEGIN CERTIFICATE-----
        MIIBhTCCASugAwIBAgIUc2npl9aFfzg8JJD+TC2i/5C8SS0wCgYIKoZIzj0EAwIw
        DzENMAsGA1UEAwwEbW9jazAgFw0yNjExMjIxOTQ2MTVaGA8yMTI2MTAyOTE5NDYx
        NVowDzENMAsGA1UEAwwEbW9jazBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABHnb
        uQgqcq1QTq4mDdbdUCjPgXHol2AiYUv9MELItUphoiM6teV7ok2LlsE3Fsu4zLvF
        /9X/dognJE0d1LJaQzqjYzBhMB0GA1UdDgQWBBSqRSvaogxfSRENIF7OnNfHN/2P
        nzAfBgNVHSMEGDAWgBSqRSvaogxfSRENIF7OnNfHN/2PnzAPBgNVHRMBAf8EBTAD
        AQH/MA4GA1UdDwEB/wQEAwIBBjAKBggqhkjOPQQDAgNIADBFAiATAxHsc0w5fI3j
        e82UTEeRV1Jub6tBv2RhVPkwuZbOoQIhAPB1y3DojoTEQ1cjN3ZXts7wgbReg1Rk
        hfnO0SvvB9bp
        -----END CERTIFICATE-----
      PEM
    }
  }

  mock_resource "kube_control_plane_endpoint" {
    defaults = {
      url   = "https://192.0.2.100:6443"
      drift = []
      registration = {
        address       = "192.0.2.100"
        port          = 6443
        hosts         = { cp1 = "192.0.2.11" }
        drain_timeout = "10s"
        verify_ca     = true
        cluster_id    = "8f14e45fceea167a"

        # A mocked value cannot be null, and what is not here is generated.
        address6       = ""
        kind           = "haproxy"
        target_port    = 6443
        detection_time = "6s"
        healthy_time   = "6s"
        probe_from     = ""
        hooks          = { register = [], drain = [], deregister = [], status = [] }
        zone = {
          name           = "example.com", server = "192.0.2.53:53", name_servers = ["192.0.2.53:53"], ttl = "5s", tsig_key = "key"
          check_interval = "1s", check_threshold = 3, install_packages = true
        }
        bgp = {
          asn       = 64512, peers = [{ address = "192.0.2.1", asn = 64513, bfd = true, multihop = 1, password = "router", targets = ["cp1"] }]
          hold_time = "3s", bfd_interval = "300ms", propagation_time = "1s", install_packages = true
        }
        kube_vip = { mode = "arp", interface = "", program = "/usr/local/bin/kube-vip", sha256 = "", lease_duration = "5s" }
      }
    }
  }

  mock_resource "kube_etcd_member" {
    defaults = {
      id         = "8e9e05c52164694d"
      client_url = "https://192.0.2.11:2379"
      peer_url   = "https://192.0.2.11:2380"
      drift      = []
    }
  }

  mock_resource "kube_control_plane_replica" {
    defaults = {
      drift = []
    }
  }

  mock_resource "kube_kubeconfig" {
    defaults = {
      content = "apiVersion: v1\nkind: Config\n"
    }
  }
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
