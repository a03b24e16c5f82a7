module github.com/kubequorum/terraform-provider-kube/tools/terraform/backends/none

go 1.26.0

require github.com/hashicorp/terraform v1.14.8
