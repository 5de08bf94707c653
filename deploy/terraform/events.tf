# The audit entries of all VMs of an organisation, in a topic, for a guard that reads them. Costguard does not read them yet.
resource "google_pubsub_topic" "events" {
  count      = var.organization != "" ? 1 : 0
  project    = var.project
  name       = "costguard-vm-events"
  depends_on = [google_project_service.own]
}

resource "google_logging_organization_sink" "events" {
  count            = var.organization != "" ? 1 : 0
  org_id           = var.organization
  name             = "costguard-vm-events"
  description      = "What happens to VMs, for Costguard."
  destination      = "pubsub.googleapis.com/${google_pubsub_topic.events[0].id}"
  include_children = true
  # Never intercept_children: it would take the entries away from the sinks of folders and projects below.
  filter = <<-EOT
    resource.type="gce_instance"
    (log_id("cloudaudit.googleapis.com/activity") OR log_id("cloudaudit.googleapis.com/system_event"))
    (protoPayload.methodName:"compute.instances." OR protoPayload.methodName:"compute.regionInstances.")
  EOT
}

resource "google_pubsub_topic_iam_member" "sink" {
  count   = var.organization != "" ? 1 : 0
  project = var.project
  topic   = google_pubsub_topic.events[0].name
  role    = "roles/pubsub.publisher"
  member  = google_logging_organization_sink.events[0].writer_identity
}

resource "google_pubsub_subscription" "events" {
  count                      = var.organization != "" ? 1 : 0
  project                    = var.project
  name                       = "costguard-vm-events"
  topic                      = google_pubsub_topic.events[0].id
  ack_deadline_seconds       = 60
  message_retention_duration = "604800s" # 7 days, the default
  expiration_policy {
    ttl = "" # never
  }
}

resource "google_pubsub_subscription_iam_member" "costguard" {
  count        = var.organization != "" ? 1 : 0
  project      = var.project
  subscription = google_pubsub_subscription.events[0].name
  role         = "roles/pubsub.subscriber"
  member       = local.account.member
}
