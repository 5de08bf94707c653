variable "projects" {
  description = "The ids of the projects to watch."
  type        = set(string)
}

variable "organization" {
  description = "The number of the organisation whose projects are found, or empty."
  type        = string
  default     = ""
}

variable "folders" {
  description = "The numbers of the folders whose projects are found in place of the organisation's."
  type        = set(string)
  default     = []
}

variable "subscription" {
  description = "The full name of the subscription of events, or empty."
  type        = string
  default     = ""
}

variable "where" {
  description = "Where Costguard runs: vm, cloud-run or elsewhere."
  type        = string
}

variable "stop_through" {
  description = "Keepers through whose own APIs VMs may be stopped."
  type        = set(string)
  default     = []
}

variable "guard_url" {
  description = "The https address at which VMs of jobs reach Costguard, or empty."
  type        = string
  default     = ""
}

variable "code" {
  description = "Where the code of jobs is kept, or empty."
  type        = string
  default     = ""
}

variable "viewers" {
  description = "Addresses or domains that may see everything."
  type        = list(string)
  default     = []
}

variable "operators" {
  description = "Addresses or domains that may launch jobs and act on VMs of their own."
  type        = list(string)
  default     = []
}

variable "admins" {
  description = "Addresses or domains that may do everything."
  type        = list(string)
  default     = []
}

variable "owner_domain" {
  description = "The domain that completes owners' labels, or empty."
  type        = string
  default     = ""
}

variable "slack_channel" {
  description = "The Slack channel, or empty for no Slack."
  type        = string
  default     = ""
}

variable "oidc_client_id" {
  description = "A client id of Google sign-in, or empty."
  type        = string
  default     = ""
}

variable "url" {
  description = "The address of the pages as people reach them, or empty."
  type        = string
  default     = ""
}

variable "iap_audience" {
  description = "The audience of Identity-Aware Proxy, or empty where Costguard does not run behind it."
  type        = string
  default     = ""
}
