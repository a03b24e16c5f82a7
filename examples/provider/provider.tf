terraform {
  required_providers {
    kube = {
      source  = "kubequorum/kube"
      version = "~> 0.1.0"
    }
  }
}

provider "kube" {
  ssh = {
    user        = "root"
    private_key = file("~/.ssh/id_ed25519")
    known_hosts = file("known_hosts")
  }
}
