variable "project" {
  description = "The project in which Costguard runs, with its accounts and secrets. It need not be watched."
  type        = string
}

variable "projects" {
  description = "The ids of the projects to watch. With organization it may be empty: its projects are found."
  type        = set(string)
  validation {
    condition     = length(var.projects) > 0 || var.organization != ""
    error_message = "Name at least one project, or an organization."
  }
}

variable "where" {
  description = "Where Costguard runs: \"vm\" (one small VM, SQLite), \"cloud-run\" (Cloud Run, PostgreSQL), or \"elsewhere\" (accounts and roles alone)."
  type        = string
  default     = "vm"
  validation {
    condition     = contains(["vm", "cloud-run", "elsewhere"], var.where)
    error_message = "Expected vm, cloud-run or elsewhere."
  }
}

variable "region" {
  description = "The region of everything that is made."
  type        = string
  default     = "us-central1"
}

variable "zone" {
  description = "The zone of the VM, in that region."
  type        = string
  default     = "us-central1-a"
}

variable "stop" {
  description = "Whether people and rules may stop VMs. Rules stop nothing while enforcement.shadow is true."
  type        = bool
  default     = false
}

variable "stop_through" {
  description = "Keepers through whose own APIs VMs may be stopped: \"group\", \"vertex\", \"workbench\", \"workstation\". Needs stop."
  type        = set(string)
  default     = []
  validation {
    condition     = length(setsubtract(var.stop_through, ["group", "vertex", "workbench", "workstation"])) == 0
    error_message = "Expected group, vertex, workbench or workstation."
  }
  validation {
    condition     = var.stop || length(var.stop_through) == 0
    error_message = "stop_through needs stop = true."
  }
}

variable "launch" {
  description = "Whether Costguard may run jobs: it creates, starts, stops and deletes VMs. It could delete any VM of the watched projects."
  type        = bool
  default     = false
  validation {
    condition     = !var.launch || var.guard_url != "" || (var.where == "cloud-run" && var.oidc_client_id != "")
    error_message = "Jobs need guard_url, an https address at which VMs reach Costguard. Cloud Run has one with oidc_client_id; Identity-Aware Proxy would refuse the VMs."
  }
}

variable "vm_accounts" {
  description = "The service accounts that VMs of jobs run as. Costguard may act as these and no others."
  type        = set(string)
  default     = []
}

variable "guard_url" {
  description = "The https address at which VMs of jobs reach Costguard, such as that of your load balancer."
  type        = string
  default     = ""
}

variable "code_bucket" {
  description = "A bucket for the code of jobs. Empty: with PostgreSQL no job has code."
  type        = string
  default     = ""
}

variable "package" {
  description = "What pip installs on the VM, pinned: a wheel's address with #sha256=..., or git+https://HOST/PATH@COMMIT."
  type        = string
  default     = ""
  validation {
    condition     = var.where != "vm" || can(regex("#sha256=[0-9a-f]{64}$|@[0-9a-f]{40}$", var.package))
    error_message = "A VM needs package, which ends with #sha256= and the digest, or with @ and the full commit."
  }
}

variable "image" {
  description = "The container image of Cloud Run, named by its digest: HOST/PATH@sha256:..."
  type        = string
  default     = ""
  validation {
    condition     = var.where != "cloud-run" || can(regex("@sha256:[0-9a-f]{64}$", var.image))
    error_message = "Cloud Run needs image, which ends with @sha256: and the digest."
  }
}

variable "machine_type" {
  description = "The machine type of the VM."
  type        = string
  default     = "e2-small"
}

variable "database_tier" {
  description = "The machine type of Cloud SQL."
  type        = string
  default     = "db-g1-small"
}

variable "password_version" {
  description = "Raise it to make a new database password and a new master token. Neither is in the state."
  type        = number
  default     = 1
}

variable "people" {
  description = "Who may reach the pages through Identity-Aware Proxy, such as [\"group:ml@example.com\"]. What they may do there is in viewers, operators and admins."
  type        = set(string)
  default     = []
}

variable "ssh" {
  description = "Whether people may also reach the VM by SSH through Identity-Aware Proxy, for `costguard sign-in`. They need a role of OS Login for it."
  type        = bool
  default     = true
}

variable "viewers" {
  description = "Addresses, or \"@example.com\" for a domain, that may see everything."
  type        = list(string)
  default     = []
}

variable "operators" {
  description = "Addresses that may launch jobs and act on VMs of their own."
  type        = list(string)
  default     = []
}

variable "admins" {
  description = "Addresses that may do everything."
  type        = list(string)
  default     = []
}

variable "owner_domain" {
  description = "The domain that completes a label: with owner=ana, ana@example.com. Empty: labels are not completed."
  type        = string
  default     = ""
}

variable "slack_channel" {
  description = "The Slack channel, such as \"#gpu-costs\". Set it once the secrets of Slack have versions. Empty: no Slack."
  type        = string
  default     = ""
}

variable "oidc_client_id" {
  description = "A client id of Google sign-in, for people to sign in with at Costguard itself. Its secret must have a version. Empty: Identity-Aware Proxy on Cloud Run, the master token on the VM."
  type        = string
  default     = ""
}

variable "workload_identity" {
  description = "The Kubernetes account that acts as Costguard's, such as \"PROJECT.svc.id.goog[costguard/costguard]\". Empty: none."
  type        = string
  default     = ""
}

variable "organization" {
  description = "The number of an organisation whose projects are found and watched. Empty: those of projects alone."
  type        = string
  default     = ""
  validation {
    condition     = can(regex("^[0-9]*$", var.organization))
    error_message = "Expected organization as a number, such as 123456789012: `gcloud organizations list` shows it."
  }
}

variable "folders" {
  description = "The numbers of folders of the organisation, to which searches, roles and events are limited. Empty: all of it."
  type        = set(string)
  default     = []
  validation {
    condition     = alltrue([for number in var.folders : can(regex("^[0-9]+$", number))])
    error_message = "Expected the numbers of folders: `gcloud resource-manager folders list --organization NUMBER` shows them."
  }
  validation {
    condition     = length(var.folders) == 0 || var.organization != ""
    error_message = "folders need organization, in which their roles are made."
  }
}

variable "events" {
  description = "Whether the organisation's events of VMs reach Costguard: a sink copies its audit entries to a topic. Needs organization."
  type        = bool
  default     = false
  validation {
    condition     = !var.events || var.organization != ""
    error_message = "events need organization."
  }
}
