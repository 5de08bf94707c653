# Accounts and roles. A role's permissions are in deploy/iam-role*.yaml and nowhere else: a test compares those files with
# Costguard's own list, and that list with the calls that it makes.
locals {
  keepers = {
    group       = "compute."
    vertex      = "aiplatform."
    workbench   = "notebooks."
    workstation = "workstations."
  }
  files = {
    costguard          = "iam-role.yaml"
    costguardStop      = "iam-role-stop.yaml"
    costguardStopKept  = "iam-role-stop-kept.yaml"
    costguardLaunch    = "iam-role-launch.yaml"
    costguardDiscovery = "iam-role-discovery.yaml"
  }
  is_on = {
    costguard          = true
    costguardStop      = var.stop
    costguardStopKept  = length(var.stop_through) > 0
    costguardLaunch    = var.launch
    costguardDiscovery = var.organization != ""
  }
  read_files = { for name, file in local.files : name => yamldecode(file("${path.module}/../${file}")) }
  roles = {
    for name, role in local.read_files : name => {
      title       = role.title
      description = role.description
      # Of the keepers' permissions only those of the keepers that stop_through names.
      permissions = name != "costguardStopKept" ? role.includedPermissions : [
        for permission in role.includedPermissions : permission
        if anytrue([for keeper in var.stop_through : startswith(permission, local.keepers[keeper])])
      ]
    } if local.is_on[name]
  }
  # Searches are granted in the organisation or its folders alone. What found projects need is granted there as well.
  roles_of_projects = { for name, role in local.roles : name => role if name != "costguardDiscovery" }
  in_organization   = var.organization != "" ? local.roles : {}
  in_folders = {
    for pair in setproduct(var.folders, keys(local.in_organization)) : "${pair[0]}/${pair[1]}" => { folder = pair[0], role = pair[1] }
  }
  in_projects = {
    for pair in setproduct(var.projects, keys(local.roles_of_projects)) : "${pair[0]}/${pair[1]}" => { project = pair[0], role = pair[1] }
  }
  # One account for each stage of trust: turning stops off again goes back to an account that cannot stop.
  stage = var.launch ? "launch" : var.stop ? "stop" : "watch"
  accounts = {
    for name, text in {
      watch  = "Costguard: reads"
      stop   = "Costguard: reads, and stops VMs"
      launch = "Costguard: reads, and runs jobs"
    } : name => text if name == "watch" || name == local.stage
  }
  account = google_service_account.costguard[local.stage]
  # Google names a permission after its service: compute.disks.list is of compute.googleapis.com.
  watched_apis = distinct([
    for permission in flatten([for role in local.roles_of_projects : role.permissions]) : "${split(".", permission)[0]}.googleapis.com"
  ])
  own_apis = concat(
    ["cloudbilling.googleapis.com", "cloudresourcemanager.googleapis.com", "iam.googleapis.com"],
    var.where != "elsewhere" ? ["secretmanager.googleapis.com"] : [],
    var.where == "vm" ? ["compute.googleapis.com", "iap.googleapis.com"] : [],
    var.where == "cloud-run" ? ["compute.googleapis.com", "iap.googleapis.com", "run.googleapis.com", "sqladmin.googleapis.com", "servicenetworking.googleapis.com"] : [],
    var.organization != "" ? ["cloudasset.googleapis.com"] : [],
    local.has_events ? ["logging.googleapis.com", "pubsub.googleapis.com"] : [],
  )
}

resource "google_project_service" "watched" {
  for_each = {
    for pair in setproduct(var.projects, local.watched_apis) : "${pair[0]}/${pair[1]}" => { project = pair[0], api = pair[1] }
  }
  project            = each.value.project
  service            = each.value.api
  disable_on_destroy = false
}

resource "google_project_service" "own" {
  for_each           = toset(local.own_apis)
  project            = var.project
  service            = each.value
  disable_on_destroy = false
}

resource "google_service_account" "costguard" {
  for_each     = local.accounts
  project      = var.project
  account_id   = "costguard-${each.key}"
  display_name = each.value
  depends_on   = [google_project_service.own]
}

resource "google_project_iam_custom_role" "costguard" {
  for_each    = local.in_projects
  project     = each.value.project
  role_id     = each.value.role
  title       = local.roles[each.value.role].title
  description = local.roles[each.value.role].description
  permissions = local.roles[each.value.role].permissions
  stage       = "GA"
  depends_on  = [google_project_service.own]
}

resource "google_project_iam_member" "costguard" {
  for_each = local.in_projects
  project  = each.value.project
  role     = google_project_iam_custom_role.costguard[each.key].name
  member   = local.account.member
}

resource "google_organization_iam_custom_role" "costguard" {
  for_each    = local.in_organization
  org_id      = var.organization
  role_id     = each.key
  title       = each.value.title
  description = each.value.description
  permissions = each.value.permissions
  stage       = "GA"
  depends_on  = [google_project_service.own]
}

resource "google_organization_iam_member" "costguard" {
  for_each = length(var.folders) == 0 ? local.in_organization : {}
  org_id   = var.organization
  role     = google_organization_iam_custom_role.costguard[each.key].name
  member   = local.account.member
}

resource "google_folder_iam_member" "costguard" {
  for_each = local.in_folders
  folder   = "folders/${each.value.folder}"
  role     = google_organization_iam_custom_role.costguard[each.value.role].name
  member   = local.account.member
}

resource "google_service_account_iam_member" "act_as" {
  for_each           = var.launch ? var.vm_accounts : []
  service_account_id = "projects/${split(".", split("@", each.value)[1])[0]}/serviceAccounts/${each.value}"
  role               = "roles/iam.serviceAccountUser"
  member             = local.account.member
}

resource "google_storage_bucket_iam_member" "code" {
  count  = var.launch && var.code_bucket != "" ? 1 : 0
  bucket = var.code_bucket
  role   = "roles/storage.objectUser"
  member = local.account.member
}

resource "google_service_account_iam_member" "workload_identity" {
  count              = var.workload_identity != "" ? 1 : 0
  service_account_id = local.account.name
  role               = "roles/iam.workloadIdentityUser"
  member             = "serviceAccount:${var.workload_identity}"
}
