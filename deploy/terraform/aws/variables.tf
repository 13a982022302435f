# SPDX-License-Identifier: Apache-2.0
#
# What is for you to say. Without a default: `terraform apply -var bucket=...`, or lines in a file terraform.tfvars.

variable "bucket" {
  description = "Name of a bucket that exists"
  type        = string
}

variable "prefix" {
  description = "Folder of the bucket that belongs to this training, without a slash at the end"
  type        = string
  default     = "cltrain/first"
}

variable "config" {
  description = "The config, as a path inside of cltrain.tar.gz"
  type        = string
  default     = "configs/mlp-regression.json"
}

variable "options" {
  description = "More for the command line of cltrain: section.key=value, separated by blanks"
  type        = string
  default     = "checkpoint.minutes=5"
}

variable "region" {
  description = "Region of AWS; take that of the bucket"
  type        = string
  default     = "us-east-1"
}

variable "machine_type" {
  description = "Type of the machine; g6.xlarge has one L4"
  type        = string
  default     = "g6.xlarge"
}

variable "image" {
  description = "AMI with NVIDIA's driver; empty: the newest Deep Learning Base AMI with Ubuntu 24.04"
  type        = string
  default     = ""
}

variable "disk_gb" {
  description = "Size of the disk in GB, not less than the image's: data and three checkpoints need room beside it"
  type        = number
  default     = 120
}

variable "max_price" {
  description = "The most that an hour may cost, in USD, such as 0.60; null: the price on demand"
  type        = string
  default     = null
}

variable "price_per_hour" {
  description = "What an hour costs, for cltrain's own account (docs/cloud.md); empty: none"
  type        = string
  default     = ""
}

variable "tags" {
  description = "Tags of everything that is made, and labels of the run (cost.tags)"
  type        = map(string)
  default     = { Project = "ML" }
  validation {
    condition     = alltrue([for key, value in var.tags : can(regex("^[A-Za-z0-9_.-]+=[A-Za-z0-9_.-]+$", "${key}=${value}"))])
    error_message = "Tags are made of letters, digits, dots, dashes and underscores: they are words of a command line, too."
  }
}
