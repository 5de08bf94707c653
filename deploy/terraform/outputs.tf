module "settings" {
  source         = "./settings"
  projects       = var.projects
  organization   = var.organization
  folders        = var.folders
  subscription   = local.has_events ? "projects/${var.project}/subscriptions/costguard-events" : ""
  where          = var.where
  stop_through   = var.stop_through
  guard_url      = var.guard_url != "" ? var.guard_url : var.launch ? local.run_url : ""
  code           = var.launch && var.code_bucket != "" ? "gs://${var.code_bucket}/code" : ""
  viewers        = var.viewers
  operators      = var.operators
  admins         = var.admins
  owner_domain   = var.owner_domain
  slack_channel  = var.slack_channel
  oidc_client_id = var.oidc_client_id
  url            = var.where == "cloud-run" ? local.run_url : var.where == "vm" ? "http://localhost:8765" : ""
  iap_audience   = var.where == "cloud-run" && var.oidc_client_id == "" ? "/projects/${data.google_project.own[0].number}/locations/${var.region}/services/costguard" : ""
}

locals {
  # Cloud Run gives each service this address, which is known before the service is there.
  run_url = var.where == "cloud-run" ? "https://costguard-${data.google_project.own[0].number}.${var.region}.run.app" : ""
}

output "settings" {
  description = "The settings file, costguard.toml, as the VM or Cloud Run has it."
  value       = module.settings.toml
}

output "account" {
  description = "The service account that Costguard runs as."
  value       = local.account.email
}

output "granted" {
  description = "What that account may do in the watched projects, by role."
  value       = { for name, role in local.roles : name => role.permissions }
}

output "pages" {
  description = "How people reach the pages."
  value = {
    vm        = "gcloud compute start-iap-tunnel costguard 8765 --local-host-port=localhost:8765 --zone ${var.zone} --project ${var.project}"
    cloud-run = local.run_url
    elsewhere = "see service/docs/operate.md"
  }[var.where]
}
