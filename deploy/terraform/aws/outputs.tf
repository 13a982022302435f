# SPDX-License-Identifier: Apache-2.0

output "machine" {
  description = "The machine; aws ec2 get-console-output --latest --instance-id shows its last words"
  value       = aws_instance.machine.id
}

output "results" {
  description = "Where the run folder is, as of the newest checkpoint"
  value       = "s3://${var.bucket}/${var.prefix}/results/run"
}
