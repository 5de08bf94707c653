# A network of its own, which nothing from the internet can enter.
resource "google_compute_network" "costguard" {
  count                   = var.where == "elsewhere" ? 0 : 1
  project                 = var.project
  name                    = "costguard"
  auto_create_subnetworks = false
  depends_on              = [google_project_service.own]
}

resource "google_compute_subnetwork" "costguard" {
  count                    = var.where == "elsewhere" ? 0 : 1
  project                  = var.project
  name                     = "costguard"
  region                   = var.region
  network                  = google_compute_network.costguard[0].id
  ip_cidr_range            = "10.90.0.0/26" # the smallest that Cloud Run accepts
  private_ip_google_access = true
}

# The VM has no external address: it reaches Slack and pip's index through NAT, and Google's APIs directly.
resource "google_compute_router" "costguard" {
  count   = var.where == "vm" ? 1 : 0
  project = var.project
  name    = "costguard"
  region  = var.region
  network = google_compute_network.costguard[0].id
}

resource "google_compute_router_nat" "costguard" {
  count                              = var.where == "vm" ? 1 : 0
  project                            = var.project
  name                               = "costguard"
  region                             = var.region
  router                             = google_compute_router.costguard[0].name
  nat_ip_allocate_option             = "AUTO_ONLY"
  source_subnetwork_ip_ranges_to_nat = "LIST_OF_SUBNETWORKS"
  subnetwork {
    name                    = google_compute_subnetwork.costguard[0].id
    source_ip_ranges_to_nat = ["PRIMARY_IP_RANGE"]
  }
  log_config {
    enable = true
    filter = "ERRORS_ONLY"
  }
}

# Everything else is refused: a network without rules lets nothing in.
resource "google_compute_firewall" "iap" {
  count                   = var.where == "vm" ? 1 : 0
  project                 = var.project
  name                    = "costguard-iap"
  description             = "Identity-Aware Proxy's TCP forwarding reaches the pages, and SSH where it is wanted."
  network                 = google_compute_network.costguard[0].id
  direction               = "INGRESS"
  source_ranges           = ["35.235.240.0/20"] # of Identity-Aware Proxy alone
  target_service_accounts = [local.account.email]
  allow {
    protocol = "tcp"
    ports    = concat(["8765"], var.ssh ? ["22"] : [])
  }
  log_config {
    metadata = "INCLUDE_ALL_METADATA"
  }
}
