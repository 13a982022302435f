# SPDX-License-Identifier: Apache-2.0
#
# What is for you to say. Without a default: `terraform apply -var project=... -var bucket=...`, or lines in a file terraform.tfvars.

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

variable "project" {
  description = "The project of Google Cloud"
  type        = string
}

variable "region" {
  description = "Region; take that of the bucket"
  type        = string
  default     = "us-central1"
}

variable "zone" {
  description = "Zone of the region that has the machine type"
  type        = string
  default     = "us-central1-a"
}

variable "machine_type" {
  description = "Type of the machine; g2-standard-4 has one L4. Types whose GPU must be added need a block guest_accelerator"
  type        = string
  default     = "g2-standard-4"
}

variable "image" {
  description = "Image with NVIDIA's driver and cloud-init"
  type        = string
  default     = "ubuntu-os-accelerator-images/ubuntu-accelerator-2404-amd64-with-nvidia-580"
}

variable "disk_gb" {
  description = "Size of the disk in GB: data and three checkpoints need room beside the image"
  type        = number
  default     = 100
}

variable "kms_key" {
  description = "Key that encrypts the disk, as its full name; null: a key of Google's"
  type        = string
  default     = null
}

variable "price_per_hour" {
  description = "What an hour costs, for cltrain's own account (docs/cloud.md); empty: none"
  type        = string
  default     = ""
}

variable "tags" {
  description = "Labels of the machine, in lower case, and of the run (cost.tags)"
  type        = map(string)
  default     = { Project = "ML" }
  validation {
    condition     = alltrue([for key, value in var.tags : can(regex("^[A-Za-z][A-Za-z0-9_-]*=[A-Za-z0-9_-]+$", "${key}=${value}"))])
    error_message = "Tags are made of letters, digits, dashes and underscores, and names begin with a letter: they are labels of Google, too."
  }
}
