# SPDX-License-Identifier: Apache-2.0
#
# One spot machine of Google that trains by itself (deploy/cloud-init.yaml) and may read and write one prefix of one bucket, nothing else.
# It has no public address, and nobody can log in. It switches itself off when the training has ended; its disk costs until `terraform
# destroy`. When Google takes it away before that, it is deleted, and the same `terraform apply` makes another one, which goes on.
# docs/deploy.md has the way from nothing.
terraform {
  required_version = ">= 1.5"
  required_providers {
    google = {
      source  = "hashicorp/google"
      version = ">= 6.0, < 8.0"
    }
  }
}

provider "google" {
  project = var.project
  region  = var.region
  zone    = var.zone
}

# --- what the machine may do ---

resource "google_service_account" "machine" {
  account_id   = "cltrain-machine"
  display_name = "Reads and writes one prefix of one bucket"
}

# Replacing an object needs the right to delete it, which objectUser has besides reading and writing.
resource "google_storage_bucket_iam_member" "store" {
  bucket = var.bucket
  role   = "roles/storage.objectUser"
  member = "serviceAccount:${google_service_account.machine.email}"
  condition {
    title = "one prefix"
    expression = join(" || ", [
      "resource.name.startsWith('projects/_/buckets/${var.bucket}/objects/${var.prefix}/')",
      "api.getAttribute('storage.googleapis.com/objectListPrefix', '').startsWith('${var.prefix}/')",
    ])
  }
}

# --- its network: no rule lets anything in, and it reaches Google's services without a public address ---

resource "google_compute_network" "machine" {
  name                    = "cltrain"
  auto_create_subnetworks = false
}

resource "google_compute_subnetwork" "machine" {
  name                     = "cltrain"
  network                  = google_compute_network.machine.id
  ip_cidr_range            = "10.77.0.0/24"
  private_ip_google_access = true
}

# --- the machine ---

resource "google_compute_instance" "machine" {
  name         = "cltrain"
  machine_type = var.machine_type
  labels       = { for key, value in var.tags : lower(key) => lower(value) }

  scheduling {
    provisioning_model          = "SPOT"
    preemptible                 = true
    automatic_restart           = false
    on_host_maintenance         = "TERMINATE"
    instance_termination_action = "DELETE"
  }

  # Google encrypts every disk; with kms_key by a key of yours.
  boot_disk {
    kms_key_self_link = var.kms_key
    initialize_params {
      image = var.image
      size  = var.disk_gb
      type  = "pd-balanced"
    }
  }

  network_interface {
    subnetwork = google_compute_subnetwork.machine.id
  }

  service_account {
    email  = google_service_account.machine.email
    scopes = ["https://www.googleapis.com/auth/devstorage.read_write"]
  }

  metadata = {
    block-project-ssh-keys = "TRUE"
    serial-port-enable     = "FALSE"
    user-data = templatefile("${path.module}/../../cloud-init.yaml", {
      store          = "gs://${var.bucket}/${var.prefix}"
      config         = var.config
      options        = "cost.tags=${jsonencode([for key, value in var.tags : "${key}=${value}"])} ${var.options}"
      price_per_hour = var.price_per_hour
    })
  }

  lifecycle {
    ignore_changes = [boot_disk[0].initialize_params[0].image] # a newer image does not end a training
  }
  depends_on = [google_storage_bucket_iam_member.store]
}
