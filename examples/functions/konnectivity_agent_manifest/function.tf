# kubectl apply -f - <<< "$(terraform output -raw konnectivity_agents)"
output "konnectivity_agents" {
  value = provider::kube::konnectivity_agent_manifest("10.0.0.100", 8132, var.agent_image)
}

variable "agent_image" {
  description = "Container image of konnectivity's proxy-agent."
  type        = string
}
