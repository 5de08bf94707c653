# The settings file. It is a module of its own, without a provider, so that it can be made and checked without an account.
terraform {
  required_version = ">= 1.11"
}

locals {
  has_slack     = var.slack_channel != ""
  has_client_id = var.oidc_client_id != ""
  has_sign_in   = local.has_client_id || var.iap_audience != ""
  # Keys that are empty or null are left out.
  sections = {
    watch = {
      projects     = length(var.projects) > 0 ? sort(tolist(var.projects)) : null
      organization = length(var.folders) == 0 ? var.organization : ""
      folders      = length(var.folders) > 0 ? sort(tolist(var.folders)) : null
    }
    feed   = { subscription = var.subscription }
    server = { listen = var.where == "elsewhere" ? "" : "0.0.0.0:8765" }
    jobs   = { guard_url = var.guard_url, code = var.code }
    owners = { domain = var.owner_domain }
    slack = {
      channel     = var.slack_channel
      socket_mode = local.has_slack ? true : null
      url         = local.has_slack ? var.url : ""
    }
    # Rules stop nothing until you change this; what they would have stopped is recorded.
    enforcement = { shadow = true, stop_through = sort(tolist(var.stop_through)) }
    access      = { viewers = var.viewers, operators = var.operators, admins = var.admins }
    sign_in = {
      url            = local.has_sign_in ? var.url : ""
      iap_audience   = local.has_client_id ? "" : var.iap_audience
      oidc_issuer    = local.has_client_id ? "https://accounts.google.com" : ""
      oidc_client_id = var.oidc_client_id
    }
    log = { format = var.where == "cloud-run" ? "json" : "console" }
  }
  # A string, a list of strings or a boolean of JSON is one of TOML, too.
  written = {
    for section, keys in local.sections : section => [
      for key, value in keys : "${key} = ${jsonencode(value)}" if !contains(["\"\"", "null"], jsonencode(value))
    ]
  }
}

output "toml" {
  description = "The text of costguard.toml. It holds no secret."
  value = join("\n", concat(
    ["# Written by deploy/terraform. `costguard config init` prints all keys; `costguard config check` checks the file."],
    flatten([
      for section in ["watch", "feed", "server", "jobs", "owners", "slack", "enforcement", "access", "sign_in", "log"] :
      length(local.written[section]) > 0 ? concat(["", "[${section}]"], local.written[section]) : []
    ]),
    [""],
  ))
}
