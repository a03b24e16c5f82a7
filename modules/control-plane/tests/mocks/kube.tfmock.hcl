# Mocks of the provider kube, for tests of modules that use it ("terraform test").
# No machine is contacted and no key is generated. The key of the certificate was not
# kept.
#
#   mock_provider "kube" {
#     source = "./tests/mocks" # the directory of this file
#   }

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
        asn       = 64512, peers = { address = "192.0.2.1", asn = 64513, bfd = true, multihop = 1, password = "router", targets = ["cp1"] }
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
