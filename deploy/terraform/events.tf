# The audit entries of all VMs below the organisation or its folders, in a topic whose subscription Costguard pulls. It is
# what `costguard google-feed` prints as commands; a test compares the filters.
locals {
  has_events  = var.organization != "" && var.events
  sink_filter = <<-EOT
    protoPayload.serviceName="compute.googleapis.com" AND (log_id("cloudaudit.googleapis.com/activity") OR log_id("cloudaudit.googleapis.com/system_event")) AND protoPayload.methodName=~"compute\.(instances|regionInstances)\."
  EOT
  writers = merge(
    { for name, sink in google_logging_organization_sink.events : "organization" => sink.writer_identity },
    { for number, sink in google_logging_folder_sink.events : number => sink.writer_identity },
  )
}

resource "google_pubsub_topic" "events" {
  count      = local.has_events ? 1 : 0
  project    = var.project
  name       = "costguard-events"
  depends_on = [google_project_service.own]
}

# Never intercept_children: it would take the entries away from the sinks of folders and projects below.
resource "google_logging_organization_sink" "events" {
  count            = local.has_events && length(var.folders) == 0 ? 1 : 0
  org_id           = var.organization
  name             = "costguard-events"
  description      = "What happens to VMs, for Costguard."
  destination      = "pubsub.googleapis.com/${google_pubsub_topic.events[0].id}"
  include_children = true
  filter           = trimspace(local.sink_filter)
}

resource "google_logging_folder_sink" "events" {
  for_each         = local.has_events ? var.folders : []
  folder           = each.value
  name             = "costguard-events"
  description      = "What happens to VMs, for Costguard."
  destination      = "pubsub.googleapis.com/${google_pubsub_topic.events[0].id}"
  include_children = true
  filter           = trimspace(local.sink_filter)
}

# Each sink writes in a name of its own, which Google makes with it.
resource "google_pubsub_topic_iam_member" "sink" {
  for_each = local.writers
  project  = var.project
  topic    = google_pubsub_topic.events[0].name
  role     = "roles/pubsub.publisher"
  member   = each.value
}

# Costguard publishes a heartbeat, which shows that events flow.
resource "google_pubsub_topic_iam_member" "costguard" {
  count   = local.has_events ? 1 : 0
  project = var.project
  topic   = google_pubsub_topic.events[0].name
  role    = "roles/pubsub.publisher"
  member  = local.account.member
}

resource "google_pubsub_subscription" "events" {
  count                      = local.has_events ? 1 : 0
  project                    = var.project
  name                       = "costguard-events"
  topic                      = google_pubsub_topic.events[0].id
  ack_deadline_seconds       = 60
  message_retention_duration = "604800s" # 7 days
  expiration_policy {
    ttl = "" # never
  }
}

# To pull, and to read which topic it is of.
resource "google_pubsub_subscription_iam_member" "costguard" {
  for_each     = local.has_events ? toset(["roles/pubsub.subscriber", "roles/pubsub.viewer"]) : []
  project      = var.project
  subscription = google_pubsub_subscription.events[0].name
  role         = each.value
  member       = local.account.member
}
