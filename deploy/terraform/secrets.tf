# Secrets: the values are never in the state. What is made here is written once; what you have, such as Slack's tokens, you
# add as a version: gcloud secrets versions add costguard-slack-token --data-file=-
locals {
  secrets = var.where == "elsewhere" ? {} : merge(
    { COSTGUARD_TOKEN = "costguard-token" },
    {
      COSTGUARD_SLACK_TOKEN     = "costguard-slack-token"
      COSTGUARD_SLACK_APP_TOKEN = "costguard-slack-app-token"
    },
    var.oidc_client_id != "" ? { COSTGUARD_OIDC_CLIENT_SECRET = "costguard-oidc-client-secret" } : {},
    var.where == "cloud-run" ? { COSTGUARD_DATABASE_URL = "costguard-database-url" } : {},
  )
  # Cloud Run refuses to start with a secret that has no version.
  used_secrets = {
    for variable, secret in local.secrets : variable => secret if var.slack_channel != "" || !startswith(variable, "COSTGUARD_SLACK_")
  }
}

resource "google_secret_manager_secret" "costguard" {
  for_each  = local.secrets
  project   = var.project
  secret_id = each.value
  replication {
    auto {}
  }
  depends_on = [google_project_service.own]
}

resource "google_secret_manager_secret_iam_member" "costguard" {
  for_each  = local.secrets
  project   = var.project
  secret_id = google_secret_manager_secret.costguard[each.key].secret_id
  role      = "roles/secretmanager.secretAccessor"
  member    = local.account.member
}

ephemeral "random_password" "token" {
  length  = 43
  special = false
}

resource "google_secret_manager_secret_version" "token" {
  count                  = var.where == "elsewhere" ? 0 : 1
  secret                 = google_secret_manager_secret.costguard["COSTGUARD_TOKEN"].id
  secret_data_wo         = ephemeral.random_password.token.result
  secret_data_wo_version = var.password_version
}
