# Cloud Run with Cloud SQL: one instance that is always there, since it watches between requests.
data "google_project" "own" {
  count      = var.where == "cloud-run" ? 1 : 0
  project_id = var.project
}

resource "google_compute_global_address" "database" {
  count         = var.where == "cloud-run" ? 1 : 0
  project       = var.project
  name          = "costguard-database"
  purpose       = "VPC_PEERING"
  address_type  = "INTERNAL"
  prefix_length = 24
  network       = google_compute_network.costguard[0].id
}

resource "google_service_networking_connection" "database" {
  count                   = var.where == "cloud-run" ? 1 : 0
  network                 = google_compute_network.costguard[0].id
  service                 = "servicenetworking.googleapis.com"
  reserved_peering_ranges = [google_compute_global_address.database[0].name]
}

resource "google_sql_database_instance" "costguard" {
  count               = var.where == "cloud-run" ? 1 : 0
  project             = var.project
  name                = "costguard"
  region              = var.region
  database_version    = "POSTGRES_17"
  deletion_protection = true
  settings {
    tier                        = var.database_tier
    edition                     = "ENTERPRISE"
    availability_type           = "ZONAL"
    disk_type                   = "PD_SSD"
    disk_size                   = 10
    disk_autoresize             = true
    deletion_protection_enabled = true
    backup_configuration {
      enabled                        = true
      point_in_time_recovery_enabled = true
      start_time                     = "03:00"
      backup_retention_settings {
        retained_backups = 14
      }
    }
    ip_configuration {
      ipv4_enabled    = false
      private_network = google_compute_network.costguard[0].id
      ssl_mode        = "ENCRYPTED_ONLY"
    }
    # Three processes keep up to 20 connections each, and an upgrade runs two instances for a moment.
    database_flags {
      name  = "max_connections"
      value = "150"
    }
    database_flags {
      name  = "log_lock_waits"
      value = "on"
    }
  }
  depends_on = [google_service_networking_connection.database]
}

resource "google_sql_database" "costguard" {
  count    = var.where == "cloud-run" ? 1 : 0
  project  = var.project
  name     = "costguard"
  instance = google_sql_database_instance.costguard[0].name
}

ephemeral "random_password" "database" {
  length  = 32
  special = false # it is part of an address
}

resource "google_sql_user" "costguard" {
  count               = var.where == "cloud-run" ? 1 : 0
  project             = var.project
  name                = "costguard"
  instance            = google_sql_database_instance.costguard[0].name
  password_wo         = ephemeral.random_password.database.result
  password_wo_version = var.password_version
}

resource "google_secret_manager_secret_version" "database_url" {
  count                  = var.where == "cloud-run" ? 1 : 0
  secret                 = google_secret_manager_secret.costguard["COSTGUARD_DATABASE_URL"].id
  secret_data_wo         = "postgresql://costguard:${ephemeral.random_password.database.result}@${google_sql_database_instance.costguard[0].private_ip_address}:5432/costguard?sslmode=require"
  secret_data_wo_version = var.password_version
}

# The settings are no secret, but Cloud Run mounts files from nowhere else.
resource "google_secret_manager_secret" "settings" {
  count     = var.where == "cloud-run" ? 1 : 0
  project   = var.project
  secret_id = "costguard-settings"
  replication {
    auto {}
  }
  depends_on = [google_project_service.own]
}

resource "google_secret_manager_secret_version" "settings" {
  count       = var.where == "cloud-run" ? 1 : 0
  secret      = google_secret_manager_secret.settings[0].id
  secret_data = module.settings.toml
}

resource "google_secret_manager_secret_iam_member" "settings" {
  count     = var.where == "cloud-run" ? 1 : 0
  project   = var.project
  secret_id = google_secret_manager_secret.settings[0].secret_id
  role      = "roles/secretmanager.secretAccessor"
  member    = local.account.member
}

resource "google_cloud_run_v2_service" "costguard" {
  count               = var.where == "cloud-run" ? 1 : 0
  project             = var.project
  name                = "costguard"
  location            = var.region
  deletion_protection = true
  ingress             = "INGRESS_TRAFFIC_ALL"
  # Either Identity-Aware Proxy decides who comes in, or Costguard's own sign-in does, which VMs of jobs need.
  iap_enabled          = var.oidc_client_id == ""
  invoker_iam_disabled = var.oidc_client_id != ""
  template {
    service_account                  = local.account.email
    execution_environment            = "EXECUTION_ENVIRONMENT_GEN2"
    timeout                          = "3600s" # of streams of events
    max_instance_request_concurrency = 200
    scaling {
      min_instance_count = 1
      max_instance_count = 1
    }
    vpc_access {
      egress = "PRIVATE_RANGES_ONLY" # to the database; Slack and Google's APIs are reached directly
      network_interfaces {
        network    = google_compute_network.costguard[0].id
        subnetwork = google_compute_subnetwork.costguard[0].id
      }
    }
    containers {
      image = var.image
      args  = ["serve"]
      ports {
        container_port = 8765
      }
      resources {
        cpu_idle          = false # always on: it watches without a request
        startup_cpu_boost = true
        limits = {
          cpu    = "1"
          memory = "1Gi"
        }
      }
      dynamic "env" {
        for_each = local.used_secrets
        content {
          name = env.key
          value_source {
            secret_key_ref {
              secret  = env.value
              version = "latest"
            }
          }
        }
      }
      # So that new settings or passwords start a new instance.
      env {
        name  = "COSTGUARD_STARTED_FOR"
        value = "${var.password_version}-${sha256(module.settings.toml)}"
      }
      volume_mounts {
        name       = "settings"
        mount_path = "/etc/costguard"
      }
      startup_probe {
        period_seconds    = 5
        timeout_seconds   = 3
        failure_threshold = 60
        http_get {
          path = "/healthz"
          port = 8765
        }
      }
      liveness_probe {
        period_seconds    = 20
        timeout_seconds   = 5
        failure_threshold = 3
        http_get {
          path = "/healthz"
          port = 8765
        }
      }
    }
    volumes {
      name = "settings"
      secret {
        secret = google_secret_manager_secret.settings[0].secret_id
        items {
          version = "latest"
          path    = "costguard.toml"
        }
      }
    }
  }
  depends_on = [
    google_secret_manager_secret_iam_member.costguard,
    google_secret_manager_secret_iam_member.settings,
    google_secret_manager_secret_version.token,
    google_secret_manager_secret_version.database_url,
    google_secret_manager_secret_version.settings,
    google_sql_database.costguard,
    google_sql_user.costguard,
  ]
}

resource "google_iap_web_cloud_run_service_iam_member" "people" {
  for_each               = var.where == "cloud-run" && var.oidc_client_id == "" ? var.people : []
  project                = var.project
  location               = var.region
  cloud_run_service_name = google_cloud_run_v2_service.costguard[0].name
  role                   = "roles/iap.httpsResourceAccessor"
  member                 = each.value
}

resource "google_cloud_run_v2_service_iam_member" "iap" {
  count    = var.where == "cloud-run" && var.oidc_client_id == "" ? 1 : 0
  project  = var.project
  location = var.region
  name     = google_cloud_run_v2_service.costguard[0].name
  role     = "roles/run.invoker"
  member   = "serviceAccount:service-${data.google_project.own[0].number}@gcp-sa-iap.iam.gserviceaccount.com"
}
