# SPDX-License-Identifier: Apache-2.0

output "machine" {
  description = "The machine; gcloud compute instances get-serial-port-output shows its last words"
  value       = google_compute_instance.machine.name
}

output "results" {
  description = "Where the run folder is, as of the newest checkpoint"
  value       = "gs://${var.bucket}/${var.prefix}/results/run"
}
