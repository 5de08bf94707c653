# One small VM with SQLite on a disk of its own, which outlives it.
resource "google_compute_disk" "data" {
  count   = var.where == "vm" ? 1 : 0
  project = var.project
  name    = "costguard-data"
  zone    = var.zone
  type    = "pd-balanced"
  size    = 10
  lifecycle {
    prevent_destroy = true
  }
  depends_on = [google_project_service.own]
}

resource "google_compute_resource_policy" "snapshots" {
  count   = var.where == "vm" ? 1 : 0
  project = var.project
  name    = "costguard-snapshots"
  region  = var.region
  snapshot_schedule_policy {
    schedule {
      daily_schedule {
        days_in_cycle = 1
        start_time    = "03:00"
      }
    }
    retention_policy {
      max_retention_days    = 14
      on_source_disk_delete = "KEEP_AUTO_SNAPSHOTS"
    }
  }
  depends_on = [google_project_service.own]
}

resource "google_compute_disk_resource_policy_attachment" "snapshots" {
  count   = var.where == "vm" ? 1 : 0
  project = var.project
  name    = google_compute_resource_policy.snapshots[0].name
  disk    = google_compute_disk.data[0].name
  zone    = var.zone
}

resource "google_compute_instance" "costguard" {
  count                     = var.where == "vm" ? 1 : 0
  project                   = var.project
  name                      = "costguard"
  zone                      = var.zone
  machine_type              = var.machine_type
  description               = "Costguard: watches GPU VMs."
  allow_stopping_for_update = true
  boot_disk {
    initialize_params {
      image = "projects/debian-cloud/global/images/family/debian-12" # with Python 3.11
      type  = "pd-balanced"
      size  = 10
    }
  }
  attached_disk {
    source      = google_compute_disk.data[0].id
    device_name = "costguard-data"
  }
  network_interface {
    subnetwork = google_compute_subnetwork.costguard[0].id
  }
  service_account {
    email  = local.account.email
    scopes = ["https://www.googleapis.com/auth/cloud-platform"] # what it may do is in its roles
  }
  shielded_instance_config {
    enable_secure_boot          = true
    enable_vtpm                 = true
    enable_integrity_monitoring = true
  }
  metadata = {
    enable-oslogin         = "TRUE"
    block-project-ssh-keys = "TRUE"
    serial-port-enable     = "FALSE"
    startup-script         = file("${path.module}/startup.sh")
    costguard-package      = var.package
    costguard-requirements = file("${path.module}/../../requirements.txt")
    costguard-settings     = module.settings.toml
    costguard-unit         = file("${path.module}/../costguard.service")
    costguard-secrets      = join("\n", [for variable, secret in local.used_secrets : "${variable} projects/${var.project}/secrets/${secret}"])
  }
  depends_on = [
    google_compute_router_nat.costguard,
    google_secret_manager_secret_iam_member.costguard,
    google_secret_manager_secret_version.token,
  ]
}

resource "google_iap_tunnel_instance_iam_member" "people" {
  for_each = var.where == "vm" ? var.people : []
  project  = var.project
  zone     = var.zone
  instance = google_compute_instance.costguard[0].name
  role     = "roles/iap.tunnelResourceAccessor"
  member   = each.value
}
