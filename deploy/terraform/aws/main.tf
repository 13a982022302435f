# SPDX-License-Identifier: Apache-2.0
#
# One spot machine of AWS that trains by itself (deploy/cloud-init.yaml) and may read and write one prefix of one bucket, nothing else.
# Nobody can log in, and nothing reaches it from outside. It ends itself when the training has ended. When AWS takes it away before that,
# the same `terraform apply` makes another one, which goes on. docs/deploy.md has the way from nothing.
terraform {
  required_version = ">= 1.5"
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = "~> 6.0"
    }
  }
}

provider "aws" {
  region = var.region
  default_tags {
    tags = var.tags
  }
}

# The newest image of AWS that has NVIDIA's driver, unless var.image names one.
data "aws_ssm_parameter" "image" {
  name = "/aws/service/deeplearning/ami/x86_64/base-oss-nvidia-driver-gpu-ubuntu-24.04/latest/ami-id"
}

# --- what the machine may do ---

data "aws_iam_policy_document" "machines" {
  statement {
    actions = ["sts:AssumeRole"]
    principals {
      type        = "Service"
      identifiers = ["ec2.amazonaws.com"]
    }
  }
}

resource "aws_iam_role" "machine" {
  name_prefix        = "cltrain-"
  assume_role_policy = data.aws_iam_policy_document.machines.json
}

resource "aws_iam_role_policy" "store" {
  name   = "one-prefix"
  role   = aws_iam_role.machine.id
  policy = replace(replace(file("${path.module}/../../aws-policy.json"), "BUCKET", var.bucket), "PREFIX", var.prefix)
}

resource "aws_iam_instance_profile" "machine" {
  name_prefix = "cltrain-"
  role        = aws_iam_role.machine.name
}

# --- what reaches it: nothing. It reaches services by HTTPS, such as the bucket ---

resource "aws_security_group" "machine" {
  name_prefix = "cltrain-"
  description = "Nothing comes in; HTTPS goes out"
  egress {
    description = "HTTPS"
    from_port   = 443
    to_port     = 443
    protocol    = "tcp"
    cidr_blocks = ["0.0.0.0/0"]
  }
}

# --- the machine ---

resource "aws_instance" "machine" {
  ami                    = var.image != "" ? var.image : data.aws_ssm_parameter.image.insecure_value
  instance_type          = var.machine_type
  iam_instance_profile   = aws_iam_instance_profile.machine.name
  vpc_security_group_ids = [aws_security_group.machine.id]

  instance_market_options {
    market_type = "spot"
    spot_options {
      spot_instance_type             = "one-time"
      instance_interruption_behavior = "terminate"
      max_price                      = var.max_price
    }
  }
  # Switching itself off ends it, and the bill.
  instance_initiated_shutdown_behavior = "terminate"

  # The metadata service answers only to requests with a token. Two hops: programs in containers reach it, too.
  metadata_options {
    http_endpoint               = "enabled"
    http_tokens                 = "required"
    http_put_response_hop_limit = 2
  }

  root_block_device {
    volume_size           = var.disk_gb
    volume_type           = "gp3"
    encrypted             = true
    delete_on_termination = true
  }

  user_data = templatefile("${path.module}/../../cloud-init.yaml", {
    store          = "s3://${var.bucket}/${var.prefix}"
    config         = var.config
    options        = "cost.tags=${jsonencode([for key, value in var.tags : "${key}=${value}"])} ${var.options}"
    price_per_hour = var.price_per_hour
  })
  user_data_replace_on_change = true
  depends_on                  = [aws_iam_role_policy.store]

  tags = {
    Name = "cltrain"
  }

  lifecycle {
    ignore_changes = [ami] # a newer image does not end a training
  }
}
